package toolgate_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "listen" {
		listen(os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

// server is a service of its own, in a temporary folder.
type server struct {
	t      *testing.T
	folder string
	socket string
	run    *exec.Cmd
}

// startServer starts the program that TOOLGATE_BIN names, with rules that ask for every command but echo.
func startServer(t *testing.T) *server {
	t.Helper()
	if os.Getenv("TOOLGATE_BIN") == "" {
		t.Skip("TOOLGATE_BIN names no service")
	}
	// Not t.TempDir: the path of a socket has at most 107 bytes.
	folder, err := os.MkdirTemp("", "toolgate-go-")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	s := &server{t: t, folder: folder, socket: filepath.Join(folder, "s")}
	check(t, os.Mkdir(s.workspace(), 0o755))
	check(t, os.Mkdir(s.roots(), 0o755))
	rules := `{"permission": {"bash": {"*": "ask", "echo *": "allow", "sleep *": "allow", "exec *": "allow", "cat *": "allow", "seq *": "allow", "sh *": "allow", "./program *": "allow", "rm *": "deny"}, "deploy": "deny",
		"edit": {"*": "allow", "asked/*": "ask", "denied/*": "deny"}, "read": {"hidden": "deny"}, "port": "allow", "network": {"./program *": "allow"}},
		"agent": {"asked": {"permission": {"port": "ask"}}, "denied": {"permission": {"port": {"?*": "deny"}}}}}`
	s.write("opencode.json", rules)
	s.start()
	t.Cleanup(s.stop)
	return s
}

func (s *server) workspace() string { return filepath.Join(s.folder, "work") }

// roots is the folder below which workspaces may be opened.
func (s *server) roots() string { return filepath.Join(s.folder, "roots") }

func (s *server) write(name, text string) {
	s.t.Helper()
	check(s.t, os.WriteFile(filepath.Join(s.workspace(), name), []byte(text), 0o644))
}

func (s *server) start() {
	s.t.Helper()
	s.run = exec.Command(os.Getenv("TOOLGATE_BIN"), "serve", "--no-tcp", "--socket", s.socket, "--data-dir",
		filepath.Join(s.folder, "data"), "--workspace", "default="+s.workspace())
	s.run.Env = append(os.Environ(), "HOME="+s.folder, "XDG_CONFIG_HOME="+s.folder, "TOOLGATE_LOG=error",
		"TOOLGATE_WORKSPACE_ROOTS="+s.roots())
	s.run.Stderr = os.Stderr
	check(s.t, s.run.Start())
	deadline := time.Now().Add(30 * time.Second)
	for {
		conn, err := net.Dial("unix", s.socket)
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

func (s *server) kill() {
	s.t.Helper()
	check(s.t, s.run.Process.Kill())
	_ = s.run.Wait()
}

func (s *server) stop() {
	_ = s.run.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(20*time.Second, func() { _ = s.run.Process.Kill() })
	defer timer.Stop()
	_ = s.run.Wait()
}

func (s *server) client(options ...toolgate.Option) *toolgate.Client {
	s.t.Helper()
	client, err := toolgate.NewClient("unix:"+s.socket, options...)
	check(s.t, err)
	s.t.Cleanup(func() { _ = client.Close() })
	return client
}

// bounded is a context that ends before the test is given up.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// inBackground runs what ends with its context, and waits for it at the end of the test.
func inBackground(t *testing.T, run func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(bounded(t))
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

type bash struct {
	Command     string `json:"command"`
	Description string `json:"description"`
}

func run(command string, arguments ...any) bash {
	return bash{Command: fmt.Sprintf(command, arguments...), Description: "Tests"}
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %v, want %v", what, got, want)
	}
}

// refused expects an error of the service with this reason.
func refused(t *testing.T, err error, reason string) {
	t.Helper()
	var failure *toolgate.Error
	if !errors.As(err, &failure) || failure.Reason != reason {
		t.Errorf("%v, want the reason %s", err, reason)
	}
}
