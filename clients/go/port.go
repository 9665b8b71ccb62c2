package toolgate

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// ListeningPort is a TCP port of the service's machine that a program of a call listens on.
type ListeningPort struct {
	// Port is the port.
	Port int
	// Address is the address that it listens on: `127.0.0.1`, or `0.0.0.0` or `::` for all.
	Address string
	// PID is a process that listens there, Command its command line, cut at 512 bytes.
	PID     int64
	Command string
}

func newListeningPort(message *toolgatev1.ListeningPort) ListeningPort {
	return ListeningPort{int(message.GetPort()), message.GetAddress(), message.GetPid(), message.GetCommand()}
}

// Port is an opened port of a call: it can be connected to as often as it is needed. It is open until [Port.Close], or
// until the call ends that it belongs to.
type Port struct {
	client   *Client
	callID   string
	httpPath string
}

// OpenPort opens a port that a program of a call listens on, which asks for the permission `port`; see [WithWait]. The
// opened port is a call of its own, whose id is the one of [WithCallID].
func (c *Client) OpenPort(ctx context.Context, callID string, port int, options ...CallOption) (*Port, error) {
	call, err := c.callConfig(options)
	if err != nil {
		return nil, err
	}
	message, err := call.proto()
	if err != nil {
		return nil, err
	}
	response, err := c.ports.OpenPort(ctx, &toolgatev1.OpenPortRequest{
		Call: message, CallId: callID, Port: int32(port),
	})
	if err != nil {
		return nil, err
	}
	return &Port{c, response.GetCallId(), response.GetHttpPath()}, nil
}

// CallID returns the call that keeps the port open.
func (p *Port) CallID() string { return p.callID }

// HTTPPath returns the path under which the service hands HTTP requests to the port, WebSockets included, at its own
// address. Whoever knows it needs no other credentials.
func (p *Port) HTTPPath() string { return p.httpPath }

// Close closes the port and its connections.
func (p *Port) Close(ctx context.Context) error {
	_, err := p.client.Cancel(ctx, p.callID)
	return err
}

// Connect makes a connection to the program. It lasts until it is closed, ctx ends, or the client is closed.
func (p *Port) Connect(ctx context.Context) (*PortConn, error) {
	bound, end := p.client.bind(ctx)
	stream, err := p.client.ports.ConnectPort(bound)
	if err != nil {
		failure := toError(bound, err)
		end(nil)
		return nil, failure
	}
	conn := &PortConn{
		ctx: bound, end: end, receive: stream.Recv,
		sender: &sender[*toolgatev1.ConnectPortRequest]{send: stream.Send, close: stream.CloseSend},
	}
	// What cannot be sent says why when something is received. The first answer is empty: the connection is made.
	_ = conn.sender.Send(&toolgatev1.ConnectPortRequest{CallId: p.callID})
	if _, err := stream.Recv(); err != nil {
		failure := toError(bound, err)
		end(nil)
		return nil, failure
	}
	return conn, nil
}

// PortConn is a connection to a program that listens. Reading and writing may be done at once, by one goroutine each.
type PortConn struct {
	ctx     context.Context
	end     context.CancelCauseFunc
	receive func() (*toolgatev1.ConnectPortResponse, error)
	sender  *sender[*toolgatev1.ConnectPortRequest]
	rest    []byte
	err     error
}

// Read reads what the program sends; io.EOF when it has closed its side. If it has broken the connection, the error has the
// reason CONNECTION_LOST.
func (c *PortConn) Read(buffer []byte) (int, error) {
	for len(c.rest) == 0 && c.err == nil {
		var message *toolgatev1.ConnectPortResponse
		if message, c.err = c.receive(); c.err != nil {
			c.err = streamError(c.ctx, c.err)
		}
		c.rest = message.GetData()
	}
	if len(c.rest) == 0 {
		return 0, c.err
	}
	count := copy(buffer, c.rest)
	c.rest = c.rest[count:]
	return count, nil
}

// Write sends bytes to the program, and waits while it does not read. When the connection has ended, the error is
// io.ErrClosedPipe, and [PortConn.Read] says why.
func (c *PortConn) Write(data []byte) (int, error) {
	written := 0
	for written < len(data) {
		piece := data[written:min(len(data), written+uploadPiece)]
		// Messages may be looked at when they are sent, the caller's bytes not.
		if err := c.sender.Send(&toolgatev1.ConnectPortRequest{Data: bytes.Clone(piece)}); err != nil {
			if errors.Is(err, io.EOF) && c.ctx.Err() == nil {
				return written, io.ErrClosedPipe
			}
			return written, toError(c.ctx, err)
		}
		written += len(piece)
	}
	return written, nil
}

// CloseWrite says that nothing follows: the program reads the end. What it sends can still be read.
func (c *PortConn) CloseWrite() error { return c.sender.Close() }

// Close ends the connection. Reading and writing then fail with net.ErrClosed.
func (c *PortConn) Close() error {
	c.end(net.ErrClosed)
	return nil
}
