package toolgate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
	"github.com/toolgate/toolgate/clients/go/internal/testserver"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "listen" {
		listen(os.Args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

// rules ask for every command but some harmless ones.
const rules = `{"permission": {"bash": {"*": "ask", "echo *": "allow", "sleep *": "allow", "exec *": "allow", "cat *": "allow", "seq *": "allow", "sh *": "allow", "./program *": "allow", "rm *": "deny"}, "deploy": "deny",
	"edit": {"*": "allow", "asked/*": "ask", "denied/*": "deny"}, "read": {"hidden": "deny"}, "port": "allow", "network": {"./program *": "allow"}},
	"agent": {"asked": {"permission": {"port": "ask"}}, "denied": {"permission": {"port": {"?*": "deny"}}}}}`

// server is a service with what only these tests want of it.
type server struct{ *testserver.Server }

func startServer(t *testing.T) *server {
	t.Helper()
	return &server{testserver.New(t, rules)}
}

// bounded is a context that ends before the test is given up.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

var check = testserver.Check

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
	testserver.Expect(t, what, got, want)
}

// refused expects an error of the service with this reason.
func refused(t *testing.T, err error, reason string) {
	t.Helper()
	var failure *toolgate.Error
	if !errors.As(err, &failure) || failure.Reason != reason {
		t.Errorf("%v, want the reason %s", err, reason)
	}
}
