// Package testserver starts real services for the tests of this library and of what is made with it.
//
// Invariant: a service has folders of its own and listens on a Unix socket only, so that tests do not meet.
package testserver

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
)

// Server is a service in a temporary folder, which ends with its test.
type Server struct {
	// T is the test.
	T *testing.T
	// Folder has all that belongs to the service.
	Folder string
	// Socket is where it listens.
	Socket string

	run *exec.Cmd
}

// New starts the program that TOOLGATE_BIN names, with the rules of an opencode.json.
func New(t *testing.T, rules string) *Server {
	t.Helper()
	if os.Getenv("TOOLGATE_BIN") == "" {
		t.Skip("TOOLGATE_BIN names no service")
	}
	// Not t.TempDir: the path of a socket has at most 107 bytes.
	folder, err := os.MkdirTemp("", "toolgate-go-")
	Check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	s := &Server{T: t, Folder: folder, Socket: filepath.Join(folder, "s")}
	Check(t, os.Mkdir(s.Workspace(), 0o755))
	Check(t, os.Mkdir(s.Roots(), 0o755))
	s.Write("opencode.json", rules)
	s.Start()
	t.Cleanup(s.stop)
	return s
}

// Workspace is the folder of the workspace `default`.
func (s *Server) Workspace() string { return filepath.Join(s.Folder, "work") }

// Roots is the folder below which workspaces may be opened.
func (s *Server) Roots() string { return filepath.Join(s.Folder, "roots") }

// Target is where a client finds the service.
func (s *Server) Target() string { return "unix:" + s.Socket }

// Write writes a file of the workspace.
func (s *Server) Write(name, text string) {
	s.T.Helper()
	Check(s.T, os.WriteFile(filepath.Join(s.Workspace(), name), []byte(text), 0o644))
}

// Start starts the service again after [Server.Kill].
func (s *Server) Start() {
	s.T.Helper()
	s.run = exec.Command(os.Getenv("TOOLGATE_BIN"), "serve", "--no-tcp", "--socket", s.Socket, "--data-dir",
		filepath.Join(s.Folder, "data"), "--workspace", "default="+s.Workspace())
	s.run.Env = append(os.Environ(), "HOME="+s.Folder, "XDG_CONFIG_HOME="+s.Folder, "TOOLGATE_LOG=error",
		"TOOLGATE_WORKSPACE_ROOTS="+s.Roots())
	s.run.Stderr = os.Stderr
	Check(s.T, s.run.Start())
	deadline := time.Now().Add(30 * time.Second)
	for {
		conn, err := net.Dial("unix", s.Socket)
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			s.T.Fatalf("the service does not listen: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// Kill ends the service as a crash would.
func (s *Server) Kill() {
	s.T.Helper()
	Check(s.T, s.run.Process.Kill())
	_ = s.run.Wait()
}

func (s *Server) stop() {
	_ = s.run.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(20*time.Second, func() { _ = s.run.Process.Kill() })
	defer timer.Stop()
	_ = s.run.Wait()
}

// Client makes a client of the service, which is closed with the test.
func (s *Server) Client(options ...toolgate.Option) *toolgate.Client {
	s.T.Helper()
	client, err := toolgate.NewClient(s.Target(), options...)
	Check(s.T, err)
	s.T.Cleanup(func() { _ = client.Close() })
	return client
}

// Check ends the test if there is an error.
func Check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Expect fails the test if what it got is not what it wants.
func Expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
