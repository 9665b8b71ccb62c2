package toolgate_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
)

// listen is what the program of these tests does when a command runs it: it serves a page, or answers raw connections.
func listen(kind string) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	if kind == "http" {
		page := func(answer http.ResponseWriter, request *http.Request) {
			fmt.Fprintln(answer, "a page at", request.URL.Path)
		}
		log.Fatal(http.Serve(listener, http.HandlerFunc(page)))
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go answer(conn.(*net.TCPConn))
	}
}

// answer sends back what comes and says goodbye at its end. What begins with `break` breaks the connection.
func answer(conn *net.TCPConn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	if word, _ := reader.Peek(5); string(word) == "break" {
		_ = conn.SetLinger(0)
		return
	}
	_, _ = io.Copy(conn, reader)
	fmt.Fprint(conn, "goodbye")
}

// program puts the program of these tests into the workspace, where commands may run it.
func (s *server) program() {
	s.T.Helper()
	path, err := os.Executable()
	check(s.T, err)
	// A copy: commands see little outside of the workspace.
	text, err := os.ReadFile(path)
	check(s.T, err)
	check(s.T, os.WriteFile(filepath.Join(s.Workspace(), "program"), text, 0o755))
}

// listening starts a command in the background, and returns its call and the port that it listens on.
func listening(t *testing.T, ctx context.Context, client *toolgate.Client, command string) (callID string, port int) {
	t.Helper()
	execution, err := client.Execute(ctx, "background", run("%s", command))
	check(t, err)
	t.Cleanup(func() { _ = execution.Close() })
	for event, err := range execution.Events() {
		check(t, err)
		if event, ok := event.(*toolgate.ListeningEvent); ok && len(event.Ports) > 0 {
			expect(t, "address", event.Ports[0].Address, "127.0.0.1")
			expect(t, "command", strings.Contains(event.Ports[0].Command, "listen"), true)
			return execution.CallID(), event.Ports[0].Port
		}
	}
	t.Fatal("it does not listen")
	return "", 0
}

func TestAPortIsReached(t *testing.T) {
	server := startServer(t)
	server.program()
	client, ctx := server.Client(), bounded(t)
	id, port := listening(t, ctx, client, "./program listen raw")
	call, err := client.Get(ctx, id)
	check(t, err)
	expect(t, "listening", call.Listening[0].Port, port)

	opened, err := client.OpenPort(ctx, id, port, toolgate.WithCallID("opened"))
	check(t, err)
	expect(t, "call", opened.CallID(), "opened")
	expect(t, "path", strings.HasPrefix(opened.HTTPPath(), "/ports/"), true)
	again, err := client.OpenPort(ctx, id, port, toolgate.WithCallID("opened"))
	check(t, err)
	expect(t, "the same path", again.HTTPPath(), opened.HTTPPath())
	call, err = client.Get(ctx, "opened")
	check(t, err)
	expect(t, "tool", call.Tool, "port")

	// Much goes both ways at once, and the end of one way is not that of the other.
	sent := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	conn, err := opened.Connect(ctx)
	check(t, err)
	writing := make(chan error, 1)
	go func() {
		_, err := conn.Write(sent)
		writing <- errors.Join(err, conn.CloseWrite())
	}()
	received, err := io.ReadAll(conn)
	check(t, err)
	check(t, <-writing)
	expect(t, "echo", bytes.Equal(received, append(sent, "goodbye"...)), true)
	check(t, conn.Close())

	conn, err = opened.Connect(ctx)
	check(t, err)
	_, err = conn.Write([]byte("break"))
	check(t, err)
	_, err = conn.Read(make([]byte, 1))
	refused(t, err, "CONNECTION_LOST")
	_, err = conn.Write([]byte("more"))
	expect(t, "write", errors.Is(err, io.ErrClosedPipe), true)
	check(t, conn.Close())

	conn, err = opened.Connect(ctx)
	check(t, err)
	time.AfterFunc(10*time.Millisecond, func() { _ = conn.Close() })
	_, err = conn.Read(make([]byte, 1))
	expect(t, "read", errors.Is(err, net.ErrClosed), true)
	_, err = conn.Write([]byte("x"))
	expect(t, "write", errors.Is(err, net.ErrClosed), true)
	ending, end := context.WithCancel(ctx)
	conn, err = opened.Connect(ending)
	check(t, err)
	end()
	_, err = conn.Read(make([]byte, 1))
	expect(t, "read", errors.Is(err, context.Canceled), true)
	check(t, conn.Close())

	// What is open ends with the port.
	conn, err = opened.Connect(ctx)
	check(t, err)
	check(t, opened.Close(ctx))
	_, err = conn.Read(make([]byte, 1))
	refused(t, err, "PORT_CLOSED")
	check(t, conn.Close())
	_, err = opened.Connect(ctx)
	refused(t, err, "PORT_CLOSED")
}

func TestAPortIsAskedFor(t *testing.T) {
	server := startServer(t)
	server.program()
	client, ctx := server.Client(), bounded(t)
	id, port := listening(t, ctx, client, "./program listen raw")
	_, err := client.OpenPort(ctx, "unknown", port)
	refused(t, err, "NOT_FOUND")
	_, err = client.OpenPort(ctx, id, 0)
	refused(t, err, "INVALID_FIELD")
	_, err = client.OpenPort(ctx, id, 1)
	refused(t, err, "NOT_LISTENING")
	_, err = client.OpenPort(ctx, id, port, toolgate.WithAgent("asked"))
	refused(t, err, "PERMISSION_NEEDED")
	_, err = client.OpenPort(ctx, id, port, toolgate.WithAgent("denied"))
	refused(t, err, "DENIED_BY_RULE")
	answers := make(chan toolgate.Decision, 2)
	inBackground(t, func(ctx context.Context) error {
		return client.Approve(ctx, toolgate.Approver{
			Handle: func(_ context.Context, prompt toolgate.Prompt) (toolgate.Decision, error) {
				expect(t, "permission", prompt.(*toolgate.PermissionPrompt).Permission.Name, "port")
				return <-answers, nil
			},
		})
	})
	answers <- toolgate.Reject("")
	_, err = client.OpenPort(ctx, id, port, toolgate.WithAgent("asked"), toolgate.WithWait(0))
	refused(t, err, "REJECTED")
	answers <- toolgate.Once()
	opened, err := client.OpenPort(ctx, id, port, toolgate.WithAgent("asked"), toolgate.WithWait(0))
	check(t, err)
	check(t, opened.Close(ctx))
}

func TestAPortIsOpenedOnceThoughTheAnswerIsLost(t *testing.T) {
	server := startServer(t)
	server.program()
	lost := 0
	client, ctx := server.breaking(-1, func(string) { lost++ }), bounded(t)
	id, port := listening(t, ctx, server.Client(), "./program listen http")
	opened, err := client.OpenPort(ctx, id, port)
	check(t, err)
	expect(t, "lost answers", lost, 1)
	calls := 0
	for call, err := range server.Client().Calls(ctx, toolgate.CallFilter{Tools: []string{"port"}}) {
		check(t, err)
		expect(t, "call", call.ID, opened.CallID())
		calls++
	}
	expect(t, "calls", calls, 1)
}

func TestAPortIsBrowsed(t *testing.T) {
	server := startServer(t)
	server.program()
	client, ctx := server.Client(), bounded(t)
	id, port := listening(t, ctx, client, "./program listen http")
	opened, err := client.OpenPort(ctx, id, port)
	check(t, err)
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", server.Socket)
	}
	browser := http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	answer, err := browser.Get("http://localhost" + opened.HTTPPath() + "some/page")
	check(t, err)
	page, err := io.ReadAll(answer.Body)
	check(t, err)
	check(t, answer.Body.Close())
	expect(t, "page", string(page), "a page at /some/page\n")
}
