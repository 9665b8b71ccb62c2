package toolgate

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// maxOutputReport keeps a report of output well below the largest message that a service takes.
const maxOutputReport = 1 << 20

// Invocation is one execution of a lent function. It is an io.Writer for the output that is shown as it comes.
type Invocation struct {
	// ID names the invocation.
	ID string
	// CallID is the call.
	CallID string
	// Context says in whose name it was made.
	Context CallContext
	// Tool is the tool.
	Tool string
	// Input is the frozen input.
	Input json.RawMessage

	message *toolgatev1.HostInvoke
	report  func(*toolgatev1.HostReport) error
	// Ends with the invocation.
	ctx    context.Context
	cancel context.CancelCauseFunc
	// The stream that brought it last; belongs to the hosting, like its place there.
	stream *sender[*toolgatev1.HostRequest]

	mutex sync.Mutex
	// The answers that are waited for, by the ids of the requests.
	asks map[string]*pendingAsk
	// The last report, from the moment on when there is one, and when it was made.
	final   *toolgatev1.HostReport
	finalAt time.Time
}

type pendingAsk struct {
	request *toolgatev1.HostReport
	answer  chan *toolgatev1.HostAskResult
}

// Proto returns the message of the contract; nil for a subagent.
func (i *Invocation) Proto() *toolgatev1.HostInvoke { return i.message }

// Progress reports a new title, unless it is empty, and a patch of the metadata: absent keys stay, nil clears a key. While
// the connection is lost it waits; it fails when the invocation has ended, or if the metadata is no JSON.
func (i *Invocation) Progress(title string, metadata map[string]any) error {
	patch, err := structOf(metadata)
	if err != nil {
		return err
	}
	progress := &toolgatev1.HostProgress{Metadata: patch}
	if title != "" {
		progress.Title = &title
	}
	report := &toolgatev1.HostReport{InvocationId: i.ID, Report: &toolgatev1.HostReport_Progress{Progress: progress}}
	return i.report(report)
}

// Write reports more of the output. While the connection is lost it waits; it fails when the invocation has ended.
func (i *Invocation) Write(data []byte) (int, error) {
	written := 0
	for written < len(data) {
		piece := data[written:min(len(data), written+maxOutputReport)]
		if err := i.report(&toolgatev1.HostReport{
			InvocationId: i.ID, Report: &toolgatev1.HostReport_Output{Output: &toolgatev1.HostOutput{Data: piece}},
		}); err != nil {
			return written, err
		}
		written += len(piece)
	}
	return written, nil
}

// Ask is a request for a permission.
type Ask struct {
	// Permission is the permission; any name may be asked for.
	Permission string
	// Patterns are what the function is about to touch; none for `*`.
	Patterns []string
	// Always are the patterns that the reply `always` allows from then on.
	Always []string
	// Title is a short line for the person.
	Title string
	// Metadata is what the person should see.
	Metadata map[string]any
}

// Ask asks for a permission in the name of the call, by the rules of its agent and then by a person. It returns nil if the
// function may go on, and a [*DeniedError] if not.
func (i *Invocation) Ask(ctx context.Context, ask Ask) error {
	metadata, err := structOf(ask.Metadata)
	if err != nil {
		return err
	}
	id, err := newID()
	if err != nil {
		return err
	}
	pending := &pendingAsk{
		request: &toolgatev1.HostReport{InvocationId: i.ID, Report: &toolgatev1.HostReport_Ask{Ask: &toolgatev1.HostAsk{
			AskId: id, Permission: ask.Permission, Patterns: ask.Patterns, Always: ask.Always, Title: ask.Title,
			Metadata: metadata,
		}}},
		answer: make(chan *toolgatev1.HostAskResult, 1),
	}
	i.mutex.Lock()
	i.asks[id] = pending
	i.mutex.Unlock()
	defer func() {
		i.mutex.Lock()
		delete(i.asks, id)
		i.mutex.Unlock()
	}()
	if err := i.report(pending.request); err != nil {
		return err
	}
	select {
	case answer := <-pending.answer:
		if answer.GetAllowed() {
			return nil
		}
		return &DeniedError{answer.GetError()}
	case <-i.ctx.Done():
		return context.Cause(i.ctx)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (i *Invocation) ended() error { return context.Cause(i.ctx) }

func (i *Invocation) answered(result *toolgatev1.HostAskResult) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	if pending := i.asks[result.GetAskId()]; pending != nil {
		select {
		case pending.answer <- result:
		default:
			// The same answer came twice, over two streams.
		}
	}
}

// resume returns what a new stream has to hear again: the requests without an answer, and the end. The service knows both by
// their ids.
func (i *Invocation) resume() []*toolgatev1.HostReport {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	var reports []*toolgatev1.HostReport
	for _, pending := range i.asks {
		reports = append(reports, pending.request)
	}
	if i.final != nil {
		reports = append(reports, i.final)
	}
	return reports
}

func (i *Invocation) finish(report *toolgatev1.HostReport) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.final, i.finalAt = report, time.Now()
}

// isOver says whether its end was made so long ago that it has arrived.
func (i *Invocation) isOver(age time.Duration) bool {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	return i.final != nil && time.Since(i.finalAt) > age
}
