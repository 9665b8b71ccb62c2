package toolgate

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// Call is the record of a call.
type Call struct {
	// ID is the call's id.
	ID string
	// Context says in whose name it was made, with the defaults filled in.
	Context CallContext
	// Tool is the tool that ran; RequestedTool the name that was asked for.
	Tool, RequestedTool string
	// Input is the frozen input; lists leave it out.
	Input json.RawMessage
	// State says where the call is.
	State CallState
	// Title is a short text for people, from admission on.
	Title string
	// Summary is what it touches, one line: a command, a path, a URL, a pattern.
	Summary string
	// WaitingPromptID is the prompt that it waits on, or empty.
	WaitingPromptID string
	// LastSequence is the number of its last event.
	LastSequence int64
	// Created, Started and Ended are zero until it has come that far.
	Created, Started, Ended time.Time
	// Result is how it ended; nil before that.
	Result *Result
	// Terminal is the size of its terminal while it runs; nil if it has none. Only [Client.Get] has it.
	Terminal *TerminalSize
	// Listening is what its programs listen on at this moment, for [Client.OpenPort]. Only [Client.Get] has it.
	Listening []ListeningPort

	message *toolgatev1.Call
}

// Proto returns the message of the contract, which has more.
func (c *Call) Proto() *toolgatev1.Call { return c.message }

// CallOf makes the record of a message of the contract, for programs that have it from a generated stub or from a file.
func CallOf(message *toolgatev1.Call) *Call {
	call := &Call{
		ID: message.GetCallId(), Context: contextOf(message.GetContext()),
		Tool: message.GetTool(), RequestedTool: message.GetRequestedTool(), Input: json.RawMessage(message.GetInputJson()),
		State: word[CallState](callStatePrefix, message.GetState()), Title: message.GetTitle(),
		Summary:         message.GetSummary(),
		WaitingPromptID: message.GetWaitingPromptId(), LastSequence: message.GetLastSequence(),
		Created: timeOf(message.GetCreateTime()), Started: timeOf(message.GetStartTime()),
		Ended:     timeOf(message.GetEndTime()),
		Listening: each(message.GetListening(), newListeningPort), message: message,
	}
	if size := message.GetTerminal(); size != nil {
		terminal := newTerminalSize(size)
		call.Terminal = &terminal
	}
	switch end := message.GetEnding().(type) {
	case *toolgatev1.Call_Completed:
		call.Result = completedResult(call.ID, end.Completed)
	case *toolgatev1.Call_Failed:
		call.Result = failedResult(call.ID, end.Failed)
	}
	return call
}

// Get returns the record of a call.
func (c *Client) Get(ctx context.Context, callID string) (*Call, error) {
	response, err := c.tools.GetCall(ctx, &toolgatev1.GetCallRequest{CallId: callID})
	if err != nil {
		return nil, err
	}
	return CallOf(response.GetCall()), nil
}

// Cancel tells a call to stop and returns its record once it has ended. Its programs are gone then. A call that had ended
// stays as it was, but what it left running in the background is ended.
func (c *Client) Cancel(ctx context.Context, callID string) (*Call, error) {
	response, err := c.tools.CancelCall(ctx, &toolgatev1.CancelCallRequest{CallId: callID})
	if err != nil {
		return nil, err
	}
	return CallOf(response.GetCall()), nil
}

// CallFilter says which calls to list. What is set must all match.
type CallFilter struct {
	// Workspace is the workspace; empty for the service's default one, "-" for all.
	Workspace string
	// SessionID is the session; empty for all.
	SessionID string
	// States are the states; none for all.
	States []CallState
	// Tools are the tools; none for all.
	Tools []string
	// PageSize is how many are fetched at once; 0 for 50.
	PageSize int
}

// Calls lists calls, newest first, without their input, metadata and output, which [Client.Get] has.
func (c *Client) Calls(ctx context.Context, filter CallFilter) iter.Seq2[*Call, error] {
	return pages(func(token string) ([]*Call, string, error) {
		request := &toolgatev1.ListCallsRequest{
			Workspace: filter.Workspace, SessionId: filter.SessionID, Tools: filter.Tools,
			PageSize: int32(filter.PageSize), PageToken: token,
		}
		for _, state := range filter.States {
			value, err := number[toolgatev1.CallState](callStatePrefix, toolgatev1.CallState_value, state)
			if err != nil {
				return nil, "", err
			}
			request.States = append(request.States, value)
		}
		response, err := c.tools.ListCalls(ctx, request)
		if err != nil {
			return nil, "", err
		}
		return each(response.GetCalls(), CallOf), response.GetNextPageToken(), nil
	})
}

// Watch returns the events of a call after a sequence number, 0 for all of them, until its end. It re-attaches like an
// [Execution], and never touches the call.
func (c *Client) Watch(ctx context.Context, callID string, after int64, options ...CallOption) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		call, err := c.callConfig(options)
		if err != nil {
			yield(nil, err)
			return
		}
		feed := c.newFeed(ctx, callID, nil)
		feed.last.Store(after)
		defer context.AfterFunc(ctx, func() { feed.end(toError(ctx, ctx.Err())) })()
		defer feed.end(nil)
		if feed.output, err = outputMode(call.output); err != nil {
			yield(nil, err)
			return
		}
		for {
			message, err := feed.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, err)
				return
			}
			event := newEvent(message)
			if event == nil {
				continue
			}
			if !yield(event, nil) || resultOf(event) != nil {
				return
			}
		}
	}
}

// Input is a piece of the standard input of a call.
type Input struct {
	// Offset is how many bytes come before Data in the whole input.
	Offset int64
	// Data is at most 1 MiB.
	Data []byte
	// Close says that nothing follows.
	Close bool
}

// Accepted says how far the input of a call has come.
type Accepted struct {
	// Next is the offset of the next bytes.
	Next int64
	// Closed says that nothing more is accepted.
	Closed bool
}

// SendInput sends bytes to the standard input of a running call of the tool `background`. What was accepted before is
// skipped, so it may be repeated after any failure; empty input tells how far the call has come.
func (c *Client) SendInput(ctx context.Context, callID string, input Input) (Accepted, error) {
	response, err := c.tools.SendInput(ctx, &toolgatev1.SendInputRequest{
		CallId: callID, Offset: input.Offset, Data: input.Data, Close: input.Close,
	})
	return Accepted{response.GetNextOffset(), response.GetClosed()}, err
}

// pages makes one sequence of all pages of a list.
func pages[T any](fetch func(token string) ([]T, string, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for token := ""; ; {
			page, next, err := fetch(token)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, one := range page {
				if !yield(one, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			token = next
		}
	}
}

func each[A, B any](list []A, convert func(A) B) []B {
	converted := make([]B, len(list))
	for i, one := range list {
		converted[i] = convert(one)
	}
	return converted
}
