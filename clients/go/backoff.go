package toolgate

import (
	"context"
	"math/rand/v2"
	"time"
)

// heartbeat is the longest silence on a stream of the service.
const heartbeat = 15 * time.Second

// backoff grows from one wait to the next, with jitter so that many clients do not come back at once.
type backoff struct{ first, most time.Duration }

func (b backoff) after(failures int) time.Duration {
	wait := b.most
	if shift := failures - 1; shift < 16 {
		wait = min(b.most, b.first<<shift)
	}
	return wait/2 + rand.N(wait/2+1)
}

// patience bounds the failures in a row.
type patience struct {
	backoff  backoff
	limit    time.Duration
	failures int
	since    time.Time
}

func (p *patience) succeeded() { p.failures = 0 }

// wait sleeps before the next try. It returns the failure when trying has taken too long, or why ctx has ended.
func (p *patience) wait(ctx context.Context, failure *Error) error {
	if p.failures == 0 {
		p.since = time.Now()
	}
	p.failures++
	pause := max(p.backoff.after(p.failures), failure.RetryAfter)
	if time.Since(p.since)+pause > p.limit {
		return failure
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return toError(ctx, context.Cause(ctx))
	}
}
