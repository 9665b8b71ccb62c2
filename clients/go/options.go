package toolgate

import (
	"context"
	"crypto/tls"
	"maps"
	"os"
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Option changes how a [Client] is made.
type Option interface{ applyClient(*config) error }

// CallOption changes one call.
type CallOption interface{ applyCall(*callConfig) error }

// ToolsOption changes one listing of tools.
type ToolsOption interface{ applyTools(*toolsConfig) error }

// ContextOption says in whose name something is done. Given to [NewClient] it holds for everything that the client does,
// given to a method for that alone.
type ContextOption interface {
	Option
	CallOption
	ToolsOption
}

// config is what a client is made with. The unexported times have no option: tests shorten them.
type config struct {
	context          callContext
	token            TokenSource
	tls              *tls.Config
	dial             []grpc.DialOption
	rpcTimeout       time.Duration
	retryTimeout     time.Duration
	reconnectTimeout time.Duration
	cancelTimeout    time.Duration
	stall            time.Duration
	backoff          backoff
}

func newConfig(options []Option) (config, error) {
	c := config{
		rpcTimeout:       time.Minute,
		retryTimeout:     15 * time.Second,
		reconnectTimeout: 2 * time.Minute,
		cancelTimeout:    10 * time.Second,
		stall:            3*heartbeat + 5*time.Second,
		backoff:          backoff{first: 100 * time.Millisecond, most: 5 * time.Second},
	}
	for _, option := range options {
		if err := option.applyClient(&c); err != nil {
			return config{}, err
		}
	}
	var err error
	if c.token == nil {
		if c.token, err = environmentToken(); err != nil {
			return config{}, err
		}
	}
	if c.tls == nil {
		c.tls, err = tlsFromFiles(os.Getenv("TOOLGATE_TLS_CA"), os.Getenv("TOOLGATE_TLS_CERT"), os.Getenv("TOOLGATE_TLS_KEY"))
	}
	return c, err
}

type clientOption func(*config) error

func (o clientOption) applyClient(c *config) error { return o(c) }

// WithToken shows this bearer token to the service. Without it, and without [WithTokenSource], the variables
// TOOLGATE_TOKEN and TOOLGATE_TOKEN_FILE say which.
func WithToken(token string) Option {
	return WithTokenSource(func(context.Context) (string, error) { return token, nil })
}

// WithTokenSource asks for the bearer token before every RPC, for tokens that expire.
func WithTokenSource(source TokenSource) Option {
	return clientOption(func(c *config) error { c.token = source; return nil })
}

// WithTLS sets how an https target is verified and which certificate is shown to it. Without it, and without
// [WithTLSFiles], the variables TOOLGATE_TLS_CA, TOOLGATE_TLS_CERT and TOOLGATE_TLS_KEY name files.
func WithTLS(settings *tls.Config) Option {
	return clientOption(func(c *config) error { c.tls = settings; return nil })
}

// WithTLSFiles is [WithTLS] by PEM files: the authorities that may have signed the server's certificate, and a
// certificate to show with its key. Each may be empty.
func WithTLSFiles(authorities, certificate, key string) Option {
	return clientOption(func(c *config) (err error) {
		c.tls, err = tlsFromFiles(authorities, certificate, key)
		return err
	})
}

// WithDialOptions adds options of gRPC, such as interceptors for tracing.
func WithDialOptions(options ...grpc.DialOption) Option {
	return clientOption(func(c *config) error { c.dial = append(c.dial, options...); return nil })
}

// WithRPCTimeout sets the deadline of unary RPCs whose context has none, retries included; a minute unless said. RPCs
// that wait for a call to end, or for a person, have none.
func WithRPCTimeout(limit time.Duration) Option {
	return clientOption(func(c *config) error { c.rpcTimeout = limit; return nil })
}

// WithRetryTimeout sets how long what may be retried is tried before its first success; 15 seconds unless said.
func WithRetryTimeout(limit time.Duration) Option {
	return clientOption(func(c *config) error { c.retryTimeout = limit; return nil })
}

// WithReconnectTimeout sets how long a stream that had worked is opened again without success; 2 minutes unless said.
func WithReconnectTimeout(limit time.Duration) Option {
	return clientOption(func(c *config) error { c.reconnectTimeout = limit; return nil })
}

// Model names a model.
type Model struct {
	// Provider is the provider's id, for instance "anthropic".
	Provider string
	// ID is the provider's name for the model.
	ID string
	// Package is the npm package through which the model is reached, on which the form of schemas may depend. Usually
	// empty.
	Package string
}

func (m Model) proto() *toolgatev1.ModelRef {
	if m == (Model{}) {
		return nil
	}
	return &toolgatev1.ModelRef{ProviderId: m.Provider, ModelId: m.ID, Package: m.Package}
}

// CallContext says in whose name a call was made.
type CallContext struct {
	// Workspace is the workspace's name.
	Workspace string
	// SessionID is the session.
	SessionID string
	// MessageID is the message of the model that the call belongs to.
	MessageID string
	// Agent is the agent.
	Agent string
	// Model is the model.
	Model Model
	// ClientKind is the kind of client, on which the tools depend that are offered.
	ClientKind string
	// ClientName is the program that made the call: its name and its version.
	ClientName string
	// ParentCallID is the call on whose behalf this one was made.
	ParentCallID string
	// Extra is free data.
	Extra map[string]any
}

// callContext is a context on its way to the service.
type callContext struct {
	CallContext
	// By what the calls of a client are known as its own.
	clientIDs []string
}

func (c callContext) proto() (*toolgatev1.CallContext, error) {
	message := &toolgatev1.CallContext{
		Workspace: c.Workspace, SessionId: c.SessionID, MessageId: c.MessageID, Agent: c.Agent,
		Model: c.Model.proto(), ClientKind: c.ClientKind, ClientName: c.ClientName, ParentCallId: c.ParentCallID, ClientIds: c.clientIDs,
	}
	if c.Extra != nil {
		extra, err := structOf(c.Extra)
		if err != nil {
			return nil, invalid("extra: %v", err)
		}
		message.Extra = extra
	}
	return message, nil
}

func contextOf(message *toolgatev1.CallContext) CallContext {
	model := message.GetModel()
	return CallContext{
		Workspace: message.GetWorkspace(), SessionID: message.GetSessionId(), MessageID: message.GetMessageId(),
		Agent: message.GetAgent(), ClientKind: message.GetClientKind(), ClientName: message.GetClientName(), ParentCallID: message.GetParentCallId(),
		Model: Model{Provider: model.GetProviderId(), ID: model.GetModelId(), Package: model.GetPackage()},
		Extra: message.GetExtra().AsMap(),
	}
}

type contextOption func(*callContext)

func (o contextOption) applyClient(c *config) error     { o(&c.context); return nil }
func (o contextOption) applyCall(c *callConfig) error   { o(&c.context); return nil }
func (o contextOption) applyTools(c *toolsConfig) error { o(&c.context); return nil }

// WithWorkspace names the workspace; the service's first one unless said.
func WithWorkspace(name string) ContextOption {
	return contextOption(func(c *callContext) { c.Workspace = name })
}

// WithSession names the session. Without one, every call gets a session of its own.
func WithSession(id string) ContextOption {
	return contextOption(func(c *callContext) { c.SessionID = id })
}

// WithAgent names the agent, whose permissions count; `build` unless said.
func WithAgent(name string) ContextOption {
	return contextOption(func(c *callContext) { c.Agent = name })
}

// WithModel names the model, on which the list of tools and their schemas depend.
func WithModel(model Model) ContextOption {
	return contextOption(func(c *callContext) { c.Model = model })
}

// WithMessage names the message of the model that a call belongs to.
func WithMessage(id string) ContextOption {
	return contextOption(func(c *callContext) { c.MessageID = id })
}

// WithClientKind names the kind of client: `cli`, `app`, `desktop` or a name of your own.
func WithClientKind(kind string) ContextOption {
	return contextOption(func(c *callContext) { c.ClientKind = kind })
}

// WithClientName says which program makes the calls, for people: its name and its version, by default those of this
// library.
func WithClientName(name string) ContextOption {
	return contextOption(func(c *callContext) { c.ClientName = name })
}

// WithParentCall names the call on whose behalf this is done, for subagents.
func WithParentCall(id string) ContextOption {
	return contextOption(func(c *callContext) { c.ParentCallID = id })
}

// WithExtra adds free data to the record of a call.
func WithExtra(extra map[string]any) ContextOption {
	return contextOption(func(c *callContext) { c.Extra = maps.Clone(extra) })
}

// OutputMode says how much of the running output is streamed. The result is the same in every mode.
type OutputMode string

const (
	// OutputFull streams every byte.
	OutputFull OutputMode = "FULL"
	// OutputTail lets a slow reader skip to the last 64 KiB.
	OutputTail OutputMode = "TAIL"
	// OutputNone streams none.
	OutputNone OutputMode = "NONE"
)

// OnDisconnect says what ends a call before it is through.
type OnDisconnect int

const (
	// CancelByClient is the default: the library cancels the call when the context of [Client.Execute] ends, when the
	// [Execution] is closed, or when the client is. A lost connection leaves the call alone, and so does a program that
	// dies: such a call runs on.
	CancelByClient OnDisconnect = iota
	// CancelByServer cancels in addition when the connection is lost.
	CancelByServer
	// Keep never cancels: the end of the context only ends the watching.
	Keep
)

// callConfig is what a call is made with.
type callConfig struct {
	context      callContext
	callID       string
	timeout      time.Duration
	output       OutputMode
	onDisconnect OnDisconnect
	merge        bool
	waits        bool
	waitTimeout  time.Duration
	change       changeConfig
}

func (c *Client) callConfig(options []CallOption) (callConfig, error) {
	call := callConfig{context: c.config.context}
	for _, option := range options {
		if err := option.applyCall(&call); err != nil {
			return callConfig{}, err
		}
	}
	if call.callID == "" {
		id, err := newID()
		if err != nil {
			return callConfig{}, err
		}
		call.callID = id
	}
	return call, nil
}

// callStart says how a call is made that an RPC makes itself. The options of the call come after those of the context.
func (c *Client) callStart(context []ContextOption, options []CallOption) (callConfig, *toolgatev1.CallStart, error) {
	var all []CallOption
	for _, option := range context {
		all = append(all, option)
	}
	call, err := c.callConfig(append(all, options...))
	if err != nil {
		return callConfig{}, nil, err
	}
	message, err := call.proto()
	return call, message, err
}

// context makes the context of a request that makes no call, or none of an id.
func (c *Client) context(options []ContextOption) (*toolgatev1.CallContext, error) {
	call := callConfig{context: c.config.context}
	for _, option := range options {
		if err := option.applyCall(&call); err != nil {
			return nil, err
		}
	}
	return call.context.proto()
}

func (c callConfig) timeoutProto() *durationpb.Duration {
	if c.timeout == 0 {
		return nil
	}
	return durationpb.New(c.timeout)
}

// proto makes what an RPC that makes its call itself is told of it.
func (c callConfig) proto() (*toolgatev1.CallStart, error) {
	context, err := c.context.proto()
	if err != nil {
		return nil, err
	}
	options := &toolgatev1.CallStart{Context: context, CallId: c.callID}
	if c.waits {
		options.Unattended = toolgatev1.Unattended_UNATTENDED_WAIT
		if c.waitTimeout != 0 {
			options.WaitTimeout = durationpb.New(c.waitTimeout)
		}
	}
	return options, nil
}

func (c callConfig) onDisconnectProto() toolgatev1.OnDisconnect {
	if c.onDisconnect == CancelByServer {
		return toolgatev1.OnDisconnect_ON_DISCONNECT_CANCEL
	}
	return toolgatev1.OnDisconnect_ON_DISCONNECT_KEEP
}

type callOption func(*callConfig)

func (o callOption) applyCall(c *callConfig) error { o(c); return nil }

// WithCallID chooses the call's id: 1 to 128 letters, digits and `-_.:`. The same id with the same request attaches to the
// call that is there, so a program that keeps the id can be started again. Without it the library makes a UUIDv7.
func WithCallID(id string) CallOption {
	return callOption(func(c *callConfig) { c.callID = id })
}

// WithTimeout limits how long the tool may run; waiting for people does not count.
func WithTimeout(limit time.Duration) CallOption {
	return callOption(func(c *callConfig) { c.timeout = limit })
}

// WithOutputMode says how much of the running output to stream.
func WithOutputMode(mode OutputMode) CallOption {
	return callOption(func(c *callConfig) { c.output = mode })
}

// WithOnDisconnect says what ends a call before it is through.
func WithOnDisconnect(policy OnDisconnect) CallOption {
	return callOption(func(c *callConfig) { c.onDisconnect = policy })
}

// WithMerge lets [Client.Revert] keep what was changed since in the same files, where the changes are apart.
func WithMerge() CallOption {
	return callOption(func(c *callConfig) { c.merge = true })
}

// WithWait lets a change of [Files], a reading of [MCPServers] and [Client.OpenPort] wait for a person who is not there
// yet, for each prompt as long as limit, or as the service lets prompts wait if that is 0. Without it, what nobody is there
// to approve is refused.
func WithWait(limit time.Duration) CallOption {
	return callOption(func(c *callConfig) { c.waits, c.waitTimeout = true, limit })
}
