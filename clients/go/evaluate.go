package toolgate

import (
	"context"
	"encoding/json"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// Evaluation is what a call would ask before it does anything.
type Evaluation struct {
	// Action is the strictest verdict of all: ActionAsk also if Complete is false and nothing is denied.
	Action PermissionAction
	// Tool is the tool that would run; `invalid` if the name or the JSON could not be understood.
	Tool string
	// Summary is what it would touch, one line: a command, a path, a URL, a pattern.
	Summary string
	// Input is the frozen input.
	Input json.RawMessage
	// InputDigest is its SHA-256, in hexadecimal digits.
	InputDigest string
	// Requests are what would be asked, in order. Nothing follows one that is denied.
	Requests []EvaluatedRequest
	// Children are the calls that it would make.
	Children []*Evaluation
	// Problem is why the call would fail before it has asked everything, for the model; empty if it would not.
	Problem string
	// Complete says whether Requests is all that is asked. It is not for tools whose own code decides.
	Complete bool

	message *toolgatev1.CallEvaluation
}

// EvaluatedRequest is one thing that a call would ask: a permission, or questions for a person.
type EvaluatedRequest struct {
	// Permission is the permission; nil if questions are asked.
	Permission *Permission
	// Questions are the questions; none if a permission is asked for.
	Questions []Question
	// Action is the verdict.
	Action PermissionAction
	// GrantIDs are the standing approvals that turn ask into allow.
	GrantIDs []string
	// Announced says that it is asked only after the request before it is approved.
	Announced bool
}

// Proto returns the message of the contract, which has more.
func (e *Evaluation) Proto() *toolgatev1.CallEvaluation { return e.message }

func newEvaluation(message *toolgatev1.CallEvaluation) *Evaluation {
	return &Evaluation{
		Action: word[PermissionAction](actionPrefix, message.GetAction()), Tool: message.GetTool(),
		Summary: message.GetSummary(), Input: json.RawMessage(message.GetInputJson()),
		InputDigest: message.GetInputDigest(), Requests: each(message.GetRequests(), newEvaluatedRequest),
		Children: each(message.GetChildren(), newEvaluation), Problem: message.GetProblem(),
		Complete: message.GetComplete(), message: message,
	}
}

func newEvaluatedRequest(message *toolgatev1.EvaluatedRequest) EvaluatedRequest {
	request := EvaluatedRequest{
		Questions: each(message.GetQuestions().GetQuestions(), newQuestion),
		Action:    word[PermissionAction](actionPrefix, message.GetAction()),
		GrantIDs:  message.GetGrantIds(), Announced: message.GetAnnounced(),
	}
	if permission := message.GetPermission(); permission != nil {
		asked := newPermission(permission)
		request.Permission = &asked
	}
	return request
}

// Evaluate says what a call would ask, and what rules and standing approvals say to that. The input is the one of
// [Client.Execute]. Nothing is run, changed or recorded, and nobody is asked.
func (c *Client) Evaluate(ctx context.Context, tool string, input any, options ...ContextOption) (*Evaluation, error) {
	named, err := c.context(options)
	if err != nil {
		return nil, err
	}
	text, err := inputText(input)
	if err != nil {
		return nil, err
	}
	response, err := c.tools.EvaluateCall(ctx, &toolgatev1.EvaluateCallRequest{
		Context: named, Tool: tool, Arguments: &toolgatev1.EvaluateCallRequest_InputJson{InputJson: text},
	})
	if err != nil {
		return nil, err
	}
	return newEvaluation(response.GetEvaluation()), nil
}
