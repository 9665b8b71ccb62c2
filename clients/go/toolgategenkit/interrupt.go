package toolgategenkit

import (
	"context"
	"errors"
	"fmt"

	"github.com/firebase/genkit/go/ai"
	"github.com/toolgate/toolgate/clients/go"
)

// Interrupt is what an interrupted tool request carries: enough for a list of what waits. The prompt itself has more.
type Interrupt struct {
	// CallID is the call of the tool request.
	CallID string `json:"callId"`
	// PromptID is the prompt that it waits for, its own or one of a call that it made.
	PromptID string `json:"promptId"`
	// Title says in a line what is asked.
	Title string `json:"title"`
	// Permission is the permission that is asked for; empty if the model asks questions.
	Permission string `json:"permission,omitempty"`
	// Patterns are what the tool is about to touch.
	Patterns []string `json:"patterns,omitempty"`
}

func interruptOf(callID string, prompt toolgate.Prompt) Interrupt {
	interrupt := Interrupt{CallID: callID, PromptID: prompt.Info().ID, Title: prompt.Title()}
	if asked, ok := prompt.(*toolgate.PermissionPrompt); ok {
		interrupt.Permission, interrupt.Patterns = asked.Permission.Name, asked.Permission.Patterns
	}
	return interrupt
}

// InterruptOf returns what an interrupted tool request carries, and whether it is one of these tools.
func InterruptOf(part *ai.Part) (Interrupt, bool) {
	interrupt, ok := ai.InterruptAs[Interrupt](part)
	return interrupt, ok && interrupt.CallID != "" && interrupt.PromptID != ""
}

// Prompt returns what an interrupted tool request asks, as it stands.
func (t *Tools) Prompt(ctx context.Context, part *ai.Part) (toolgate.Prompt, error) {
	interrupt, ok := InterruptOf(part)
	if !ok {
		return nil, errNoInterrupt
	}
	return t.client.Prompt(ctx, interrupt.PromptID)
}

var errNoInterrupt = errors.New("toolgate: the part is no interrupt of these tools; take it from Interrupts() of a response")

// Reply replies to the prompt that a person was shown, and returns the part that restarts the tool. If somebody else was
// faster, that decision stands, and the tool is restarted as well. A reply that was not taken is an error that says why.
func (t *Tools) Reply(
	ctx context.Context, part *ai.Part, prompt toolgate.Prompt, decision toolgate.Decision,
) (*ai.Part, error) {
	interrupt, ok := InterruptOf(part)
	if !ok {
		return nil, errNoInterrupt
	}
	if id := prompt.Info().ID; id != interrupt.PromptID {
		return nil, fmt.Errorf("toolgate: the interrupt is about the prompt %s, not %s", interrupt.PromptID, id)
	}
	reply, err := t.client.Reply(ctx, t.options.Name, prompt, decision)
	if err != nil {
		return nil, err
	}
	switch reply.Result {
	case toolgate.ReplyAccepted, toolgate.ReplyAlreadyResolved, toolgate.ReplyExpired, toolgate.ReplyWithdrawn,
		toolgate.ReplySecondApprovalNeeded:
		return t.Resume(part)
	default:
		return nil, fmt.Errorf("toolgate: the reply was not taken (%s): %s", reply.Result, reply.Message)
	}
}

// Resume returns the part that restarts the tool, for a prompt that was answered elsewhere. A prompt that is still open
// interrupts it again.
func (t *Tools) Resume(part *ai.Part) (*ai.Part, error) {
	interrupt, ok := InterruptOf(part)
	if !ok {
		return nil, errNoInterrupt
	}
	tool := t.tools[part.ToolRequest.Name]
	if tool == nil {
		return nil, fmt.Errorf("toolgate: the tool %s is not among these", part.ToolRequest.Name)
	}
	return tool.RestartWith(part, ai.WithResumedMetadata[any](map[string]any{resumedCall: interrupt.CallID}))
}

// Cancel cancels the call of an interrupted tool request that nobody goes on with.
func (t *Tools) Cancel(ctx context.Context, part *ai.Part) error {
	interrupt, ok := InterruptOf(part)
	if !ok {
		return errNoInterrupt
	}
	_, err := t.client.Cancel(ctx, interrupt.CallID)
	return err
}
