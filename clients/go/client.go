package toolgate

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

const (
	// The largest message that is taken; a result carries whole files.
	maxMessage = 64 << 20
	// Flow-control windows: over a distance one window travels per round trip.
	streamWindow     = 1 << 20
	connectionWindow = 4 << 20

	keepaliveEvery   = 20 * time.Second
	keepaliveTimeout = 10 * time.Second
	connectTimeout   = 5 * time.Second
)

// Client is a connection to a service, which makes itself anew when it breaks. It is safe for concurrent use.
type Client struct {
	config config
	conn   *grpc.ClientConn

	tools       toolgatev1.ToolServiceClient
	permissions toolgatev1.PermissionServiceClient
	hosts       toolgatev1.HostServiceClient
	outputs     toolgatev1.OutputServiceClient
	sessions    toolgatev1.SessionServiceClient
	info        toolgatev1.InfoServiceClient
	files       toolgatev1.FileServiceClient
	ports       toolgatev1.PortServiceClient
	mcp         toolgatev1.McpServiceClient
	workspaces  toolgatev1.WorkspaceServiceClient

	// Ends when the client is closed.
	life context.Context
	end  context.CancelCauseFunc

	mutex sync.Mutex
	live  map[*Execution]struct{}
}

// NewClient makes a client for the service at target: unix:/PATH, http://HOST:PORT, https://HOST:PORT or HOST:PORT, which
// is plain text on this machine and TLS otherwise. An empty target is the one of the variable TOOLGATE_SERVER, or else
// [DefaultTarget]. The connection is made on first use. Close the client when it is not needed any more.
func NewClient(target string, options ...Option) (*Client, error) {
	if target == "" {
		target = os.Getenv("TOOLGATE_SERVER")
	}
	if target == "" {
		target = DefaultTarget
	}
	end, err := parseTarget(target)
	if err != nil {
		return nil, err
	}
	settings, err := newConfig(options)
	if err != nil {
		return nil, err
	}
	id, err := newID()
	if err != nil {
		return nil, err
	}
	settings.context.clientIDs = []string{id}
	if settings.context.ClientName == "" {
		settings.context.ClientName = "toolgate-go/" + Version
	}
	client := &Client{config: settings, live: map[*Execution]struct{}{}}
	address, dial := client.dialOptions(end)
	client.conn, err = grpc.NewClient(address, dial...)
	if err != nil {
		return nil, fmt.Errorf("toolgate: %w", err)
	}
	client.life, client.end = context.WithCancelCause(context.Background())
	client.tools = toolgatev1.NewToolServiceClient(client.conn)
	client.permissions = toolgatev1.NewPermissionServiceClient(client.conn)
	client.hosts = toolgatev1.NewHostServiceClient(client.conn)
	client.outputs = toolgatev1.NewOutputServiceClient(client.conn)
	client.sessions = toolgatev1.NewSessionServiceClient(client.conn)
	client.info = toolgatev1.NewInfoServiceClient(client.conn)
	client.files = toolgatev1.NewFileServiceClient(client.conn)
	client.ports = toolgatev1.NewPortServiceClient(client.conn)
	client.mcp = toolgatev1.NewMcpServiceClient(client.conn)
	client.workspaces = toolgatev1.NewWorkspaceServiceClient(client.conn)
	return client, nil
}

func (c *Client) dialOptions(end endpoint) (string, []grpc.DialOption) {
	options := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithChainUnaryInterceptor(c.unary),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connectionWindow),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveEvery, Timeout: keepaliveTimeout, PermitWithoutStream: true,
		}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: grpcbackoff.Config{
				BaseDelay: c.config.backoff.first, Multiplier: 1.6, Jitter: 0.2, MaxDelay: c.config.backoff.most,
			},
			MinConnectTimeout: connectTimeout,
		}),
	}
	if c.config.token != nil {
		options = append(options, grpc.WithPerRPCCredentials(bearer{c.config.token}))
	}
	address := "dns:///" + end.address
	if end.socket != "" {
		// Not gRPC's own unix scheme: it reads the path as a URL.
		address = "passthrough:///unix"
		options = append(options, grpc.WithAuthority("localhost"),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", end.socket)
			}))
	}
	if end.tls {
		options = append(options, grpc.WithTransportCredentials(credentials.NewTLS(c.config.tls)))
	}
	return address, append(options, c.config.dial...)
}

// Close cancels the calls of executions that are neither over nor kept (see [OnDisconnect]), ends every stream, and closes
// the connection.
func (c *Client) Close() error {
	c.mutex.Lock()
	running := make([]*Execution, 0, len(c.live))
	for execution := range c.live {
		running = append(running, execution)
	}
	c.mutex.Unlock()
	var closing sync.WaitGroup
	for _, execution := range running {
		// What could not be cancelled is in nobody's hands now; the connection is going anyway.
		closing.Go(func() { _ = execution.Close() })
	}
	closing.Wait()
	c.end(ErrClosed)
	return c.conn.Close()
}

// Conn returns the connection, with the client's credentials, deadlines and retries, for the generated stubs:
//
//	audit := toolgatev1.NewAuditServiceClient(client.Conn())
func (c *Client) Conn() *grpc.ClientConn { return c.conn }

// ServerInfo returns the version, limits and workspaces of the service.
func (c *Client) ServerInfo(ctx context.Context) (*toolgatev1.GetServerInfoResponse, error) {
	return c.info.GetServerInfo(ctx, &toolgatev1.GetServerInfoRequest{})
}

// bind makes a context that ends with the client as well. Whoever calls it must call the function that it returns.
func (c *Client) bind(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	bound, cancel := context.WithCancelCause(ctx)
	unbind := context.AfterFunc(c.life, func() { cancel(ErrClosed) })
	return bound, func(cause error) {
		unbind()
		cancel(cause)
	}
}

func (c *Client) patience(limit time.Duration) patience {
	return patience{backoff: c.config.backoff, limit: limit}
}

// Version is the version of this library.
const Version = "0.1.0"

// newID makes a UUIDv7, which sorts by the time of its making.
func newID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("toolgate: the system gives no random numbers: %w", err)
	}
	return id.String(), nil
}
