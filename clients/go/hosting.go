package toolgate

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// leaveTimeout is how long a host waits for the service to notice that it leaves.
const leaveTimeout = 2 * time.Second

// hosting is what outlives the streams of one Client.Host.
type hosting struct {
	Host
	client    *Client
	ctx       context.Context
	hello     *toolgatev1.HostHello
	tools     map[string]Tool
	functions sync.WaitGroup
	refused   error

	mutex       sync.Mutex
	invocations map[string]*Invocation
	// The stream that reports go to, once the service has welcomed the host on it.
	stream *sender[*toolgatev1.HostRequest]
	// Closed, and made anew, when a stream takes up what another had begun.
	resumed chan struct{}
}

// run serves one stream. It ends in good order when ctx ends, so that the tools are gone at once.
func (h *hosting) run(ctx context.Context, worked func()) error {
	apart, end := h.client.bind(context.WithoutCancel(ctx))
	defer end(nil)
	var requests *sender[*toolgatev1.HostRequest]
	stream, err := openStream(apart, h.client.config.stall, func(ctx context.Context) (func() (*toolgatev1.HostResponse, error), error) {
		host, err := h.client.hosts.Host(ctx)
		if err != nil {
			return nil, err
		}
		requests = &sender[*toolgatev1.HostRequest]{send: host.Send, close: host.CloseSend}
		// What cannot be sent says why when something is received.
		_ = requests.Send(&toolgatev1.HostRequest{Message: &toolgatev1.HostRequest_Hello{Hello: h.hello}})
		return host.Recv, nil
	})
	if err != nil {
		return err
	}
	defer stream.close()
	defer context.AfterFunc(ctx, func() {
		_ = requests.Close()
		time.AfterFunc(leaveTimeout, func() { end(nil) })
	})()
	defer func() { h.lost(requests) }()
	sweep := false
	for {
		message, err := stream.next()
		if err != nil {
			return toError(stream.ctx, err)
		}
		worked()
		event := message.GetEvent()
		if welcome := event.GetWelcome(); welcome != nil {
			if err := h.welcomed(welcome, requests); err != nil {
				return err
			}
			sweep = welcome.GetResumed()
			continue
		}
		if sweep && !isResent(event) {
			h.keepOnlyResent()
			sweep = false
		}
		h.told(event)
	}
}

// isResent says whether an event is among those with which a stream that is taken up again begins.
func isResent(event *toolgatev1.HostEvent) bool {
	return event.GetInvoke().GetResent() || event.GetRunSubagent().GetResent() || event.GetHook().GetResent() ||
		event.GetAskResult() != nil
}

func (h *hosting) welcomed(welcome *toolgatev1.HostWelcome, requests *sender[*toolgatev1.HostRequest]) error {
	refused := each(welcome.GetRefused(), func(one *toolgatev1.HostRefused) Refused {
		return Refused{one.GetName(), one.GetReason()}
	})
	if len(refused) > 0 && h.OnReady == nil {
		h.refused = &RefusedError{refused}
		return invalid("%v", h.refused)
	}
	h.hello.Token = welcome.GetToken()
	h.mutex.Lock()
	h.stream = requests
	if !welcome.GetResumed() {
		for id, invocation := range h.invocations {
			invocation.cancel(ErrInvocationCancelled)
			delete(h.invocations, id)
		}
	}
	h.mutex.Unlock()
	if h.OnReady != nil {
		h.OnReady(Ready{welcome.GetWorkspace(), refused})
	}
	return nil
}

// lost says that a stream is of no use any more.
func (h *hosting) lost(stream *sender[*toolgatev1.HostRequest]) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if h.stream == stream {
		h.stream = nil
	}
}

func (h *hosting) told(event *toolgatev1.HostEvent) {
	switch event := event.GetEvent().(type) {
	case *toolgatev1.HostEvent_Invoke:
		invoke := event.Invoke
		h.begin(&Invocation{
			ID: invoke.GetInvocationId(), CallID: invoke.GetCallId(), Context: contextOf(invoke.GetContext()),
			Tool: invoke.GetTool(), Input: json.RawMessage(invoke.GetInputJson()), message: invoke,
		}, h.runTool)
	case *toolgatev1.HostEvent_RunSubagent:
		run := event.RunSubagent
		h.begin(&Invocation{
			ID: run.GetInvocationId(), CallID: run.GetCallId(), Context: contextOf(run.GetContext()), Tool: "task",
		}, func(call *Invocation) *toolgatev1.HostReport {
			return finalReport(func() (ToolResult, error) { return h.RunSubagent(call.ctx, newSubagent(call, run)) })
		})
	case *toolgatev1.HostEvent_Hook:
		hook := event.Hook
		h.begin(&Invocation{ID: hook.GetInvocationId()}, func(call *Invocation) *toolgatev1.HostReport {
			return h.runHook(call.ctx, hook)
		})
	case *toolgatev1.HostEvent_Cancel:
		h.cancelled(event.Cancel.GetInvocationId())
	case *toolgatev1.HostEvent_AskResult:
		if invocation := h.invocation(event.AskResult.GetInvocationId()); invocation != nil {
			invocation.answered(event.AskResult)
		}
	case *toolgatev1.HostEvent_Heartbeat:
		h.prune()
	}
}

// begin runs an invocation that is new, and takes up one that is known.
func (h *hosting) begin(invocation *Invocation, run func(*Invocation) *toolgatev1.HostReport) {
	h.mutex.Lock()
	known := h.invocations[invocation.ID]
	if known != nil {
		known.stream = h.stream
		close(h.resumed)
		h.resumed = make(chan struct{})
	} else {
		invocation.asks, invocation.stream = map[string]*pendingAsk{}, h.stream
		invocation.ctx, invocation.cancel = context.WithCancelCause(h.ctx)
		invocation.report = func(report *toolgatev1.HostReport) error { return h.report(invocation, report) }
		h.invocations[invocation.ID] = invocation
		h.functions.Go(func() { h.complete(invocation, run) })
	}
	h.mutex.Unlock()
	if known != nil {
		for _, report := range known.resume() {
			// What does not arrive is sent on the next stream.
			_ = known.stream.Send(reportRequest(report))
		}
	}
}

// complete runs a function to its end and reports what became of it, unless nobody waits for that any more.
func (h *hosting) complete(invocation *Invocation, run func(*Invocation) *toolgatev1.HostReport) {
	report := run(invocation)
	report.InvocationId = invocation.ID
	if invocation.ended() == nil {
		invocation.finish(report)
		// It fails if nobody waits for it any more.
		_ = h.report(invocation, report)
	}
	invocation.cancel(nil)
}

// report sends a report on the stream that knows the invocation, and waits for that while there is none: so reports keep
// their order, and a function does not run ahead of a lost connection.
func (h *hosting) report(invocation *Invocation, report *toolgatev1.HostReport) error {
	for {
		if err := invocation.ended(); err != nil {
			return err
		}
		h.mutex.Lock()
		resumed, stream := h.resumed, h.stream
		if invocation.stream != stream {
			stream = nil
		}
		h.mutex.Unlock()
		if stream != nil {
			if stream.Send(reportRequest(report)) == nil {
				return nil
			}
			h.lost(stream)
			continue
		}
		select {
		case <-resumed:
		case <-invocation.ctx.Done():
		}
	}
}

func reportRequest(report *toolgatev1.HostReport) *toolgatev1.HostRequest {
	return &toolgatev1.HostRequest{Message: &toolgatev1.HostRequest_Report{Report: report}}
}

func (h *hosting) runTool(call *Invocation) *toolgatev1.HostReport {
	tool, ok := h.tools[call.Tool]
	return finalReport(func() (ToolResult, error) {
		if !ok {
			return ToolResult{}, errors.New("this host does not have the tool " + call.Tool)
		}
		return tool.Run(call.ctx, call)
	})
}

// finalReport makes the last report of what a function returns.
func finalReport(run func() (ToolResult, error)) *toolgatev1.HostReport {
	var completed *toolgatev1.HostCompleted
	if err := guarded(func() error {
		result, err := run()
		if err != nil {
			return err
		}
		completed, err = result.proto()
		return err
	}); err != nil {
		return failedReport(err)
	}
	return &toolgatev1.HostReport{Report: &toolgatev1.HostReport_Completed{Completed: completed}}
}

func failedReport(err error) *toolgatev1.HostReport {
	return &toolgatev1.HostReport{Report: &toolgatev1.HostReport_Failed{Failed: &toolgatev1.HostFailed{Error: err.Error()}}}
}

func (r ToolResult) proto() (*toolgatev1.HostCompleted, error) {
	metadata, err := structOf(r.Metadata)
	if err != nil {
		return nil, err
	}
	completed := &toolgatev1.HostCompleted{
		Title: r.Title, Metadata: metadata, Attachments: each(r.Attachments, Attachment.proto),
	}
	if r.Output != "" {
		completed.Output = &r.Output
	}
	return completed, nil
}

func (h *hosting) runHook(ctx context.Context, hook *toolgatev1.HostHook) *toolgatev1.HostReport {
	output := json.RawMessage(hook.GetOutputJson())
	if err := guarded(func() error {
		run, ok := h.Hooks[hook.GetPoint()]
		if !ok {
			return errors.New("this host does not have the hook " + hook.GetPoint())
		}
		changed, err := run(ctx, HookEvent{
			Point: hook.GetPoint(), Input: json.RawMessage(hook.GetInputJson()), Output: output,
		})
		if changed != nil {
			output = changed
		}
		return err
	}); err != nil {
		return failedReport(err)
	}
	result := &toolgatev1.HostHookResult{OutputJson: string(output)}
	return &toolgatev1.HostReport{Report: &toolgatev1.HostReport_HookResult{HookResult: result}}
}

func (h *hosting) invocation(id string) *Invocation {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.invocations[id]
}

func (h *hosting) cancelled(id string) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if invocation := h.invocations[id]; invocation != nil {
		invocation.cancel(ErrInvocationCancelled)
		delete(h.invocations, id)
	}
}

// keepOnlyResent forgets the invocations that ended while there was no stream.
func (h *hosting) keepOnlyResent() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for id, invocation := range h.invocations {
		if invocation.stream != h.stream {
			invocation.cancel(ErrInvocationCancelled)
			delete(h.invocations, id)
		}
	}
}

// prune forgets the invocations whose end has long arrived: a connection that had lost it would have been found broken.
func (h *hosting) prune() {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for id, invocation := range h.invocations {
		if invocation.isOver(2 * h.client.config.stall) {
			delete(h.invocations, id)
		}
	}
}
