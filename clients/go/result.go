package toolgate

import (
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// Result is how a call ended.
type Result struct {
	// CallID is the call.
	CallID string
	// OK says whether the call has a result; otherwise it failed. It has none, either, if nothing ran because the name of
	// the tool or the JSON was not understood.
	OK bool
	// Title is a short text for people.
	Title string
	// Output is the text for the model, if the call did not fail.
	Output string
	// Reason is why it failed, for programs; empty if it did not.
	Reason FailureReason
	// Error is why it failed, for the model; empty if it did not.
	Error string
	// Outcome says how the result is to be read: a command may have ended with another exit code than 0, for instance.
	// Empty if the call failed.
	Outcome Outcome
	// ExitCode is the exit code of the command that the call ran; nil if it ran none, or if a signal ended it.
	ExitCode *int
	// Metadata is all metadata, for drawing.
	Metadata map[string]any
	// Attachments are the files that belong to it.
	Attachments []Attachment
	// Truncation says what the model sees of the output, and where the whole is.
	Truncation Truncation
	// Timing says how the time was spent.
	Timing Timing

	message *toolgatev1.Call
}

// Attachment is a file that belongs to a result.
type Attachment struct {
	// ID is unique within the service; made by the service.
	ID string
	// MIME is the media type.
	MIME string
	// Filename is the name of the file that it came from, or empty.
	Filename string
	// Data is its content, unless URL says where that is.
	Data []byte
	// URL is where its content is, or empty.
	URL string
}

// Link returns where the content is: the URL, or the content itself as a data URL.
func (a Attachment) Link() string {
	if a.URL != "" {
		return a.URL
	}
	return "data:" + a.MIME + ";base64," + base64.StdEncoding.EncodeToString(a.Data)
}

// Base64 returns the content in base64, and whether it is here: what a URL other than a data URL names has to be fetched.
func (a Attachment) Base64() (string, bool) {
	if a.URL == "" {
		return base64.StdEncoding.EncodeToString(a.Data), true
	}
	head, content, found := strings.Cut(a.URL, ";base64,")
	return content, found && content != "" && strings.HasPrefix(head, "data:")
}

// Truncation says what the model sees of an output, and where the whole is.
type Truncation struct {
	// Truncated says whether the model sees less than the whole.
	Truncated bool
	// OutputID is the stored output, for [Client.Output]; empty if there is none.
	OutputID string
	// Path is its file on the service's machine.
	Path string
	// Bytes and Lines are those of the whole.
	Bytes, Lines int64
}

// Timing says how a call spent its time.
type Timing struct {
	// Queued is from admission to the start of the tool.
	Queued time.Duration
	// Waited was spent waiting for people.
	Waited time.Duration
	// Ran was spent running.
	Ran time.Duration
}

// CallError is a failed call as an error.
type CallError struct {
	// Result is the whole result.
	Result *Result
}

// Error returns the reason and the text for the model.
func (e *CallError) Error() string {
	return fmt.Sprintf("toolgate: the call failed (%s): %s", e.Result.Reason, e.Result.Error)
}

// Err returns a [*CallError] if the call failed.
func (r *Result) Err() error {
	if r.OK {
		return nil
	}
	return &CallError{r}
}

// Text returns what the model is to read: the output, or why there is none.
func (r *Result) Text() string {
	if r.OK {
		return r.Output
	}
	return r.Error
}

// Proto returns the result as a record with the call's id and its end.
func (r *Result) Proto() *toolgatev1.Call { return r.message }

// ending is what the two ways to end have in common.
type ending interface {
	GetAttachments() []*toolgatev1.Attachment
	GetTruncation() *toolgatev1.Truncation
	GetTiming() *toolgatev1.Timing
}

func newResult(callID string, end ending) *Result {
	truncation, timing := end.GetTruncation(), end.GetTiming()
	result := &Result{
		CallID: callID,
		Truncation: Truncation{
			Truncated: truncation.GetTruncated(), OutputID: truncation.GetOutputId(), Path: truncation.GetPath(),
			Bytes: truncation.GetTotalBytes(), Lines: truncation.GetTotalLines(),
		},
		Timing: Timing{
			Queued: timing.GetQueued().AsDuration(), Waited: timing.GetWaited().AsDuration(),
			Ran: timing.GetRan().AsDuration(),
		},
	}
	for _, one := range end.GetAttachments() {
		result.Attachments = append(result.Attachments, Attachment{
			ID: one.GetAttachmentId(), MIME: one.GetMime(), Filename: one.GetFilename(), Data: one.GetData(), URL: one.GetUrl(),
		})
	}
	return result
}

func completedResult(callID string, end *toolgatev1.CallCompleted) *Result {
	result := newResult(callID, end)
	result.Title = end.GetTitle()
	if end.GetOutcome() == toolgatev1.CallOutcome_CALL_OUTCOME_INVALID {
		// In the record it is a result, for the model to read; nothing ran, so to programs it is none.
		result.Reason, result.Error = ReasonInvalidArguments, end.GetOutput()
	} else {
		result.OK, result.Output = true, end.GetOutput()
		result.Outcome = word[Outcome](outcomePrefix, end.GetOutcome())
		if command := end.GetCommand(); command != nil && command.ExitCode != nil {
			code := int(command.GetExitCode())
			result.ExitCode = &code
		}
	}
	result.Metadata = end.GetMetadata().AsMap()
	result.message = &toolgatev1.Call{CallId: callID, Ending: &toolgatev1.Call_Completed{Completed: end}}
	return result
}

func failedResult(callID string, end *toolgatev1.CallFailed) *Result {
	result := newResult(callID, end)
	result.Title, result.Error = end.GetTitle(), end.GetError()
	result.Reason = word[FailureReason](failureReasonPrefix, end.GetReason())
	result.Metadata = end.GetMetadata().AsMap()
	result.message = &toolgatev1.Call{CallId: callID, Ending: &toolgatev1.Call_Failed{Failed: end}}
	return result
}

func (a Attachment) proto() *toolgatev1.Attachment {
	message := &toolgatev1.Attachment{AttachmentId: a.ID, Mime: a.MIME, Filename: a.Filename}
	if a.URL != "" {
		message.Content = &toolgatev1.Attachment_Url{Url: a.URL}
	} else {
		message.Content = &toolgatev1.Attachment_Data{Data: a.Data}
	}
	return message
}
