package toolgate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc/codes"
)

func TestToolsAreListedInTheFormsOfModels(t *testing.T) {
	client, ctx := startServer(t).Client(), bounded(t)
	all, err := client.Tools(ctx)
	check(t, err)
	paged, err := client.Tools(ctx, toolgate.WithPageSize(2))
	check(t, err)
	expect(t, "tools over pages", len(paged), len(all))
	for _, tool := range all {
		if tool.Name == "bash" {
			expect(t, "source", tool.Source, "BUILTIN")
			expect(t, "schema", json.Valid(tool.InputSchema), true)
		}
	}
	openai, err := client.OpenAITools(ctx)
	check(t, err)
	expect(t, "type", openai[0].Type, "function")
	anthropic, err := client.AnthropicTools(ctx)
	check(t, err)
	expect(t, "tools for Anthropic", len(anthropic), len(all))
	gemini, err := client.GeminiTools(ctx)
	check(t, err)
	text, err := json.Marshal(gemini)
	check(t, err)
	expect(t, "form of Gemini", strings.HasPrefix(string(text), `[{"functionDeclarations":[{"name":`), true)
}

func TestACallIsApproved(t *testing.T) {
	server := startServer(t)
	client, ctx := server.Client(), bounded(t)
	replies := make(chan toolgate.Reply, 1)
	inBackground(t, func(ctx context.Context) error {
		return client.Approve(ctx, toolgate.Approver{
			Name: "tests",
			Handle: func(_ context.Context, prompt toolgate.Prompt) (toolgate.Decision, error) {
				expect(t, "permission", prompt.(*toolgate.PermissionPrompt).Permission.Name, "bash")
				return toolgate.Once(), nil
			},
			OnReply: func(reply toolgate.Reply) { replies <- reply },
		})
	})
	execution, err := client.Execute(ctx, "bash", run("touch made; echo done"))
	check(t, err)
	var kinds []string
	next := int64(1)
	for event, err := range execution.Events() {
		check(t, err)
		expect(t, "sequence", event.Header().Sequence, next)
		next++
		switch event.(type) {
		case *toolgate.WaitingEvent:
			kinds = append(kinds, "waiting")
		case *toolgate.ResumedEvent:
			kinds = append(kinds, "resumed")
		case *toolgate.CompletedEvent:
			kinds = append(kinds, "completed")
		}
	}
	expect(t, "events", strings.Join(kinds, " "), "waiting resumed completed")
	result, err := execution.Result()
	check(t, err)
	expect(t, "output", result.Output, "done\n")
	expect(t, "reply", (<-replies).Result, toolgate.ReplyAccepted)
	_, err = os.Stat(filepath.Join(server.Workspace(), "made"))
	check(t, err)
	expect(t, "execution closes", execution.Close(), nil)
}

func TestAnInputThatDoesNotFitIsAskedAboutAgain(t *testing.T) {
	client, ctx := startServer(t).Client(), bounded(t)
	problems := make(chan string, 2)
	inBackground(t, func(ctx context.Context) error {
		return client.Approve(ctx, toolgate.Approver{
			Handle: func(_ context.Context, prompt toolgate.Prompt) (toolgate.Decision, error) {
				problems <- prompt.Info().Problem
				if prompt.Info().Problem != "" {
					return toolgate.Once(), nil
				}
				return toolgate.Instead(map[string]any{"command": 7}), nil
			},
		})
	})
	result, err := client.Run(ctx, "bash", run("touch made; echo done"))
	check(t, err)
	expect(t, "output", result.Output, "done\n")
	expect(t, "first problem", <-problems, "")
	expect(t, "second problem", strings.Contains(<-problems, "command"), true)
}

func TestWhatIsRefusedIsAResult(t *testing.T) {
	client, ctx := startServer(t).Client(), bounded(t)
	result, err := client.Run(ctx, "bash", run("rm -r something"))
	check(t, err)
	expect(t, "reason", result.Reason, toolgate.ReasonDenied)
	var failed *toolgate.CallError
	expect(t, "error of the call", errors.As(result.Err(), &failed), true)
	malformed, err := client.Run(ctx, "bash", `{"command": `)
	check(t, err)
	expect(t, "malformed input", malformed.Text() != "", true)
	_, err = client.Get(ctx, "no-such-call")
	var failure *toolgate.Error
	expect(t, "error", errors.As(err, &failure) && failure.Code == codes.NotFound, true)
	_, err = client.Run(ctx, "bash", run("true"), toolgate.WithWorkspace("nowhere"))
	expect(t, "unknown workspace", errors.As(err, &failure) && failure.Code == codes.NotFound, true)
}

func TestTheEndOfTheContextCancels(t *testing.T) {
	server := startServer(t)
	client := server.Client()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	execution, err := client.Execute(ctx, "bash", run("echo $$; exec sleep 1000"))
	check(t, err)
	var pid int
	var last toolgate.Event
	for event, err := range execution.Events() {
		check(t, err)
		if output, ok := event.(*toolgate.OutputEvent); ok && pid == 0 {
			pid, err = strconv.Atoi(strings.TrimSpace(string(output.Data)))
			check(t, err)
			cancel()
		}
		last = event
	}
	failed, ok := last.(*toolgate.FailedEvent)
	expect(t, "the end is delivered", ok && failed.Result.Reason == toolgate.ReasonCancelled, true)
	result, err := execution.Result()
	expect(t, "cause", errors.Is(err, context.Canceled), true)
	expect(t, "reason", result.Reason, toolgate.ReasonCancelled)
	expect(t, "program", syscall.Kill(pid, 0), error(syscall.ESRCH))
}

func TestCloseCancels(t *testing.T) {
	client, ctx := startServer(t).Client(), bounded(t)
	execution, err := client.Execute(ctx, "bash", run("sleep 1000"))
	check(t, err)
	check(t, execution.Close())
	call, err := client.Get(ctx, execution.CallID())
	check(t, err)
	expect(t, "state", call.State, toolgate.StateFailed)

	kept, err := client.Execute(ctx, "bash", run("sleep 1000"), toolgate.WithOnDisconnect(toolgate.Keep))
	check(t, err)
	check(t, kept.Close())
	call, err = client.Get(ctx, kept.CallID())
	check(t, err)
	expect(t, "end of a kept call", call.Result, nil)
	call, err = client.Cancel(ctx, kept.CallID())
	check(t, err)
	expect(t, "state", call.State, toolgate.StateFailed)
}

func TestAKilledServiceLosesTheCall(t *testing.T) {
	server := startServer(t)
	execution, err := server.Client().Execute(bounded(t), "bash", run("echo begun; sleep 1000"))
	check(t, err)
	for event, err := range execution.Events() {
		check(t, err)
		if _, ok := event.(*toolgate.OutputEvent); ok {
			server.Kill()
			server.Start()
		}
	}
	result, err := execution.Result()
	check(t, err)
	expect(t, "reason", result.Reason, toolgate.ReasonLost)
}

func TestEventsAreWatchedFromAnywhere(t *testing.T) {
	client, ctx := startServer(t).Client(), bounded(t)
	result, err := client.Run(ctx, "bash", run("echo watched"), toolgate.WithCallID("watched"))
	check(t, err)
	expect(t, "call id", result.CallID, "watched")
	sequences := 0
	for event, err := range client.Watch(ctx, "watched", 1) {
		check(t, err)
		sequences++
		expect(t, "sequence", event.Header().Sequence, int64(sequences+1))
	}
	last := int64(sequences + 1)
	for event, err := range client.Watch(ctx, "watched", last) {
		check(t, err)
		t.Errorf("an event after the end: %T", event)
	}
	for call, err := range client.Calls(ctx, toolgate.CallFilter{Tools: []string{"bash"}, PageSize: 1}) {
		check(t, err)
		expect(t, "listed", call.ID, "watched")
	}
	for _, err := range client.Watch(ctx, "unknown", 0) {
		var failure *toolgate.Error
		expect(t, "unknown call", errors.As(err, &failure) && failure.Code == codes.NotFound, true)
	}
}

func TestAnEditIsReverted(t *testing.T) {
	server := startServer(t)
	client, ctx := server.Client(), bounded(t)
	file := filepath.Join(server.Workspace(), "new.txt")
	result, err := client.Run(ctx, "write", map[string]string{"filePath": file, "content": "new\n"})
	check(t, err)
	check(t, result.Err())
	revert, err := client.Revert(ctx, result.CallID)
	check(t, err)
	reverted, err := revert.Result()
	check(t, err)
	check(t, reverted.Err())
	_, err = os.Stat(file)
	expect(t, "the file is gone", errors.Is(err, os.ErrNotExist), true)
}

func TestAnOutputIsReadSearchedAndSaved(t *testing.T) {
	server := startServer(t)
	client, ctx := server.Client(), bounded(t)
	result, err := client.Run(ctx, "bash", run("echo begin; seq 0 19999"))
	check(t, err)
	expect(t, "truncated", result.Truncation.Truncated, true)
	output := client.Output(result.Truncation.OutputID)

	info, err := output.Info(ctx)
	check(t, err)
	var whole bytes.Buffer
	for piece, err := range output.Read(ctx, toolgate.Range{}) {
		check(t, err)
		whole.Write(piece)
	}
	expect(t, "bytes", int64(whole.Len()), info.Bytes)
	reader := output.Open(ctx, toolgate.Tail(1))
	var tail bytes.Buffer
	_, err = tail.ReadFrom(reader)
	check(t, err)
	check(t, reader.Close())
	expect(t, "tail", tail.String(), "19999\n")
	found, err := output.Search(ctx, toolgate.Search{Pattern: "^123$", Before: 1})
	check(t, err)
	expect(t, "found", len(found.Lines), 2)

	path := filepath.Join(server.Folder, "saved")
	var reached int64
	written, err := output.Save(ctx, path, func(done, total int64) {
		reached = done
		expect(t, "total", total, info.Bytes)
	})
	check(t, err)
	expect(t, "written", written, reached)
	saved, err := os.ReadFile(path)
	check(t, err)
	expect(t, "content", bytes.Equal(saved, whole.Bytes()), true)
	_, err = output.Save(ctx, filepath.Join(server.Folder, "nowhere", "saved"), nil)
	expect(t, "no folder", errors.Is(err, os.ErrNotExist), true)
}

type sum struct {
	A int `json:"a" jsonschema_description:"One."`
	B int `json:"b,omitempty" jsonschema:"default=5" jsonschema_description:"The other."`
}

func TestAFunctionIsLent(t *testing.T) {
	client, ctx := startServer(t).Client(), bounded(t)
	begun, cancelled := make(chan string, 10), make(chan error, 1)
	ready := make(chan toolgate.Ready, 10)
	tools := []toolgate.Tool{
		toolgate.NewTool("add", "Adds.", func(ctx context.Context, call *toolgate.Invocation, input sum) (string, error) {
			if err := call.Ask(ctx, toolgate.Ask{Permission: "deploy"}); err != nil {
				begun <- err.Error()
			}
			return strconv.Itoa(input.A + input.B), call.Progress("Adding", map[string]any{"a": input.A})
		}),
		toolgate.NewTool("wait", "Waits.", func(ctx context.Context, call *toolgate.Invocation, _ struct{}) (toolgate.ToolResult, error) {
			if _, err := call.Write([]byte("waiting\n")); err != nil {
				return toolgate.ToolResult{}, err
			}
			begun <- call.CallID
			<-ctx.Done()
			cancelled <- context.Cause(ctx)
			return toolgate.ToolResult{}, ctx.Err()
		}),
		toolgate.NewTool("break", "Panics.", func(context.Context, *toolgate.Invocation, struct{}) (string, error) {
			panic("broken")
		}),
	}
	inBackground(t, func(ctx context.Context) error {
		return client.Host(ctx, toolgate.Host{
			Name: "tests", Tools: tools, OnReady: func(r toolgate.Ready) { ready <- r },
		})
	})
	expect(t, "refused", len((<-ready).Refused), 0)

	result, err := client.Run(ctx, "add", map[string]int{"a": 2})
	check(t, err)
	expect(t, "sum with a default", result.Text(), "7")
	expect(t, "title", result.Title, "Adding")
	expect(t, "denied", strings.TrimSpace(<-begun) != "", true)
	result, err = client.Run(ctx, "break", nil)
	check(t, err)
	expect(t, "panic", result.Reason == toolgate.ReasonToolError && strings.Contains(result.Error, "broken"), true)
	result, err = client.Run(ctx, "add", map[string]string{"a": "x"})
	check(t, err)
	expect(t, "wrong input", result.Reason, toolgate.ReasonInvalidArguments)

	execution, err := client.Execute(ctx, "wait", nil)
	check(t, err)
	<-begun
	check(t, execution.Cancel(ctx))
	expect(t, "cause", <-cancelled, toolgate.ErrInvocationCancelled)
	result, err = execution.Result()
	check(t, err)
	expect(t, "reason", result.Reason, toolgate.ReasonCancelled)

	taken := client.Host(ctx, toolgate.Host{Name: "second", Tools: tools[:1]})
	var refused *toolgate.RefusedError
	expect(t, "a name that is taken", errors.As(taken, &refused), true)
}

func TestAHostRunsSubagentsAndHooks(t *testing.T) {
	client, ctx := startServer(t).Client(), bounded(t)
	ready := make(chan toolgate.Ready, 10)
	inBackground(t, func(ctx context.Context) error {
		return client.Host(ctx, toolgate.Host{
			Name: "tests", OnReady: func(r toolgate.Ready) { ready <- r },
			RunSubagent: func(ctx context.Context, run *toolgate.Subagent) (toolgate.ToolResult, error) {
				result, err := client.Run(ctx, "bash", map[string]string{"command": "echo " + run.Prompt, "description": "Echo"},
					toolgate.WithParentCall(run.CallID), toolgate.WithSession(run.SessionID), toolgate.WithAgent(run.Agent))
				if err != nil {
					return toolgate.ToolResult{}, err
				}
				return toolgate.ToolResult{Output: result.Text()}, nil
			},
			Hooks: map[string]toolgate.Hook{
				"tool.execute.before": func(_ context.Context, event toolgate.HookEvent) (json.RawMessage, error) {
					if bytes.Contains(event.Output, []byte("forbidden")) {
						return nil, errors.New("that is forbidden here")
					}
					return bytes.ReplaceAll(event.Output, []byte("before"), []byte("after")), nil
				},
			},
		})
	})
	expect(t, "refused", len((<-ready).Refused), 0)
	result, err := client.Run(ctx, "bash", run("echo before"))
	check(t, err)
	expect(t, "changed by a hook", result.Output, "after\n")
	result, err = client.Run(ctx, "bash", run("echo forbidden"))
	check(t, err)
	expect(t, "refused by a hook", strings.Contains(result.Error, "forbidden here"), true)
	result, err = client.Run(ctx, "task", map[string]string{
		"description": "Say it", "prompt": "subagent", "subagent_type": "general",
	})
	check(t, err)
	expect(t, "said by a subagent", strings.Contains(result.Text(), "subagent"), true)
	expect(t, "error", result.Error, "")
}

func TestWhatHappensIsWatched(t *testing.T) {
	client := startServer(t).Client()
	ctx, cancel := context.WithCancel(bounded(t))
	defer cancel()
	zero := int64(0)
	_, err := client.Run(ctx, "bash", run("echo event"), toolgate.WithCallID("event"))
	check(t, err)
	states := []string{}
	for event, err := range client.ServiceEvents(ctx, toolgate.EventFilter{After: &zero}) {
		if err != nil {
			expect(t, "end", errors.Is(err, context.Canceled), true)
			break
		}
		if change := event.GetCallStateChanged(); change != nil {
			states = append(states, change.GetState().String())
			if change.GetState() == toolgatev1.CallState_CALL_STATE_COMPLETED {
				cancel()
			}
		}
	}
	expect(t, "states", len(states) >= 2, true)
}

func TestAnAbsentServiceIsReportedSoon(t *testing.T) {
	client, err := toolgate.NewClient("unix:"+filepath.Join(t.TempDir(), "none"), toolgate.WithRetryTimeout(50*time.Millisecond))
	check(t, err)
	defer client.Close()
	var failure *toolgate.Error
	_, err = client.Run(bounded(t), "bash", run("true"))
	expect(t, "code", errors.As(err, &failure) && failure.Code == codes.Unavailable, true)
	expect(t, "advice", strings.Contains(err.Error(), "check that the service runs"), true)
	_, err = client.Tools(bounded(t))
	expect(t, "code", errors.As(err, &failure) && failure.Code == codes.Unavailable, true)
}
