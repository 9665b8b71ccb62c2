package toolgate

import (
	"encoding/json"
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// Prompt is a question to a person that a call waits on: a [*PermissionPrompt] or a [*QuestionPrompt].
type Prompt interface {
	// Info returns what both kinds have.
	Info() *PromptInfo
	// Title returns a line that says what is asked.
	Title() string
}

// PromptInfo is what all prompts have.
type PromptInfo struct {
	// ID is the prompt's id.
	ID string
	// CallID, SessionID, Workspace, Agent and Tool are those of the call that waits.
	CallID, SessionID, Workspace, Agent, Tool string
	// Requester is who made the call; empty without authentication.
	Requester string
	// Created is when it was asked.
	Created time.Time
	// Expires is when it ends by itself; zero if it waits for ever.
	Expires time.Time
	// State says whether it still waits.
	State PromptState
	// InputDigest is the SHA-256 of the call's frozen input. Every reply of the library cites it, so that what was shown
	// is what runs.
	InputDigest string
	// Resolution is how it ended; nil while it is open.
	Resolution *Resolution
	// Problem is why a [PromptHandler] is called again: its last reply was not taken. Empty the first time.
	Problem string

	message *toolgatev1.Prompt
}

// PermissionPrompt says that a tool needs a permission.
type PermissionPrompt struct {
	PromptInfo
	// Permission is what is asked for.
	Permission Permission
	// Editable says that the reply may be [Instead].
	Editable bool
	// Input is the call's frozen input, if the prompt is editable.
	Input json.RawMessage
}

// QuestionPrompt says that the model asks questions.
type QuestionPrompt struct {
	PromptInfo
	// Questions are in the order in which [Answer] answers them.
	Questions []Question
}

// Permission is what is asked when a tool needs one.
type Permission struct {
	// Name is the permission: `bash`, `edit`, `external_directory`, …
	Name string
	// Patterns are what the tool is about to touch.
	Patterns []string
	// Always is what a reply of [Always] would allow from now on.
	Always []string
	// Title is a short line for the person.
	Title string
	// Metadata is what the person should see: the diff of an edit, for instance.
	Metadata map[string]any
	// Parts are what a compound request consists of, such as the commands of a shell line.
	Parts []PermissionPart
}

// Diff returns the change that is asked for as a unified diff, or an empty text.
func (p *Permission) Diff() string {
	diff, _ := p.Metadata["diff"].(string)
	return diff
}

// PermissionPart is one part of a compound request.
type PermissionPart struct {
	// Text is the source text.
	Text string
	// Arguments are the words that a program gets, its name first; empty if the part starts none.
	Arguments []string
	// Patterns are everything that the part is judged as.
	Patterns []string
	// Always are the patterns of the request that come from this part.
	Always []string
	// Paths are those that it touches, as far as they are known.
	Paths []string
	// Unclear says why nobody can say what the part does; empty if it is clear.
	Unclear string
	// Action is the verdict: ActionAllow or ActionAsk.
	Action PermissionAction
}

// Question is one question of a model.
type Question struct {
	// Text is the whole question.
	Text string
	// Header is a very short label.
	Header string
	// Options may be chosen, by their labels.
	Options []QuestionOption
	// Multiple says that several may be chosen.
	Multiple bool
	// Custom says that an own answer makes sense.
	Custom bool
}

// QuestionOption is one choice.
type QuestionOption struct {
	// Label is what is chosen.
	Label string
	// Description says what it means.
	Description string
}

// Resolution is how a prompt ended.
type Resolution struct {
	// Decision is ONCE, ALWAYS, REJECT, ANSWER or INSTEAD; empty if nobody decided.
	Decision string
	// Message is feedback for the model.
	Message string
	// Time is when it ended.
	Time time.Time
	// ResolvedBy is who replied.
	ResolvedBy string
	// Answers are the answers to questions, in their order.
	Answers [][]string
}

// Info returns what all prompts have.
func (p *PromptInfo) Info() *PromptInfo { return p }

// Proto returns the message of the contract, which has more.
func (p *PromptInfo) Proto() *toolgatev1.Prompt { return p.message }

// Title returns a line that says what is asked.
func (p *PermissionPrompt) Title() string { return p.Permission.Title }

// Title returns the first question.
func (p *QuestionPrompt) Title() string {
	if len(p.Questions) > 0 {
		return p.Questions[0].Text
	}
	return ""
}

func newPrompt(message *toolgatev1.Prompt) Prompt {
	info := PromptInfo{
		ID: message.GetPromptId(), CallID: message.GetCallId(), SessionID: message.GetSessionId(),
		Workspace: message.GetWorkspace(), Agent: message.GetAgent(), Tool: message.GetTool(),
		Requester: message.GetRequester(), Created: timeOf(message.GetCreateTime()),
		Expires: timeOf(message.GetExpireTime()), State: word[PromptState](promptStatePrefix, message.GetState()),
		InputDigest: message.GetInputDigest(), Resolution: newResolution(message.GetResolution()), message: message,
	}
	if questions := message.GetQuestions(); questions != nil {
		return &QuestionPrompt{PromptInfo: info, Questions: each(questions.GetQuestions(), newQuestion)}
	}
	return &PermissionPrompt{
		PromptInfo: info, Editable: message.GetEditable(), Input: json.RawMessage(message.GetInputJson()),
		Permission: newPermission(message.GetPermission()),
	}
}

func newPermission(permission *toolgatev1.PermissionRequest) Permission {
	return Permission{
		Name: permission.GetPermission(), Patterns: permission.GetPatterns(), Always: permission.GetAlways(),
		Title: permission.GetTitle(), Metadata: permission.GetMetadata().AsMap(),
		Parts: each(permission.GetParts(), newPermissionPart),
	}
}

func newPermissionPart(part *toolgatev1.PermissionPart) PermissionPart {
	return PermissionPart{
		Text: part.GetText(), Arguments: part.GetArguments(), Patterns: part.GetPatterns(), Always: part.GetAlways(),
		Paths: part.GetPaths(), Unclear: part.GetUnclear(), Action: word[PermissionAction](actionPrefix, part.GetAction()),
	}
}

func newQuestion(question *toolgatev1.Question) Question {
	return Question{
		Text: question.GetQuestion(), Header: question.GetHeader(), Multiple: question.GetMultiple(),
		Custom: question.GetCustom(),
		Options: each(question.GetOptions(), func(option *toolgatev1.QuestionOption) QuestionOption {
			return QuestionOption{option.GetLabel(), option.GetDescription()}
		}),
	}
}

func newResolution(resolution *toolgatev1.PromptResolution) *Resolution {
	if resolution == nil {
		return nil
	}
	return &Resolution{
		Decision: word[string](decisionPrefix, resolution.GetDecision()), Message: resolution.GetMessage(),
		Time: timeOf(resolution.GetResolveTime()), ResolvedBy: resolution.GetResolvedBy(),
		Answers: each(resolution.GetAnswers(), (*toolgatev1.QuestionAnswer).GetValues),
	}
}
