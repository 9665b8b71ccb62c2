package toolgate

import (
	"encoding/json"
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// Event is one entry of a call's log. It is one of [*PendingEvent], [*RunningEvent], [*MetadataEvent], [*OutputEvent],
// [*WaitingEvent], [*ResumedEvent], [*WarningEvent], [*ChildEvent], [*ListeningEvent], [*GapEvent], [*CompletedEvent] and
// [*FailedEvent]; the last two end the call.
type Event interface {
	// Header says which entry it is.
	Header() EventHeader
	// Proto returns the message of the contract.
	Proto() *toolgatev1.CallEvent

	isEvent()
}

// EventHeader says which entry of which log an event is.
type EventHeader struct {
	// CallID is the call.
	CallID string
	// Sequence counts from 1 without gaps; a [GapEvent] has the number of the last event that it stands for.
	Sequence int64
	// Time is when it happened.
	Time time.Time

	message *toolgatev1.CallEvent
}

// Header returns the header itself.
func (h EventHeader) Header() EventHeader { return h }

// Proto returns the message of the contract.
func (h EventHeader) Proto() *toolgatev1.CallEvent { return h.message }

func (EventHeader) isEvent() {}

// PendingEvent says that the call is admitted.
type PendingEvent struct {
	EventHeader
	// Tool is the tool that will run.
	Tool string
	// RequestedTool is the name that was asked for.
	RequestedTool string
	// Title is a first title, made from the input.
	Title string
	// Summary is what the call touches, one line: a command, a path, a URL, a pattern.
	Summary string
}

// RunningEvent says that the tool starts. Nothing changes the input after this.
type RunningEvent struct {
	EventHeader
	// Input is the frozen input.
	Input json.RawMessage
	// InputDigest is its SHA-256, in hexadecimal digits.
	InputDigest string
	// Title is the title so far.
	Title string
}

// MetadataEvent says that title or metadata changed.
type MetadataEvent struct {
	EventHeader
	// Title is the new title; nil if it did not change.
	Title *string
	// Metadata is a patch: an absent key stays, nil clears a key, any other value replaces the key's whole value.
	Metadata map[string]any
}

// OutputEvent is a piece of what the tool prints.
type OutputEvent struct {
	EventHeader
	// OutputID is the stored output that it belongs to.
	OutputID string
	// Offset is where in it the bytes begin.
	Offset int64
	// Data is at most 64 KiB, never split inside a character of UTF-8.
	Data []byte
}

// WaitingEvent says that the call waits for a person.
type WaitingEvent struct {
	EventHeader
	// Prompt is what is asked.
	Prompt Prompt
	// Approvers is how many approvers that see the prompt are connected.
	Approvers int
}

// ResumedEvent says that the wait is over.
type ResumedEvent struct {
	EventHeader
	// PromptID is the prompt that it waited on.
	PromptID string
	// State is the state that the prompt ended in.
	State PromptState
	// Resolution is how it was settled; nil if nothing is known.
	Resolution *Resolution
}

// WarningEvent is something that a person should know.
type WarningEvent struct {
	EventHeader
	// Kind is what it is about, in a word: LOSSY, NO_UNDO, …
	Kind string
	// Text is a sentence.
	Text string
}

// ChildEvent says that the call made another one.
type ChildEvent struct {
	EventHeader
	// ChildID is the other call.
	ChildID string
	// Tool is its tool.
	Tool string
}

// ListeningEvent says that a program of the call began or ceased to listen on a port.
type ListeningEvent struct {
	EventHeader
	// Ports are all that its programs listen on now.
	Ports []ListeningPort
}

// GapEvent stands for events that the stream leaves out.
type GapEvent struct {
	EventHeader
	// First is the first event left out, Last the last one.
	First, Last int64
	// OutputBytes is how much output they had; [Client.Output] has it.
	OutputBytes int64
}

// CompletedEvent ends the call with a result.
type CompletedEvent struct {
	EventHeader
	// Result is the result.
	Result *Result
}

// FailedEvent ends the call without one.
type FailedEvent struct {
	EventHeader
	// Result says why.
	Result *Result
}

// newEvent makes the typed event of a message; nil for a kind that this version does not know.
func newEvent(message *toolgatev1.CallEvent) Event {
	header := EventHeader{
		CallID: message.GetCallId(), Sequence: message.GetSequence(), Time: timeOf(message.GetEventTime()), message: message,
	}
	switch event := message.GetEvent().(type) {
	case *toolgatev1.CallEvent_Pending:
		pending := event.Pending
		return &PendingEvent{
			header, pending.GetTool(), pending.GetRequestedTool(), pending.GetTitle(), pending.GetSummary(),
		}
	case *toolgatev1.CallEvent_Running:
		running := event.Running
		return &RunningEvent{header, json.RawMessage(running.GetInputJson()), running.GetInputDigest(), running.GetTitle()}
	case *toolgatev1.CallEvent_Metadata:
		return &MetadataEvent{header, event.Metadata.Title, event.Metadata.GetMetadata().AsMap()}
	case *toolgatev1.CallEvent_Output:
		return &OutputEvent{header, event.Output.GetOutputId(), event.Output.GetOffset(), event.Output.GetData()}
	case *toolgatev1.CallEvent_Waiting:
		return &WaitingEvent{header, newPrompt(event.Waiting.GetPrompt()), int(event.Waiting.GetApprovers())}
	case *toolgatev1.CallEvent_Resumed:
		resumed := event.Resumed
		state := word[PromptState](promptStatePrefix, resumed.GetState())
		return &ResumedEvent{header, resumed.GetPromptId(), state, newResolution(resumed.GetResolution())}
	case *toolgatev1.CallEvent_Warning:
		return &WarningEvent{header, word[string]("WARNING_KIND_", event.Warning.GetKind()), event.Warning.GetText()}
	case *toolgatev1.CallEvent_Child:
		return &ChildEvent{header, event.Child.GetCallId(), event.Child.GetTool()}
	case *toolgatev1.CallEvent_Listening:
		return &ListeningEvent{header, each(event.Listening.GetPorts(), newListeningPort)}
	case *toolgatev1.CallEvent_Gap:
		gap := event.Gap
		return &GapEvent{header, gap.GetFirstSequence(), gap.GetLastSequence(), gap.GetOutputBytes()}
	case *toolgatev1.CallEvent_Completed:
		result := completedResult(header.CallID, event.Completed)
		if !result.OK {
			return &FailedEvent{header, result}
		}
		return &CompletedEvent{header, result}
	case *toolgatev1.CallEvent_Failed:
		return &FailedEvent{header, failedResult(header.CallID, event.Failed)}
	default:
		return nil
	}
}

// resultOf returns the result that a terminal event carries, or nil.
func resultOf(event Event) *Result {
	switch event := event.(type) {
	case *CompletedEvent:
		return event.Result
	case *FailedEvent:
		return event.Result
	default:
		return nil
	}
}
