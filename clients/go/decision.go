package toolgate

import (
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// Decision is what a [PromptHandler] decides: the value of [Once], [Always], [Reject], [Answer], [Instead] or [Leave].
type Decision struct {
	kind     toolgatev1.PromptDecision
	message  string
	answers  [][]string
	scope    GrantScope
	patterns []string
	input    any
}

// GrantScope says how far a standing approval reaches, and what ends it by itself. The zero value is the workspace, while
// the service runs.
type GrantScope struct {
	// Reach says for whom it holds.
	Reach GrantReach
	// Expires is when it ends; zero for not by time.
	Expires time.Time
	// MaxUses is how many requests it lets through; 0 for any number.
	MaxUses int
}

// Leave leaves the prompt to others; it is the zero value.
func Leave() Decision { return Decision{} }

// Once allows this call only.
func Once() Decision { return Decision{kind: toolgatev1.PromptDecision_PROMPT_DECISION_ONCE} }

// Always allows this call, and from now on what these patterns of the prompt match, or all of its `always` patterns if
// none is given.
func Always(scope GrantScope, patterns ...string) Decision {
	return Decision{kind: toolgatev1.PromptDecision_PROMPT_DECISION_ALWAYS, scope: scope, patterns: patterns}
}

// Reject refuses the call, with a message for the model that may be empty. Questions are dismissed.
func Reject(message string) Decision {
	return Decision{kind: toolgatev1.PromptDecision_PROMPT_DECISION_REJECT, message: message}
}

// Answer answers questions: for each one, in their order, the labels chosen and the own answers written.
func Answer(answers ...[]string) Decision {
	return Decision{kind: toolgatev1.PromptDecision_PROMPT_DECISION_ANSWER, answers: answers}
}

// Instead allows this call, but with another input, as [Client.Execute] takes it. Only prompts that are editable take it.
func Instead(input any) Decision {
	return Decision{kind: toolgatev1.PromptDecision_PROMPT_DECISION_INSTEAD, input: input}
}

func (d Decision) leaves() bool {
	return d.kind == toolgatev1.PromptDecision_PROMPT_DECISION_UNSPECIFIED
}

// reply makes the reply to a prompt, citing what was shown.
func (d Decision) reply(prompt *PromptInfo) (*toolgatev1.PromptReply, error) {
	id, err := newID()
	if err != nil {
		return nil, err
	}
	reply := &toolgatev1.PromptReply{
		PromptId: prompt.ID, ReplyId: id, Decision: d.kind, Message: d.message, InputDigest: prompt.InputDigest,
		AlwaysPatterns: d.patterns,
	}
	if d.kind == toolgatev1.PromptDecision_PROMPT_DECISION_ALWAYS && len(d.patterns) == 0 {
		reply.AlwaysPatterns = prompt.message.GetPermission().GetAlways()
	}
	for _, values := range d.answers {
		reply.Answers = append(reply.Answers, &toolgatev1.QuestionAnswer{Values: values})
	}
	if d.scope != (GrantScope{}) {
		reach, err := number[toolgatev1.GrantReach](grantReachPrefix, toolgatev1.GrantReach_value, d.scope.Reach)
		if err != nil {
			return nil, err
		}
		reply.Scope = &toolgatev1.GrantScope{Reach: reach, MaxUses: int32(d.scope.MaxUses)}
		if !d.scope.Expires.IsZero() {
			reply.Scope.ExpireTime = timestamppb.New(d.scope.Expires)
		}
	}
	if d.kind == toolgatev1.PromptDecision_PROMPT_DECISION_INSTEAD {
		if reply.InputJson, err = inputText(d.input); err != nil {
			return nil, err
		}
	}
	return reply, nil
}
