package main

import (
	"encoding/base64"
	"strings"

	"github.com/toolgate/toolgate/clients/go"
	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// commands has what the driver can do.
var commands map[string]func(*command) (fields, error)

func init() {
	commands = map[string]func(*command) (fields, error){
		"connect": connect, "close": closeClient, "tools": tools, "formats": formats, "forms": forms, "execute": execute, "cancel": cancel, "interrupt": interrupt,
		"approvals": approvals, "reply": reply, "host": host, "report": report, "stop": stop, "read": readOutput,
		"search": search, "save": save, "events": events, "unary": unary, "greeter": greeter,
	}
}

func connect(c *command) (fields, error) {
	var arguments struct{ Target, Token string }
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	var options []toolgate.Option
	if arguments.Token != "" {
		options = append(options, toolgate.WithToken(arguments.Token))
	}
	client, err := toolgate.NewClient(arguments.Target, options...)
	if err != nil {
		return nil, err
	}
	c.driver.mutex.Lock()
	defer c.driver.mutex.Unlock()
	c.driver.clients[c.Client] = client
	return nil, nil
}

func closeClient(c *command) (fields, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	c.driver.mutex.Lock()
	delete(c.driver.clients, c.Client)
	c.driver.mutex.Unlock()
	return nil, client.Close()
}

func model(message *toolgatev1.ModelRef) toolgate.Model {
	return toolgate.Model{
		Provider: message.GetProviderId(), ID: message.GetModelId(), Package: message.GetPackage(),
	}
}

func listing(c *command) (*toolgate.Client, []toolgate.ToolsOption, error) {
	client, err := c.client()
	if err != nil {
		return nil, nil, err
	}
	var arguments struct{ Request string }
	if err := c.arguments(&arguments); err != nil {
		return nil, nil, err
	}
	request := &toolgatev1.ListToolsRequest{}
	if err := decode(arguments.Request, request); err != nil {
		return nil, nil, err
	}
	return client, []toolgate.ToolsOption{
		toolgate.WithWorkspace(request.GetWorkspace()), toolgate.WithAgent(request.GetAgent()),
		toolgate.WithModel(model(request.GetModel())), toolgate.WithClientKind(request.GetClientKind()),
		toolgate.WithParentCall(request.GetParentCallId()), toolgate.WithPageSize(int(request.GetPageSize())),
	}, nil
}

func tools(c *command) (fields, error) {
	client, options, err := listing(c)
	if err != nil {
		return nil, err
	}
	tools, err := client.Tools(c.ctx, options...)
	if err != nil {
		return nil, err
	}
	texts, err := encodeAll(tools, func(tool toolgate.ToolDefinition) proto.Message { return tool.Proto() })
	return fields{"tools": texts}, err
}

func formats(c *command) (fields, error) {
	client, options, err := listing(c)
	if err != nil {
		return nil, err
	}
	done := fields{}
	for form, list := range map[string]func() (any, error){
		"openai":           func() (any, error) { return client.OpenAITools(c.ctx, options...) },
		"openai_responses": func() (any, error) { return client.OpenAIResponsesTools(c.ctx, options...) },
		"anthropic":        func() (any, error) { return client.AnthropicTools(c.ctx, options...) },
		"gemini":           func() (any, error) { return client.GeminiTools(c.ctx, options...) },
	} {
		if done[form], err = list(); err != nil {
			return nil, err
		}
	}
	return done, nil
}

func forms(c *command) (fields, error) {
	var arguments struct {
		Call, Tool string
		ModelCall  string `json:"model_call"`
	}
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	message := &toolgatev1.Call{}
	if err := decode(arguments.Call, message); err != nil {
		return nil, err
	}
	result, id := toolgate.CallOf(message).Result, arguments.ModelCall
	if result == nil {
		return nil, &toolgate.Error{Code: codes.InvalidArgument, Message: "the call has not ended"}
	}
	return fields{
		"openai": result.OpenAI(id), "openai_responses": result.OpenAIResponses(id), "anthropic": result.Anthropic(id),
		"gemini": result.Gemini(arguments.Tool, id),
	}, nil
}

// policy is what a request says of lost clients. Who does not say gets what the library does.
func policy(request *toolgatev1.ExecuteToolRequest) toolgate.OnDisconnect {
	switch request.GetOnDisconnect() {
	case toolgatev1.OnDisconnect_ON_DISCONNECT_KEEP:
		return toolgate.Keep
	case toolgatev1.OnDisconnect_ON_DISCONNECT_CANCEL:
		return toolgate.CancelByServer
	default:
		return toolgate.CancelByClient
	}
}

func execute(c *command) (fields, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var arguments struct{ Request string }
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	request := &toolgatev1.ExecuteToolRequest{}
	if err := decode(arguments.Request, request); err != nil {
		return nil, err
	}
	var input any
	switch arguments := request.GetArguments().(type) {
	case *toolgatev1.ExecuteToolRequest_InputJson:
		input = arguments.InputJson
	case *toolgatev1.ExecuteToolRequest_Input:
		input = arguments.Input.AsMap()
	}
	context := request.GetContext()
	options := []toolgate.CallOption{
		toolgate.WithWorkspace(context.GetWorkspace()), toolgate.WithSession(context.GetSessionId()),
		toolgate.WithMessage(context.GetMessageId()), toolgate.WithAgent(context.GetAgent()),
		toolgate.WithModel(model(context.GetModel())), toolgate.WithClientKind(context.GetClientKind()),
		toolgate.WithParentCall(context.GetParentCallId()), toolgate.WithCallID(request.GetCallId()),
		toolgate.WithOnDisconnect(policy(request)), toolgate.WithTimeout(request.GetTimeout().AsDuration()),
	}
	if context.GetExtra() != nil {
		options = append(options, toolgate.WithExtra(context.GetExtra().AsMap()))
	}
	if mode := request.GetOutput(); mode != toolgatev1.OutputMode_OUTPUT_MODE_UNSPECIFIED {
		name := strings.TrimPrefix(mode.String(), "OUTPUT_MODE_")
		options = append(options, toolgate.WithOutputMode(toolgate.OutputMode(name)))
	}
	execution, err := client.Execute(c.ctx, request.GetTool(), input, options...)
	if err != nil {
		return nil, err
	}
	defer execution.Close()
	c.execution <- execution
	for event, err := range execution.Events() {
		if err != nil {
			return nil, err
		}
		text, err := encode(event.Proto())
		if err != nil {
			return nil, err
		}
		c.report(fields{"event": text})
	}
	result, err := execution.Result()
	if result == nil {
		return nil, err
	}
	// The end of a context that this command was cancelled by is no error here: the call has its end.
	text, err := encode(result.Proto())
	return fields{"call": text, "ok": result.OK}, err
}

// cancel asks the call of an execution to stop.
func cancel(c *command) (fields, error) {
	var arguments struct{ Execution int64 }
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	other, err := c.other(arguments.Execution)
	if err != nil {
		return nil, err
	}
	select {
	// A host may have been told of the call before the library has returned its execution.
	case execution := <-other.execution:
		other.execution <- execution
		return nil, execution.Cancel(c.ctx)
	case <-other.ended:
		return nil, &toolgate.Error{Code: codes.NotFound, Message: "the execution has ended"}
	}
}

// interrupt ends the context of an execution, which is over once the call is.
func interrupt(c *command) (fields, error) {
	var arguments struct{ Execution int64 }
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	execution, err := c.other(arguments.Execution)
	if err != nil {
		return nil, err
	}
	execution.stop()
	<-execution.ended
	return nil, nil
}

func stop(c *command) (fields, error) {
	var arguments struct{ Command int64 }
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	other, err := c.other(arguments.Command)
	if err != nil {
		return nil, err
	}
	c.driver.mutex.Lock()
	other.stopped = true
	c.driver.mutex.Unlock()
	other.stop()
	return nil, nil
}

func readOutput(c *command) (fields, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var arguments struct {
		Output        string
		Offset, Limit int64
	}
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	output := client.Output(arguments.Output)
	for data, err := range output.Read(c.ctx, toolgate.Bytes(arguments.Offset, arguments.Limit)) {
		if err != nil {
			return nil, err
		}
		c.report(fields{"data": base64.StdEncoding.EncodeToString(data)})
	}
	return nil, nil
}

func search(c *command) (fields, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var arguments struct{ Request string }
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	request := &toolgatev1.SearchOutputRequest{}
	if err := decode(arguments.Request, request); err != nil {
		return nil, err
	}
	found, err := client.Output(request.GetOutputId()).Search(c.ctx, toolgate.Search{
		Pattern: request.GetPattern(), Before: int(request.GetBeforeContext()), After: int(request.GetAfterContext()),
		Limit: int(request.GetMaxMatches()),
	})
	if err != nil {
		return nil, err
	}
	text, err := encode(found.Proto())
	return fields{"response": text}, err
}

func save(c *command) (fields, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var arguments struct{ Output, Path string }
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	written, err := client.Output(arguments.Output).Save(c.ctx, arguments.Path, func(done, total int64) {
		c.report(fields{"progress": fields{"bytes": done, "total": total}})
	})
	return fields{"bytes": written}, err
}

func events(c *command) (fields, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var arguments struct{ Request string }
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	request := &toolgatev1.WatchEventsRequest{}
	if err := decode(arguments.Request, request); err != nil {
		return nil, err
	}
	filter := toolgate.EventFilter{
		Workspace: request.GetWorkspace(), SessionID: request.GetSessionId(), After: request.AfterSequence,
		OnReady: func() { c.report(fields{"ready": true}) },
	}
	for event, err := range client.ServiceEvents(c.ctx, filter) {
		if err != nil {
			return nil, err
		}
		text, err := encode(&toolgatev1.WatchEventsResponse{Event: event})
		if err != nil {
			return nil, err
		}
		c.report(fields{"event": text})
	}
	return nil, nil
}

func unary(c *command) (fields, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var arguments struct{ Method, Request string }
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	request, response, err := messages(arguments.Method)
	if err != nil {
		return nil, err
	}
	if err := decode(arguments.Request, request); err != nil {
		return nil, err
	}
	if err := client.Conn().Invoke(c.ctx, "/"+arguments.Method, request, response); err != nil {
		return nil, err
	}
	text, err := encode(response)
	return fields{"response": text}, err
}

// messages makes the messages of a method of the contract.
func messages(method string) (request, response proto.Message, err error) {
	name := protoreflect.FullName(strings.ReplaceAll(method, "/", "."))
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
	descriptor, ok := found.(protoreflect.MethodDescriptor)
	if err != nil || !ok {
		return nil, nil, &toolgate.Error{Code: codes.InvalidArgument, Message: "no such method: " + method}
	}
	input, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.Input().FullName())
	if err != nil {
		return nil, nil, err
	}
	output, err := protoregistry.GlobalTypes.FindMessageByName(descriptor.Output().FullName())
	if err != nil {
		return nil, nil, err
	}
	return input.New().Interface(), output.New().Interface(), nil
}
