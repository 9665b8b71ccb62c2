// Package toolgategenkit makes the tools of a Toolgate service tools of Genkit, and what a person is asked interrupts of Genkit.
//
// Where the rules ask a person, the tool interrupts and Generate returns; the call waits in the service meanwhile. The
// application shows [Tools.Prompt], takes the decision with [Tools.Reply], and generates again with the part that Reply
// returns in ai.WithToolRestarts. History and interrupts may be stored in between, and another process may go on.
//
// Invariant: nothing here decides about a prompt, and a tool runs once however often it is restarted.
package toolgategenkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/firebase/genkit/go/ai"
	"github.com/toolgate/toolgate/clients/go"
)

// resumedCall is the key of the metadata with which an interrupted tool is restarted: the call to go on with.
const resumedCall = "toolgateCall"

// cancelLimit bounds how long an ended context waits for its call to be cancelled.
const cancelLimit = 10 * time.Second

// Options say which tools there are and how they are called. The zero value is all tools of the client, with interrupts.
type Options struct {
	// List says for whom the tools are listed, for instance with toolgate.WithModel.
	List []toolgate.ToolsOption
	// Only, if set, picks the tools.
	Only func(toolgate.ToolDefinition) bool
	// Call, if set, says in whose name each call is made: its context is the one of Generate, which may carry the user.
	Call func(ctx context.Context) []toolgate.CallOption
	// Name is recorded with the decisions of [Tools.Reply]; `genkit` unless said.
	Name string
	// Wait waits in the tool until prompts are answered by others (Client.Approve, `toolgate approve`, the console),
	// instead of interrupting.
	Wait bool
}

// Tools are the tools of a service for Genkit.
type Tools struct {
	client  *toolgate.Client
	options Options
	names   []string
	tools   map[string]*tool
}

// New lists the tools of the client's service.
func New(ctx context.Context, client *toolgate.Client, options Options) (*Tools, error) {
	definitions, err := client.Tools(ctx, options.List...)
	if err != nil {
		return nil, err
	}
	if options.Name == "" {
		options.Name = "genkit"
	}
	tools := &Tools{client: client, options: options, tools: map[string]*tool{}}
	for _, definition := range definitions {
		if options.Only != nil && !options.Only(definition) {
			continue
		}
		tool, err := tools.tool(definition)
		if err != nil {
			return nil, err
		}
		tools.names = append(tools.names, definition.Name)
		tools.tools[definition.Name] = tool
	}
	return tools, nil
}

// Refs returns the tools for ai.WithTools, in the order in which a model should be told of them.
func (t *Tools) Refs() []ai.ToolRef {
	refs := make([]ai.ToolRef, 0, len(t.names))
	for _, name := range t.names {
		refs = append(refs, t.tools[name])
	}
	return refs
}

func (t *Tools) tool(definition toolgate.ToolDefinition) (*tool, error) {
	var schema map[string]any
	if err := json.Unmarshal(definition.InputSchema, &schema); err != nil {
		return nil, fmt.Errorf("toolgate: the schema of the tool %s cannot be read: %w", definition.Name, err)
	}
	run := func(ctx *ai.ToolContext, input any) (*ai.MultipartToolResponse, error) {
		return t.run(ctx, definition.Name, input)
	}
	return &tool{ai.NewMultipartTool(definition.Name, definition.Description, run), schema}, nil
}

// run makes a call, or goes on with the one that interrupted, until its end or its next interrupt.
func (t *Tools) run(ctx *ai.ToolContext, name string, input any) (*ai.MultipartToolResponse, error) {
	callID, err := t.call(ctx, name, input)
	if err != nil {
		return nil, err
	}
	end := t.await(ctx, callID)
	switch {
	case ctx.Err() != nil:
		t.cancelled(ctx, callID)
		return nil, context.Cause(ctx)
	case end.err != nil:
		return nil, end.err
	case end.prompt != nil:
		return nil, ai.InterruptWith(ctx, interruptOf(callID, end.prompt))
	default:
		return response(end.result), nil
	}
}

func (t *Tools) call(ctx *ai.ToolContext, name string, input any) (string, error) {
	if ctx.IsResumed() {
		callID, ok := ai.ResumedValue[string](ctx, resumedCall)
		if !ok {
			return "", errors.New("toolgate: the restart names no call; make it with Tools.Reply or Tools.Resume")
		}
		return callID, nil
	}
	var options []toolgate.CallOption
	if t.options.Call != nil {
		options = t.options.Call(ctx)
	}
	execution, err := t.client.Execute(ctx, name, input, append(options, toolgate.WithOutputMode(toolgate.OutputNone))...)
	if err != nil {
		return "", err
	}
	// It is followed by its id, as after a restart in another process.
	execution.Detach()
	return execution.CallID(), execution.Close()
}

// cancelled cancels the call of a context that has ended.
func (t *Tools) cancelled(ctx context.Context, callID string) {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
	defer end()
	// The caller learns that its context has ended; a call that could not be told shows in the service.
	_, _ = t.client.Cancel(ctx, callID)
}

// response is what the model gets. Genkit ends the whole generation if a tool returns an error, so a failed call is a text.
func response(result *toolgate.Result) *ai.MultipartToolResponse {
	response := &ai.MultipartToolResponse{Output: result.Text()}
	for _, attachment := range result.Attachments {
		response.Content = append(response.Content, ai.NewMediaPart(attachment.MIME, attachment.Link()))
	}
	return response
}
