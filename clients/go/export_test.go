package toolgate

import "time"

// WithTestTimes shortens what tests would have to wait for.
func WithTestTimes(stall time.Duration) Option {
	return clientOption(func(c *config) error {
		c.stall = stall
		c.backoff = backoff{first: time.Millisecond, most: 20 * time.Millisecond}
		c.cancelTimeout = time.Second
		return nil
	})
}
