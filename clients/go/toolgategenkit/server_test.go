package toolgategenkit_test

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

// rules ask for `touch`, and forbid `rm`.
const rules = `{"permission": {"bash": {"*": "allow", "touch *": "ask", "rm *": "deny"}}, "experimental": {"batch_tool": true}}`

// server is a service of its own, in a temporary folder.
type server struct {
	t      *testing.T
	folder string
	run    *exec.Cmd
}

// startServer starts the program that TOOLGATE_BIN names.
func startServer(t *testing.T) *server {
	t.Helper()
	if os.Getenv("TOOLGATE_BIN") == "" {
		t.Fatal("TOOLGATE_BIN has to name the program of the service")
	}
	// Not t.TempDir: the path of a socket has at most 107 bytes.
	folder, err := os.MkdirTemp("", "toolgate-genkit-")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	s := &server{t: t, folder: folder}
	check(t, os.Mkdir(s.workspace(), 0o755))
	s.write("opencode.json", rules)
	s.run = exec.Command(os.Getenv("TOOLGATE_BIN"), "serve", "--no-tcp", "--socket", s.socket(), "--data-dir",
		filepath.Join(folder, "data"), "--workspace", "default="+s.workspace())
	s.run.Env = append(os.Environ(), "HOME="+folder, "XDG_CONFIG_HOME="+folder, "TOOLGATE_LOG=error")
	s.run.Stderr = os.Stderr
	check(t, s.run.Start())
	t.Cleanup(s.stop)
	s.listening()
	return s
}

func (s *server) workspace() string { return filepath.Join(s.folder, "work") }

func (s *server) socket() string { return filepath.Join(s.folder, "s") }

func (s *server) write(name, text string) {
	s.t.Helper()
	check(s.t, os.WriteFile(filepath.Join(s.workspace(), name), []byte(text), 0o644))
}

func (s *server) listening() {
	s.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		conn, err := net.Dial("unix", s.socket())
		if err == nil {
			_ = conn.Close()
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the service does not listen: %v", err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (s *server) stop() {
	_ = s.run.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(20*time.Second, func() { _ = s.run.Process.Kill() })
	defer timer.Stop()
	_ = s.run.Wait()
}

func (s *server) client(t *testing.T) *toolgate.Client {
	t.Helper()
	client, err := toolgate.NewClient("unix:" + s.socket())
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}
