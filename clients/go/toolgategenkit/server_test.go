package toolgategenkit_test

import (
	"testing"

	"github.com/toolgate/toolgate/clients/go/internal/testserver"
)

// rules ask for `touch`, and forbid `rm`.
const rules = `{"permission": {"bash": {"*": "allow", "touch *": "ask", "rm *": "deny"}}, "experimental": {"batch_tool": true}}`

var check = testserver.Check

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	testserver.Expect(t, what, got, want)
}
