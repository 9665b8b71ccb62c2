package toolgategenkit

import (
	"context"
	"sync"

	"github.com/toolgate/toolgate/clients/go"
)

// ending is why following a call stopped: its result, a prompt that it waits for, or an error.
type ending struct {
	result *toolgate.Result
	prompt toolgate.Prompt
	err    error
}

// following follows a call and the calls that are made on its behalf, any of which may wait for a person.
type following struct {
	tools    *Tools
	endings  chan ending
	watchers sync.WaitGroup
}

// await follows a call until there is something to say. What happened before is seen again, so a call that interrupted is
// followed like one that has just begun.
func (t *Tools) await(ctx context.Context, callID string) ending {
	ctx, leave := context.WithCancel(ctx)
	f := &following{tools: t, endings: make(chan ending)}
	defer f.watchers.Wait()
	defer leave()
	f.watchers.Go(func() { f.watch(ctx, callID, true) })
	select {
	case end := <-f.endings:
		return end
	case <-ctx.Done():
		return ending{err: context.Cause(ctx)}
	}
}

func (f *following) watch(ctx context.Context, callID string, own bool) {
	for event, err := range f.tools.client.Watch(ctx, callID, 0, toolgate.WithOutputMode(toolgate.OutputNone)) {
		if err != nil {
			// Without the log of a call that it made, the call itself still ends.
			if own {
				f.tell(ctx, ending{err: err})
			}
			return
		}
		switch event := event.(type) {
		case *toolgate.ChildEvent:
			if !f.tools.options.Wait {
				f.watchers.Go(func() { f.watch(ctx, event.ChildID, false) })
			}
		case *toolgate.WaitingEvent:
			if !f.tools.options.Wait {
				f.waiting(ctx, event.Prompt.Info().ID)
			}
		case *toolgate.CompletedEvent:
			if own {
				f.tell(ctx, ending{result: event.Result})
			}
		case *toolgate.FailedEvent:
			if own {
				f.tell(ctx, ending{result: event.Result})
			}
		default:
			// What a call does meanwhile is shown by those who watch it.
		}
	}
}

// waiting tells of a prompt that is still open: the log also has those that were answered long ago.
func (f *following) waiting(ctx context.Context, promptID string) {
	prompt, err := f.tools.client.Prompt(ctx, promptID)
	if err != nil {
		f.tell(ctx, ending{err: err})
		return
	}
	if prompt.Info().State == toolgate.PromptOpen {
		f.tell(ctx, ending{prompt: prompt})
	}
}

func (f *following) tell(ctx context.Context, end ending) {
	select {
	case f.endings <- end:
	case <-ctx.Done():
	}
}
