package toolgate

import (
	"context"
	"sync"
	"time"
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
