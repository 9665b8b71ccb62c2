package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/toolgate/toolgate/clients/go"
	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc/codes"
)

func approvals(c *command) (fields, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var arguments struct {
		Name, Filter string
		Everybody    bool
	}
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	filter := &toolgatev1.PromptFilter{}
	if err := decode(arguments.Filter, filter); err != nil {
		return nil, err
	}
	return nil, client.Approve(c.ctx, toolgate.Approver{
		Name: arguments.Name, Workspace: filter.GetWorkspace(), SessionIDs: filter.GetSessionIds(),
		Everybody: arguments.Everybody,
		Handle: func(ctx context.Context, prompt toolgate.Prompt) (toolgate.Decision, error) {
			return c.ask(ctx, prompt)
		},
		OnReady: func() { c.report(fields{"ready": true}) },
		OnReply: func(reply toolgate.Reply) {
			c.report(fields{"result": fields{"prompt_id": reply.PromptID, "result": reply.Result}})
		},
	})
}

// ask shows a prompt and waits for the command `reply`.
func (c *command) ask(ctx context.Context, prompt toolgate.Prompt) (toolgate.Decision, error) {
	replies := make(chan toolgate.Decision, 1)
	defer c.wait(prompt.Info().ID, replies)()
	text, err := encode(prompt.Info().Proto())
	if err != nil {
		return toolgate.Leave(), err
	}
	c.report(fields{"prompt": text})
	select {
	case decision := <-replies:
		return decision, nil
	case <-ctx.Done():
		if errors.Is(context.Cause(ctx), toolgate.ErrPromptEnded) {
			c.report(fields{"gone": prompt.Info().ID})
		}
		return toolgate.Leave(), context.Cause(ctx)
	}
}

func reply(c *command) (fields, error) {
	var arguments struct {
		Approvals int64
		Reply     string
	}
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	message := &toolgatev1.PromptReply{}
	if err := decode(arguments.Reply, message); err != nil {
		return nil, err
	}
	approvals, err := c.other(arguments.Approvals)
	if err != nil {
		return nil, err
	}
	replies, err := find[chan toolgate.Decision](approvals, message.GetPromptId())
	if err != nil {
		return nil, err
	}
	select {
	case replies <- decision(message):
		return nil, nil
	default:
		return nil, &toolgate.Error{Code: codes.NotFound, Message: "the prompt has its reply"}
	}
}

func decision(reply *toolgatev1.PromptReply) toolgate.Decision {
	switch reply.GetDecision() {
	case toolgatev1.PromptDecision_PROMPT_DECISION_ONCE:
		return toolgate.Once()
	case toolgatev1.PromptDecision_PROMPT_DECISION_ALWAYS:
		return toolgate.Always(scope(reply.GetScope()), reply.GetAlwaysPatterns()...)
	case toolgatev1.PromptDecision_PROMPT_DECISION_REJECT:
		return toolgate.Reject(reply.GetMessage())
	case toolgatev1.PromptDecision_PROMPT_DECISION_ANSWER:
		var answers [][]string
		for _, answer := range reply.GetAnswers() {
			answers = append(answers, answer.GetValues())
		}
		return toolgate.Answer(answers...)
	case toolgatev1.PromptDecision_PROMPT_DECISION_INSTEAD:
		return toolgate.Instead(reply.GetInputJson())
	default:
		return toolgate.Leave()
	}
}

func scope(message *toolgatev1.GrantScope) toolgate.GrantScope {
	scope := toolgate.GrantScope{MaxUses: int(message.GetMaxUses())}
	if reach := message.GetReach(); reach != toolgatev1.GrantReach_GRANT_REACH_UNSPECIFIED {
		scope.Reach = toolgate.GrantReach(strings.TrimPrefix(reach.String(), "GRANT_REACH_"))
	}
	if message.GetExpireTime() != nil {
		scope.Expires = message.GetExpireTime().AsTime()
	}
	return scope
}

// act is what a lent function is told to do. What it is done with goes to `done`.
type act struct {
	report *toolgatev1.HostReport
	done   chan<- outcome
}

// invocation is where a lent function waits for its acts, until it is over.
type invocation struct {
	acts chan act
	over chan struct{}
}

type outcome struct {
	done fields
	err  error
}

func (c *command) onReady(ready toolgate.Ready) {
	refused := make([]string, 0, len(ready.Refused))
	for _, one := range ready.Refused {
		// A message of two strings can always be encoded.
		text, _ := encode(&toolgatev1.HostRefused{Name: one.Name, Reason: one.Reason})
		refused = append(refused, text)
	}
	c.report(fields{"ready": fields{"refused": refused}})
}

func host(c *command) (fields, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	var arguments struct{ Hello string }
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	hello := &toolgatev1.HostHello{}
	if err := decode(arguments.Hello, hello); err != nil {
		return nil, err
	}
	lent := toolgate.Host{
		Name: hello.GetName(), Workspace: hello.GetWorkspace(), Subagents: hello.GetSubagents(), OnReady: c.onReady,
	}
	for _, tool := range hello.GetTools() {
		one := toolgate.Tool{
			Name: tool.GetName(), Description: tool.GetDescription(), Schema: json.RawMessage(tool.GetInputSchemaJson()),
			Run: func(ctx context.Context, call *toolgate.Invocation) (toolgate.ToolResult, error) {
				text, err := encode(call.Proto())
				if err != nil {
					return toolgate.ToolResult{}, err
				}
				return c.serve(ctx, call, fields{"invoke": text})
			},
		}
		for _, effect := range tool.GetEffects() {
			name := strings.TrimPrefix(effect.String(), "TOOL_EFFECT_")
			one.Effects = append(one.Effects, toolgate.ToolEffect(name))
		}
		lent.Tools = append(lent.Tools, one)
	}
	if hello.GetRunsSubagents() {
		lent.RunSubagent = func(ctx context.Context, run *toolgate.Subagent) (toolgate.ToolResult, error) {
			text, err := encode(run.Proto())
			if err != nil {
				return toolgate.ToolResult{}, err
			}
			return c.serve(ctx, run.Invocation, fields{"subagent": text})
		}
	}
	return nil, client.Host(c.ctx, lent)
}

// serve says that a function was called, and does what the commands `report` say.
func (c *command) serve(ctx context.Context, call *toolgate.Invocation, called fields) (toolgate.ToolResult, error) {
	told := invocation{make(chan act), make(chan struct{})}
	defer close(told.over)
	forget := c.wait(call.ID, told)
	defer forget()
	c.report(called)
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), toolgate.ErrInvocationCancelled) {
				c.report(fields{"cancelled": call.ID})
			}
			return toolgate.ToolResult{}, context.Cause(ctx)
		case act := <-told.acts:
			switch report := act.report.GetReport().(type) {
			case *toolgatev1.HostReport_Progress:
				err := call.Progress(report.Progress.GetTitle(), mapOf(report.Progress.GetMetadata()))
				act.done <- outcome{nil, err}
			case *toolgatev1.HostReport_Output:
				_, err := call.Write(report.Output.GetData())
				act.done <- outcome{nil, err}
			case *toolgatev1.HostReport_Ask:
				// The function may do other things while it waits.
				go func() { act.done <- answer(ctx, call, report.Ask) }()
			case *toolgatev1.HostReport_Completed:
				forget()
				act.done <- outcome{}
				return result(report.Completed), nil
			case *toolgatev1.HostReport_Failed:
				forget()
				act.done <- outcome{}
				return toolgate.ToolResult{}, errors.New(report.Failed.GetError())
			default:
				act.done <- outcome{nil, errors.New("a function cannot report this")}
			}
		}
	}
}

func answer(ctx context.Context, call *toolgate.Invocation, ask *toolgatev1.HostAsk) outcome {
	err := call.Ask(ctx, toolgate.Ask{
		Permission: ask.GetPermission(), Patterns: ask.GetPatterns(), Always: ask.GetAlways(), Title: ask.GetTitle(),
		Metadata: mapOf(ask.GetMetadata()),
	})
	var denied *toolgate.DeniedError
	if err != nil && !errors.As(err, &denied) {
		return outcome{nil, err}
	}
	return outcome{fields{"allowed": err == nil}, nil}
}

func result(completed *toolgatev1.HostCompleted) toolgate.ToolResult {
	result := toolgate.ToolResult{
		Title: completed.GetTitle(), Output: completed.GetOutput(), Metadata: mapOf(completed.GetMetadata()),
	}
	for _, one := range completed.GetAttachments() {
		result.Attachments = append(result.Attachments, toolgate.Attachment{
			MIME: one.GetMime(), Filename: one.GetFilename(), Data: one.GetData(), URL: one.GetUrl(),
		})
	}
	return result
}

func mapOf(message interface{ AsMap() map[string]any }) map[string]any { return message.AsMap() }

func report(c *command) (fields, error) {
	var arguments struct {
		Host   int64
		Report string
	}
	if err := c.arguments(&arguments); err != nil {
		return nil, err
	}
	message := &toolgatev1.HostReport{}
	if err := decode(arguments.Report, message); err != nil {
		return nil, err
	}
	host, err := c.other(arguments.Host)
	if err != nil {
		return nil, err
	}
	told, err := find[invocation](host, message.GetInvocationId())
	if err != nil {
		return nil, err
	}
	done := make(chan outcome, 1)
	select {
	case told.acts <- act{message, done}:
	case <-told.over:
		return nil, &toolgate.Error{Code: codes.NotFound, Message: "the invocation is over"}
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
	select {
	case outcome := <-done:
		return outcome.done, outcome.err
	case <-c.ctx.Done():
		return nil, c.ctx.Err()
	}
}

// greeting is what the tool `greet` takes.
type greeting struct {
	Name  string `json:"name" jsonschema_description:"Who is greeted."`
	Times int    `json:"times,omitempty" jsonschema:"default=1" jsonschema_description:"How often."`
}

func greet(_ context.Context, call *toolgate.Invocation, input greeting) (toolgate.ToolResult, error) {
	var lines []string
	for i := range input.Times {
		lines = append(lines, "Hello, "+input.Name+"!")
		if err := call.Progress("", map[string]any{"greeted": i + 1}); err != nil {
			return toolgate.ToolResult{}, err
		}
	}
	return toolgate.ToolResult{Title: "Greeting " + input.Name, Output: strings.Join(lines, "\n")}, nil
}

func greeter(c *command) (fields, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	return nil, client.Host(c.ctx, toolgate.Host{
		Name: "greeter", Tools: []toolgate.Tool{toolgate.NewTool("greet", "Greets somebody.", greet)}, OnReady: c.onReady,
	})
}
