package toolgate

import (
	"context"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc/codes"
)

// keepOpen runs one stream after the other until ctx ends, or until a failure that will not pass. attempt says with
// worked that its stream brings something, and returns why it ended.
func (c *Client) keepOpen(ctx context.Context, attempt func(ctx context.Context, worked func()) error) error {
	bound, end := c.bind(ctx)
	defer end(nil)
	patience := c.patience(c.config.retryTimeout)
	hasWorked := false
	for {
		failure := toError(bound, attempt(bound, func() {
			hasWorked = true
			patience.limit = c.config.reconnectTimeout
			patience.succeeded()
		}))
		if bound.Err() != nil {
			return toError(bound, bound.Err())
		}
		if !opensAgain(failure, hasWorked) {
			return failure
		}
		if err := patience.wait(bound, failure); err != nil {
			return err
		}
	}
}

func opensAgain(failure *Error, hasWorked bool) bool {
	switch failure.Reason {
	case "REPLACED":
		return false
	case "CREDENTIALS_EXPIRED":
		// A token may expire under a stream; its source has another one.
		return hasWorked
	}
	return failure.passes() || failure.Code == codes.Internal
}

// guarded makes an error of a panic in a function of the caller's, so that one of them does not end the others.
func guarded(run func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
		}
	}()
	return run()
}
