package toolgate_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// frame makes a program of the examples that are no programs of their own.
const frame = `package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/toolgate/toolgate/clients/go"
	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc/codes"
)

var _ = []any{json.Marshal, strings.Repeat, time.Second, filepath.Join, codes.OK, toolgatev1.File_toolgate_v1_call_proto}

func main() {
	client, err := toolgate.NewClient("")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for i, example := range []func(context.Context, *toolgate.Client) error{
EXAMPLES
	} {
		if err := example(context.Background(), client); err != nil {
			log.Fatalf("example %d: %v", i+1, err)
		}
		fmt.Fprintln(os.Stderr, "example", i+1, "done")
	}
	_ = errors.Is
}
`

func TestTheExamplesOfTheReadmeWork(t *testing.T) {
	server := startServer(t)
	server.program()
	text, err := os.ReadFile("README.md")
	check(t, err)
	blocks := regexp.MustCompile("(?ms)^```go\n(.*?)^```$").FindAllStringSubmatch(string(text), -1)
	if len(blocks) < 8 {
		t.Fatalf("the README has %d examples", len(blocks))
	}
	first := blocks[0][1]
	if lines := strings.Count(first[strings.Index(first, "func main"):], "\n"); lines > 20 {
		t.Errorf("the first program has %d lines besides its imports", lines)
	}
	printed := runProgram(t, server, first, "y\n")
	expect(t, "the question", strings.Contains(printed, "Allow it? [y/N]"), true)
	expect(t, "the listing", strings.Contains(printed, "opencode.json"), true)

	var examples strings.Builder
	for _, block := range blocks[1:] {
		block[1] = strings.ReplaceAll(block[1], "/srv/checkouts", server.Roots())
		block[1] = strings.ReplaceAll(block[1], "python3 -m http.server", "./program listen http")
		fmt.Fprintf(&examples, "func(ctx context.Context, client *toolgate.Client) error {\n%s\nreturn nil\n},\n", block[1])
	}
	printed = runProgram(t, server, strings.Replace(frame, "EXAMPLES", examples.String(), 1), "")
	for _, want := range []string{"true  hello\n", `"call_id":"call_1"`, "Hello, you!\n", "1 lines match", "touch made ASK\n", "notes/readme.md FILE\n", "typed", "a page at /\n", "shop true", "NOT_FOUND"} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not in\n%s", want, printed)
		}
	}
}

func runProgram(t *testing.T, server *server, source, input string) string {
	t.Helper()
	folder := t.TempDir()
	file, program := filepath.Join(folder, "main.go"), filepath.Join(folder, "main")
	check(t, os.WriteFile(file, []byte(source), 0o644))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if printed, err := exec.CommandContext(ctx, "go", "build", "-o", program, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, printed, source)
	}
	run := exec.CommandContext(ctx, program)
	run.Dir = folder
	run.Env = append(os.Environ(), "TOOLGATE_SERVER="+server.Target())
	run.Stdin = strings.NewReader(input)
	printed, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, printed)
	}
	return string(printed)
}
