package toolgate

import (
	"context"
	"errors"
	"io"
	"iter"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// EventFilter says which events of the service to watch.
type EventFilter struct {
	// Workspace is the workspace; empty for the service's default one, "-" for all.
	Workspace string
	// SessionID is the session; empty for all.
	SessionID string
	// After is the number of the last event that is known: those after it are sent; 0 for all that is kept. Nil: only
	// what happens from now on.
	After *int64
	// OnReady, if set, is called when the stream is open: what happens from then on is not missed.
	OnReady func()
}

// ServiceEvents watches what happens in the workspaces: calls change their state, files are edited, prompts come and go. The
// stream is not taken up again when it is lost: pass the last sequence as After for that. Heartbeats are left out.
func (c *Client) ServiceEvents(ctx context.Context, filter EventFilter) iter.Seq2[*toolgatev1.Event, error] {
	return func(yield func(*toolgatev1.Event, error) bool) {
		bound, end := c.bind(ctx)
		defer end(nil)
		stream, err := openStream(bound, c.config.stall, func(ctx context.Context) (func() (*toolgatev1.WatchEventsResponse, error), error) {
			stream, err := c.sessions.WatchEvents(ctx, &toolgatev1.WatchEventsRequest{
				Workspace: filter.Workspace, SessionId: filter.SessionID, AfterSequence: filter.After,
			})
			if err != nil {
				return nil, err
			}
			// The headers come when the service listens; a failure to get them is received as well.
			if _, err := stream.Header(); err == nil && filter.OnReady != nil {
				filter.OnReady()
			}
			return stream.Recv, nil
		})
		if err != nil {
			yield(nil, err)
			return
		}
		defer stream.close()
		for {
			response, err := stream.next()
			if err != nil {
				if errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF
				}
				yield(nil, toError(stream.ctx, err))
				return
			}
			if response.GetEvent().GetHeartbeat() == nil && !yield(response.GetEvent(), nil) {
				return
			}
		}
	}
}
