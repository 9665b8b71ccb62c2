package toolgate

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc/codes"
)

// errEnded ends a feed that has delivered the end of its call.
var errEnded = errors.New("toolgate: the call has ended")

// Execution is a call that runs, and a cursor over its events. Events and Result move the same cursor: what the one has
// delivered the other does not deliver again.
type Execution struct {
	client *Client
	ctx    context.Context
	// Whether nothing here cancels the call.
	kept atomic.Bool
	feed *feed
	// Takes back what happens when ctx ends.
	unhook func() bool
	// Closed when the call has been told to stop because ctx ended.
	abandoned chan struct{}

	mutex  sync.Mutex
	first  Event
	result *Result
	err    error
}

// Execute starts a call and returns once the service has admitted it. The input is a struct or a map that json.Marshal
// understands, or the JSON text exactly as the model wrote it, as a string, a []byte or a json.RawMessage: malformed text
// is answered to the model, not here.
//
// The end of ctx cancels the call, and so does [Execution.Close] before its end; see [WithOnDisconnect].
func (c *Client) Execute(ctx context.Context, tool string, input any, options ...CallOption) (*Execution, error) {
	call, err := c.callConfig(options)
	if err != nil {
		return nil, err
	}
	request := &toolgatev1.ExecuteToolRequest{
		CallId: call.callID, Tool: tool, Timeout: call.timeoutProto(), OnDisconnect: call.onDisconnectProto(),
	}
	if request.Context, err = call.context.proto(); err != nil {
		return nil, err
	}
	if request.Output, err = outputMode(call.output); err != nil {
		return nil, err
	}
	text, err := inputText(input)
	if err != nil {
		return nil, err
	}
	request.Arguments = &toolgatev1.ExecuteToolRequest_InputJson{InputJson: text}
	return c.begin(ctx, call, request.Output, func(ctx context.Context) (receiver, error) {
		return callEvents(c.tools.ExecuteTool(ctx, request))
	})
}

// Run executes a tool and returns its result; see [Client.Execute]. A failed call is not an error.
func (c *Client) Run(ctx context.Context, tool string, input any, options ...CallOption) (*Result, error) {
	execution, err := c.Execute(ctx, tool, input, options...)
	if err != nil {
		return nil, err
	}
	defer execution.Close()
	return execution.Result()
}

// Revert takes back what an ended call did to files, as a call of its own, which asks for permission like any edit. Its
// id is the one of [WithCallID]; see also [WithMerge].
func (c *Client) Revert(ctx context.Context, callID string, options ...CallOption) (*Execution, error) {
	call, err := c.callConfig(options)
	if err != nil {
		return nil, err
	}
	request := &toolgatev1.RevertCallRequest{
		CallId: callID, RevertCallId: call.callID, Merge: call.merge, OnDisconnect: call.onDisconnectProto(),
	}
	if request.Context, err = call.context.proto(); err != nil {
		return nil, err
	}
	mode, err := outputMode(call.output)
	if err != nil {
		return nil, err
	}
	return c.begin(ctx, call, mode, func(ctx context.Context) (receiver, error) {
		return callEvents(c.tools.RevertCall(ctx, request))
	})
}

// begin starts a call and waits for its first event.
func (c *Client) begin(
	ctx context.Context, call callConfig, output toolgatev1.OutputMode, start opener,
) (*Execution, error) {
	if ctx.Err() != nil {
		return nil, toError(ctx, ctx.Err())
	}
	execution := &Execution{
		client: c, ctx: ctx, abandoned: make(chan struct{}), feed: c.newFeed(ctx, call.callID, start),
	}
	execution.kept.Store(call.onDisconnect == Keep)
	execution.feed.output = output
	execution.unhook = context.AfterFunc(ctx, execution.abandon)
	c.mutex.Lock()
	c.live[execution] = struct{}{}
	c.mutex.Unlock()
	first, err := execution.next()
	if err != nil {
		if ctx.Err() != nil {
			execution.settle()
			err = toError(ctx, err)
		}
		execution.finish(err)
		return nil, err
	}
	execution.first = first
	return execution, nil
}

// CallID returns the call's id.
func (e *Execution) CallID() string { return e.feed.callID }

// Events returns the events of the call in their order, the terminal one last. An error is the last thing it yields: the
// events could not be got, which says nothing about the call. Leaving the loop leaves the call running.
func (e *Execution) Events() iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			event, err := e.take()
			if errors.Is(err, io.EOF) {
				return
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

// Result waits for the end of the call, passing over the events that are left, and returns how it ended. If the call was
// cancelled because the context of Execute ended, it returns the result and that context's error.
func (e *Execution) Result() (*Result, error) {
	for {
		_, err := e.take()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	if e.result.Reason == ReasonCancelled && e.ctx.Err() != nil {
		return e.result, toError(e.ctx, e.ctx.Err())
	}
	return e.result, nil
}

// Cancel tells the call to stop and returns once it has ended. Its programs are gone then. Events and Result go on to its
// end.
func (e *Execution) Cancel(ctx context.Context) error {
	_, err := e.client.Cancel(ctx, e.CallID())
	return err
}

// Detach leaves the call running from now on: neither the end of the context nor Close cancels it, as if its policy were
// [Keep].
func (e *Execution) Detach() { e.kept.Store(true) }

// Close ends the watching. A call that has not ended is cancelled, unless its policy is [Keep] or it was detached; Close
// returns when it has ended.
func (e *Execution) Close() error {
	if !e.unhook() {
		// ctx has ended, or this is over: what had to be done is being done.
		e.settle()
		e.finish(ErrClosed)
		return nil
	}
	var err error
	if !e.kept.Load() {
		err = e.stop()
	}
	e.finish(ErrClosed)
	return err
}

// settle waits until the call has been told to stop because ctx has ended, unless the execution is over anyway.
func (e *Execution) settle() {
	select {
	case <-e.abandoned:
	case <-e.feed.ctx.Done():
	}
}

// abandon is what the end of the context means.
func (e *Execution) abandon() {
	defer close(e.abandoned)
	if e.kept.Load() {
		e.feed.end(toError(e.ctx, e.ctx.Err()))
		return
	}
	// The stream brings the end of the call; it gets a while for that.
	_ = e.stop()
	time.AfterFunc(e.client.config.cancelTimeout/2, func() { e.feed.end(toError(e.ctx, e.ctx.Err())) })
}

// stop cancels the call in spite of an ended context. A call that the service does not know yet may be on its way there.
func (e *Execution) stop() error {
	limit := e.client.config.cancelTimeout
	if e.feed.last.Load() == 0 {
		limit /= 5
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(e.ctx), limit)
	defer cancel()
	bound, unbind := e.client.bind(ctx)
	defer unbind(nil)
	patience := e.client.patience(limit)
	for {
		err := e.Cancel(bound)
		if err == nil || errors.Is(context.Cause(e.feed.ctx), errEnded) {
			return nil
		}
		failure := toError(bound, err)
		if failure.Code != codes.NotFound {
			return failure
		}
		if err := patience.wait(bound, failure); err != nil {
			return err
		}
	}
}

// take returns the next event; io.EOF after the terminal one.
func (e *Execution) take() (Event, error) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	event := e.first
	e.first = nil
	if event == nil {
		if e.err != nil {
			return nil, e.err
		}
		var err error
		if event, err = e.next(); err != nil {
			e.err = err
			e.finish(err)
			return nil, err
		}
	}
	if e.result = resultOf(event); e.result != nil {
		e.err = io.EOF
		e.finish(errEnded)
	}
	return event, nil
}

func (e *Execution) next() (Event, error) {
	for {
		message, err := e.feed.next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = &Error{Code: codes.DataLoss, Message: "the log of the call has no end"}
			}
			return nil, err
		}
		if event := newEvent(message); event != nil {
			return event, nil
		}
	}
}

// finish gives everything back. It may be called more than once.
func (e *Execution) finish(cause error) {
	e.unhook()
	e.feed.end(cause)
	e.client.mutex.Lock()
	delete(e.client.live, e)
	e.client.mutex.Unlock()
}
