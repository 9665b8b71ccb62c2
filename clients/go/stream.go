package toolgate

import (
	"context"
	"errors"
	"io"
	"iter"
	"sync"
	"time"

	"google.golang.org/grpc"
)

// stream is a server's half of a stream that is given up when nothing is heard for too long.
type stream[M any] struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	receive func() (M, error)
	stall   time.Duration
	timer   *time.Timer
}

// openStream opens a stream whose context is its own, so that ending it leaves nothing behind.
func openStream[M any](
	ctx context.Context, stall time.Duration, open func(context.Context) (func() (M, error), error),
) (*stream[M], error) {
	own, cancel := context.WithCancelCause(ctx)
	receive, err := open(own)
	if err != nil {
		failure := toError(own, err)
		cancel(nil)
		return nil, failure
	}
	s := &stream[M]{ctx: own, cancel: cancel, receive: receive, stall: stall}
	s.timer = time.AfterFunc(stall, func() { cancel(errStalled) })
	s.timer.Stop()
	return s, nil
}

// next waits for a message. Only the waiting counts as silence: a slow reader does not break its own stream.
func (s *stream[M]) next() (M, error) {
	s.timer.Reset(s.stall)
	message, err := s.receive()
	s.timer.Stop()
	return message, err
}

func (s *stream[M]) close() {
	s.timer.Stop()
	s.cancel(nil)
}

// messages reads one stream to its end.
func messages[Request, Response any](
	ctx context.Context, stall time.Duration,
	open func(context.Context, *Request, ...grpc.CallOption) (grpc.ServerStreamingClient[Response], error), request *Request,
) iter.Seq2[*Response, *Error] {
	return func(yield func(*Response, *Error) bool) {
		stream, err := openStream(ctx, stall, func(ctx context.Context) (func() (*Response, error), error) {
			stream, err := open(ctx, request)
			if err != nil {
				return nil, err
			}
			return stream.Recv, nil
		})
		if err != nil {
			yield(nil, toError(ctx, err))
			return
		}
		defer stream.close()
		for {
			message, err := stream.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, toError(stream.ctx, err))
				return
			}
			if !yield(message, nil) {
				return
			}
		}
	}
}

// sender lets many goroutines send on one stream.
type sender[M any] struct {
	mutex sync.Mutex
	send  func(M) error
	close func() error
}

// Send sends one message.
func (s *sender[M]) Send(message M) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.send(message)
}

// Close says that nothing more will be sent.
func (s *sender[M]) Close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.close()
}
