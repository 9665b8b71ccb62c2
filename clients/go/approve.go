package toolgate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// PromptHandler decides about a prompt, a [*PermissionPrompt] or a [*QuestionPrompt]. Its context ends when the prompt is settled elsewhere, with the cause
// [ErrPromptEnded]. An error leaves the prompt to others, and is reported. If the reply itself was wrong ([ReplyInvalid],
// [ReplyDigestMismatch]), the handler is called again with the prompt as it stands and its Problem, five times at most;
// then that is reported. After [ReplyNotAllowed], [ReplyOtherInstance] and [ReplySecondApprovalNeeded] the prompt is left to
// others.
type PromptHandler func(ctx context.Context, prompt Prompt) (Decision, error)

// Approver answers prompts: by default those of the calls that the client makes, of calls made on their behalf, and of the
// session that [WithSession] gave to [NewClient].
type Approver struct {
	// Name is recorded with the decisions and shown to others.
	Name string
	// Workspace is whose prompts it sees; empty for the one of the client, or else all.
	Workspace string
	// SessionIDs, if set, are the sessions whose prompts it sees instead, whoever makes the calls.
	SessionIDs []string
	// Everybody shows it the prompts of everybody's calls instead.
	Everybody bool
	// Handle is called for each prompt in a goroutine of its own: once, and again if its reply was wrong.
	Handle PromptHandler
	// OnReady, if set, is called when the prompts that were open are known, again after each reconnection.
	OnReady func()
	// OnReply, if set, is told what became of each reply. OnReady and OnReply are called one after the other and should
	// return soon.
	OnReply func(Reply)
	// OnError, if set, is told of each prompt that Handle failed on, or whose replies were wrong time after time, from a
	// goroutine of that prompt.
	OnError func(prompt Prompt, err error)
}

// Reply is what became of a reply.
type Reply struct {
	// PromptID is the prompt.
	PromptID string
	// Result says what became of the reply.
	Result ReplyResult
	// Message is a sentence for a person, if it was not accepted.
	Message string
	// Prompt is the prompt as it stands; nil if there is none.
	Prompt Prompt
}

// Approve answers prompts until ctx ends, and returns why it ended. It reconnects by itself: a prompt is handled once, and a
// reply whose connection broke is sent again. It returns when all handlers have.
func (c *Client) Approve(ctx context.Context, approver Approver) error {
	if approver.Handle == nil {
		return invalid("an approver needs Handle")
	}
	if approver.Everybody && len(approver.SessionIDs) > 0 {
		return invalid("an approver of everybody's calls names no SessionIDs")
	}
	if approver.Workspace == "" {
		approver.Workspace = c.config.context.Workspace
	}
	handling, end := context.WithCancelCause(ctx)
	a := &approvals{
		Approver: approver, client: c, ctx: handling,
		known: map[string]*knownPrompt{}, unanswered: map[string]*toolgatev1.PromptReply{},
	}
	err := c.keepOpen(ctx, a.run)
	end(err)
	a.handlers.Wait()
	return err
}

// maxAgain is how often a handler is called again for one prompt because its reply was wrong.
const maxAgain = 5

// knownPrompt is a prompt that is open, as its handler was given it last.
type knownPrompt struct {
	prompt  Prompt
	ctx     context.Context
	cancel  context.CancelCauseFunc
	refused int
}

// approvals is what outlives the streams of one Approve.
type approvals struct {
	Approver
	client   *Client
	ctx      context.Context
	handlers sync.WaitGroup

	mutex sync.Mutex
	// The prompts that are open, as far as is known: each has or had a handler.
	known map[string]*knownPrompt
	// The replies whose result has not come, by their ids.
	unanswered map[string]*toolgatev1.PromptReply
	channel    *sender[*toolgatev1.ChannelRequest]
}

func (a *approvals) run(ctx context.Context, worked func()) error {
	stream, err := openStream(ctx, a.client.config.stall, a.open)
	if err != nil {
		return err
	}
	defer stream.close()
	defer a.disconnect()
	listed := map[string]bool{}
	for {
		message, err := stream.next()
		if err != nil {
			return toError(stream.ctx, err)
		}
		worked()
		switch message := message.GetMessage().(type) {
		case *toolgatev1.ChannelResponse_PromptAdded:
			prompt := newPrompt(message.PromptAdded.GetPrompt())
			if listed != nil {
				listed[prompt.Info().ID] = true
			}
			a.added(prompt)
		case *toolgatev1.ChannelResponse_SnapshotEnd:
			a.keepOnly(listed)
			listed = nil
			if a.OnReady != nil {
				a.OnReady()
			}
		case *toolgatev1.ChannelResponse_PromptResolved:
			a.ended(message.PromptResolved.GetPrompt().GetPromptId())
		case *toolgatev1.ChannelResponse_ReplyResult:
			a.answered(message.ReplyResult)
		default:
			// Opened, a heartbeat, or a prompt that changed and is still open: nothing to do.
		}
	}
}

// open opens the channel and sends again what was not answered on the one before.
func (a *approvals) open(ctx context.Context) (func() (*toolgatev1.ChannelResponse, error), error) {
	channel, err := a.client.permissions.Channel(ctx)
	if err != nil {
		return nil, err
	}
	sender := &sender[*toolgatev1.ChannelRequest]{send: channel.Send, close: channel.CloseSend}
	open := &toolgatev1.ChannelOpen{Name: a.Name, Filter: a.filter()}
	// What cannot be sent says why when something is received.
	_ = sender.Send(&toolgatev1.ChannelRequest{Message: &toolgatev1.ChannelRequest_Open{Open: open}})
	a.mutex.Lock()
	a.channel = sender
	unanswered := slices.Collect(maps.Values(a.unanswered))
	a.mutex.Unlock()
	for _, reply := range unanswered {
		_ = sender.Send(replyRequest(reply))
	}
	return channel.Recv, nil
}

func (a *approvals) filter() *toolgatev1.PromptFilter {
	filter := &toolgatev1.PromptFilter{Workspace: cmp.Or(a.Workspace, "-"), All: a.Everybody, SessionIds: a.SessionIDs}
	if own := a.client.config.context; !a.Everybody && len(a.SessionIDs) == 0 {
		filter.ClientIds = own.clientIDs
		if own.SessionID != "" {
			filter.SessionIds = []string{own.SessionID}
		}
	}
	return filter
}

func (a *approvals) disconnect() {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.channel = nil
}

func replyRequest(reply *toolgatev1.PromptReply) *toolgatev1.ChannelRequest {
	return &toolgatev1.ChannelRequest{Message: &toolgatev1.ChannelRequest_Reply{Reply: reply}}
}

func (a *approvals) added(prompt Prompt) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	id := prompt.Info().ID
	if _, known := a.known[id]; known {
		return
	}
	ctx, cancel := context.WithCancelCause(a.ctx)
	a.known[id] = &knownPrompt{prompt: prompt, ctx: ctx, cancel: cancel}
	a.handlers.Go(func() { a.handle(ctx, prompt) })
}

func (a *approvals) handle(ctx context.Context, prompt Prompt) {
	var decision Decision
	err := guarded(func() (err error) {
		decision, err = a.Handle(ctx, prompt)
		return err
	})
	if ctx.Err() != nil {
		// Nobody waits for the decision any more; a handler that says so has not failed.
		if err == nil || errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)) {
			return
		}
	}
	var reply *toolgatev1.PromptReply
	if err == nil && !decision.leaves() {
		reply, err = decision.reply(prompt.Info())
	}
	if err != nil {
		a.failed(prompt, err)
		return
	}
	if reply == nil {
		return
	}
	a.mutex.Lock()
	a.unanswered[reply.GetReplyId()] = reply
	channel := a.channel
	a.mutex.Unlock()
	if channel != nil {
		// What does not arrive stays unanswered, and is sent on the next channel.
		_ = channel.Send(replyRequest(reply))
	}
}

func (a *approvals) failed(prompt Prompt, err error) {
	if a.OnError != nil {
		a.OnError(prompt, fmt.Errorf("toolgate: no decision about prompt %s: %w", prompt.Info().ID, err))
	}
}

// ended forgets a prompt and ends its handler.
func (a *approvals) ended(promptID string) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	a.forget(promptID)
}

func (a *approvals) forget(promptID string) {
	if known := a.known[promptID]; known != nil {
		known.cancel(ErrPromptEnded)
		delete(a.known, promptID)
	}
}

// keepOnly forgets the prompts that ended while nobody told.
func (a *approvals) keepOnly(open map[string]bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	for promptID := range a.known {
		if !open[promptID] {
			a.forget(promptID)
		}
	}
}

func (a *approvals) answered(result *toolgatev1.PromptReplyResult) {
	a.mutex.Lock()
	_, asked := a.unanswered[result.GetReplyId()]
	delete(a.unanswered, result.GetReplyId())
	a.mutex.Unlock()
	if !asked {
		return
	}
	reply := newReply(result)
	if a.OnReply != nil {
		a.OnReply(reply)
	}
	if reply.Result == ReplyInvalid || reply.Result == ReplyDigestMismatch {
		a.askAgain(reply)
	}
}

// askAgain calls the handler with the prompt as it stands, and with what was wrong with its reply.
func (a *approvals) askAgain(reply Reply) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	known := a.known[reply.PromptID]
	if known == nil || known.ctx.Err() != nil {
		return
	}
	// A reply that cannot be read at all is answered without the prompt, which is as it was then.
	shown := known.prompt
	if reply.Prompt != nil {
		shown = reply.Prompt
	}
	prompt := newPrompt(shown.Info().message)
	if prompt.Info().State != PromptOpen {
		return
	}
	problem := reply.Message
	if problem == "" {
		problem = "the reply was not taken: " + string(reply.Result)
	}
	prompt.Info().Problem = problem
	known.prompt = prompt
	known.refused++
	if refused := known.refused; refused > maxAgain {
		a.handlers.Go(func() {
			a.failed(prompt, fmt.Errorf("%d replies were not taken: %s", refused, problem))
		})
		return
	}
	a.handlers.Go(func() { a.handle(known.ctx, prompt) })
}
