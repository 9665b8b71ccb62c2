package toolgate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// Host lends functions of this program to the service. To everybody else they are tools like the others: listed, checked
// against their schema, asked for, recorded and cancelled.
type Host struct {
	// Name is how the host is called, for people.
	Name string
	// Workspace is the workspace that it lends to; empty for that of the client, or else the first one.
	Workspace string
	// Tools are the tools that it lends.
	Tools []Tool
	// RunSubagent, if set, runs subagents: it makes the tool `task` available.
	RunSubagent func(ctx context.Context, run *Subagent) (ToolResult, error)
	// Subagents are the agents that it can run; none for all.
	Subagents []string
	// Hooks take part in every call of the workspace, by the names of the points.
	Hooks map[string]Hook
	// OnReady, if set, is called when the tools are lent, again after each reconnection. Without it, a tool or hook that
	// the service refuses ends Host with a [*RefusedError].
	OnReady func(Ready)
}

// Ready says what became of what a host lends.
type Ready struct {
	// Workspace is the workspace that it lends to.
	Workspace string
	// Refused are the tools and hooks that are not used.
	Refused []Refused
}

// Refused is a tool or a hook that is not used.
type Refused struct {
	// Name is its name.
	Name string
	// Reason says why.
	Reason string
}

// RefusedError says that the service does not take all that a host lends.
type RefusedError struct {
	// Refused are the tools and hooks that are not used.
	Refused []Refused
}

// Error names what is refused, and why.
func (e *RefusedError) Error() string {
	reasons := each(e.Refused, func(one Refused) string { return one.Name + ": " + one.Reason })
	return "toolgate: the service refuses " + strings.Join(reasons, "; ")
}

// DeniedError says that a permission was refused.
type DeniedError struct {
	// Message says why, for the model.
	Message string
}

// Error returns the text for the model.
func (e *DeniedError) Error() string { return e.Message }

// Hook takes part in a call. It returns the changed output, or nil if there is no change; an error refuses the call, with
// its text for the model.
type Hook func(ctx context.Context, event HookEvent) (json.RawMessage, error)

// HookEvent is what a hook is told.
type HookEvent struct {
	// Point is the point, for instance `tool.execute.before`.
	Point string
	// Input is what it is about.
	Input json.RawMessage
	// Output is what it may change.
	Output json.RawMessage
}

// Subagent is a subagent to run. The calls that it makes name CallID as their parent and SessionID as their session:
// [WithParentCall], [WithSession] and [WithAgent].
type Subagent struct {
	*Invocation
	// SessionID is the subagent's session; Context has the one that the task was called in.
	SessionID string
	// Resumed says that the session goes on.
	Resumed bool
	// Agent is the agent, AgentPrompt its own system prompt.
	Agent, AgentPrompt string
	// Model is the model.
	Model Model
	// Description is what it is to do in a few words, Prompt all of it.
	Description, Prompt string
	// Command is the slash command behind it, or empty.
	Command string
	// AllowedTools are the tools that it is offered, DeniedTools those that it is not.
	AllowedTools, DeniedTools []string

	message *toolgatev1.HostRunSubagent
}

// Proto returns the message of the contract.
func (s *Subagent) Proto() *toolgatev1.HostRunSubagent { return s.message }

func newSubagent(call *Invocation, message *toolgatev1.HostRunSubagent) *Subagent {
	model := message.GetModel()
	return &Subagent{
		Invocation: call, SessionID: message.GetSessionId(), Resumed: message.GetResumed(), Agent: message.GetAgent(),
		AgentPrompt: message.GetAgentPrompt(), Description: message.GetDescription(), Prompt: message.GetPrompt(),
		Model:   Model{Provider: model.GetProviderId(), ID: model.GetModelId(), Package: model.GetPackage()},
		Command: message.GetCommand(), AllowedTools: message.GetAllowedTools(), DeniedTools: message.GetDeniedTools(),
		message: message,
	}
}

// Host lends tools until ctx ends, and returns why it ended. It reconnects by itself, within the grace that the service
// gives: a function that runs goes on, and no invocation is run twice. Then it takes the tools back, and returns when all
// functions have.
func (c *Client) Host(ctx context.Context, host Host) error {
	if host.Workspace == "" {
		host.Workspace = c.config.context.Workspace
	}
	hello, err := host.hello()
	if err != nil {
		return err
	}
	running, end := context.WithCancelCause(ctx)
	h := &hosting{
		Host: host, client: c, ctx: running, hello: hello, tools: map[string]Tool{},
		invocations: map[string]*Invocation{}, resumed: make(chan struct{}),
	}
	for _, tool := range host.Tools {
		h.tools[tool.Name] = tool
	}
	err = c.keepOpen(ctx, h.run)
	if h.refused != nil {
		err = h.refused
	}
	end(err)
	h.functions.Wait()
	return err
}

func (h *Host) hello() (*toolgatev1.HostHello, error) {
	hello := &toolgatev1.HostHello{
		Name: h.Name, Workspace: h.Workspace, RunsSubagents: h.RunSubagent != nil, Subagents: h.Subagents,
	}
	for _, tool := range h.Tools {
		if tool.Err != nil {
			return nil, tool.Err
		}
		if tool.Run == nil {
			return nil, fmt.Errorf("toolgate: the tool %s has no function", tool.Name)
		}
		lent := &toolgatev1.LentTool{
			Name: tool.Name, Description: tool.Description, InputSchemaJson: string(tool.Schema),
		}
		for _, effect := range tool.Effects {
			value, err := number[toolgatev1.ToolEffect](toolEffectPrefix, toolgatev1.ToolEffect_value, effect)
			if err != nil {
				return nil, err
			}
			lent.Effects = append(lent.Effects, value)
		}
		hello.Tools = append(hello.Tools, lent)
	}
	for point := range h.Hooks {
		hello.Hooks = append(hello.Hooks, point)
	}
	return hello, nil
}
