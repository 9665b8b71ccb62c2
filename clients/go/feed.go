package toolgate

import (
	"context"
	"errors"
	"io"
	"sync/atomic"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// receiver gives the messages of one stream.
type receiver = func() (*toolgatev1.CallEvent, error)

// opener starts a call and watches it.
type opener func(ctx context.Context) (receiver, error)

// feed reads the log of one call over as many streams as that takes: every event once, in order.
type feed struct {
	client *Client
	callID string
	output toolgatev1.OutputMode
	// Starts the call; nil to watch one that is there. The same request may be sent any number of times.
	start opener
	// The context of whoever asked for the call or its events.
	asked context.Context
	// Ends all streams.
	ctx context.Context
	end context.CancelCauseFunc

	// The number of the last event that was delivered.
	last     atomic.Int64
	worked   bool
	stream   *stream[*toolgatev1.CallEvent]
	patience patience
}

// newFeed makes a feed. Its streams outlive the context, because they bring the end of a call that is cancelled; whoever
// makes it ends it.
func (c *Client) newFeed(ctx context.Context, callID string, start opener) *feed {
	bound, end := c.bind(context.WithoutCancel(ctx))
	return &feed{
		client: c, callID: callID, start: start, asked: ctx, ctx: bound, end: end,
		patience: c.patience(c.config.retryTimeout),
	}
}

// next returns the next event that is no heartbeat. io.EOF is the end of a log that had ended before the feed began.
func (f *feed) next() (*toolgatev1.CallEvent, error) {
	for {
		event, err := f.receive()
		if err == nil {
			var isNew bool
			if isNew, err = f.accept(event); isNew {
				return event, nil
			}
		}
		if err == nil {
			continue
		}
		f.drop()
		if errors.Is(err, io.EOF) && f.ctx.Err() == nil {
			ended, failure := f.hasEnded()
			if ended {
				return nil, io.EOF
			}
			if failure != nil {
				err = failure
			}
		}
		failure := toError(f.ctx, err)
		if !f.goesOn(failure) {
			return nil, failure
		}
		if err := f.patience.wait(f.waiting(), failure); err != nil {
			return nil, err
		}
	}
}

// waiting is the context of a pause. Before the first event there is no end of a call to wait for.
func (f *feed) waiting() context.Context {
	if f.last.Load() == 0 {
		return f.asked
	}
	return f.ctx
}

func (f *feed) receive() (*toolgatev1.CallEvent, error) {
	if f.stream == nil {
		stream, err := openStream(f.ctx, f.client.config.stall, f.open)
		if err != nil {
			return nil, err
		}
		f.stream = stream
	}
	event, err := f.stream.next()
	if err != nil {
		return nil, streamError(f.stream.ctx, err)
	}
	return event, nil
}

// open starts the call until its first event is there, and watches it from then on: before that, nobody knows whether
// the service has it, and the start is idempotent.
func (f *feed) open(ctx context.Context) (receiver, error) {
	if f.start != nil && f.last.Load() == 0 {
		return f.start(ctx)
	}
	request := &toolgatev1.WatchCallRequest{CallId: f.callID, AfterSequence: f.last.Load(), Output: f.output}
	return callEvents(f.client.tools.WatchCall(ctx, request))
}

// accept says whether an event is to be delivered. One that leaves a hole ends the stream instead: the next one begins
// where this one should have gone on.
func (f *feed) accept(event *toolgatev1.CallEvent) (bool, error) {
	last, first, gap := f.last.Load(), event.GetSequence(), event.GetGap()
	if gap != nil {
		first = gap.GetFirstSequence()
	}
	isNew := event.GetHeartbeat() == nil && event.GetSequence() > last
	if isNew && first > last+1 {
		return false, &Error{Code: codes.Unavailable, Message: "events are missing in the stream"}
	}
	f.worked = true
	f.patience.limit = f.client.config.reconnectTimeout
	f.patience.succeeded()
	if !isNew {
		return false, nil
	}
	if gap != nil {
		gap.FirstSequence = last + 1
	}
	f.last.Store(event.GetSequence())
	return true, nil
}

// goesOn says whether another stream may succeed where one has failed.
func (f *feed) goesOn(failure *Error) bool {
	if f.ctx.Err() != nil || f.waiting().Err() != nil {
		return false
	}
	// A token may expire under a stream; its source has another one.
	return failure.passes() || (f.worked && failure.Reason == "CREDENTIALS_EXPIRED")
}

// hasEnded says whether a stream that ended in good order had nothing left to say.
func (f *feed) hasEnded() (bool, error) {
	if f.last.Load() == 0 && f.start != nil {
		return false, nil
	}
	response, err := f.client.tools.GetCall(f.ctx, &toolgatev1.GetCallRequest{CallId: f.callID})
	if err != nil {
		return false, err
	}
	call := response.GetCall()
	return call.GetEnding() != nil && f.last.Load() >= call.GetLastSequence(), nil
}

func (f *feed) drop() {
	if f.stream != nil {
		f.stream.close()
		f.stream = nil
	}
}

// callEvents takes the events out of the responses of any of the RPCs that stream them.
func callEvents[T any, P interface {
	*T
	GetEvent() *toolgatev1.CallEvent
}](stream grpc.ServerStreamingClient[T], err error) (receiver, error) {
	if err != nil {
		return nil, err
	}
	return func() (*toolgatev1.CallEvent, error) {
		response, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		return P(response).GetEvent(), nil
	}, nil
}

// streamError keeps the good end of a stream apart from its failures.
func streamError(ctx context.Context, err error) error {
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	failure := toError(ctx, err)
	if failure.Code == codes.OK {
		return io.EOF
	}
	return failure
}
