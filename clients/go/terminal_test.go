package toolgate_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/clients/go"
)

// inTerminal starts a command in a terminal, and returns its call when it has printed a text.
func inTerminal(t *testing.T, ctx context.Context, client *toolgate.Client, command, text string) string {
	t.Helper()
	execution, err := client.Execute(ctx, "background", map[string]any{
		"command": command, "description": "Tests", "terminal": map[string]int{"columns": 80, "rows": 24},
	}, toolgate.WithOnDisconnect(toolgate.Keep))
	check(t, err)
	check(t, execution.Close())
	t.Cleanup(func() { _, _ = client.Cancel(context.Background(), execution.CallID()) })
	waitFor(t, ctx, client, execution.CallID(), 0, 0, text)
	return execution.CallID()
}

// waitFor watches a call after an event until it has printed a text behind an offset of its output.
func waitFor(t *testing.T, ctx context.Context, client *toolgate.Client, callID string, after, offset int64, text string) {
	t.Helper()
	var printed bytes.Buffer
	for event, err := range client.Watch(ctx, callID, after) {
		check(t, err)
		if output, ok := event.(*toolgate.OutputEvent); ok {
			printed.Write(output.Data[min(max(offset-output.Offset, 0), int64(len(output.Data))):])
		}
		if strings.Contains(printed.String(), text) {
			return
		}
	}
	t.Fatalf("%q is not in %q", text, printed.String())
}

func TestATerminalIsUsed(t *testing.T) {
	server := startServer(t)
	client, ctx := server.Client(), bounded(t)
	server.Write("reader", `trap "echo hung up" HUP; echo ready; while :; do read -r line && echo "got $line"; done`)
	id := inTerminal(t, ctx, client, "exec sh reader", "ready")

	call, err := client.Get(ctx, id)
	check(t, err)
	expect(t, "size", *call.Terminal, toolgate.TerminalSize{Columns: 80, Rows: 24})
	check(t, client.ResizeTerminal(ctx, id, toolgate.TerminalSize{Columns: 100, Rows: 30}))
	shown, err := client.Terminal(ctx, id)
	check(t, err)
	expect(t, "size", shown.Size, toolgate.TerminalSize{Columns: 100, Rows: 30})
	expect(t, "contents", bytes.Contains(shown.Contents, []byte("ready")), true)
	expect(t, "cursor", shown.CursorVisible, true)

	// What follows goes on where the picture ends.
	shown, err = client.Terminal(ctx, id)
	check(t, err)
	accepted, err := client.SendInput(ctx, id, toolgate.Input{Data: []byte("hello\r")})
	check(t, err)
	expect(t, "accepted", accepted.Next, 6)
	waitFor(t, ctx, client, id, shown.LastSequence, shown.OutputOffset, "got hello")
	check(t, client.SendSignal(ctx, id, toolgate.SignalHup))
	_, err = client.SendInput(ctx, id, toolgate.Input{Offset: 6, Data: []byte("bye\r")})
	check(t, err)
	waitFor(t, ctx, client, id, shown.LastSequence, shown.OutputOffset, "hung up")

	err = client.ResizeTerminal(ctx, id, toolgate.TerminalSize{Columns: 0, Rows: 30})
	refused(t, err, "INVALID_FIELD")
	err = client.SendSignal(ctx, id, "KILL")
	expect(t, "signal", err.Error(), `toolgate: INVALID_ARGUMENT: "KILL" is none of the words SIGNAL_…`)
	refused(t, client.SendSignal(ctx, id, ""), "INVALID_FIELD")
	_, err = client.Cancel(ctx, id)
	check(t, err)
	_, err = client.Terminal(ctx, id)
	refused(t, err, "CALL_ENDED")
	refused(t, client.ResizeTerminal(ctx, id, toolgate.TerminalSize{Columns: 1, Rows: 1}), "CALL_ENDED")
	refused(t, client.SendSignal(ctx, id, toolgate.SignalInt), "CALL_ENDED")
	_, err = client.Terminal(ctx, "unknown")
	refused(t, err, "NOT_FOUND")

	execution, err := client.Execute(ctx, "bash", run("exec sleep 1000"))
	check(t, err)
	_, err = client.Terminal(ctx, execution.CallID())
	refused(t, err, "NO_TERMINAL")
	check(t, execution.Close())
}

func TestASignalIsSentOnce(t *testing.T) {
	server := startServer(t)
	lost := 0
	client, ctx := server.breaking(0, func(string) { lost++ }), bounded(t)
	execution, err := server.Client().Execute(ctx, "background", run("echo ready; exec sleep 1000"))
	check(t, err)
	for event, err := range execution.Events() {
		check(t, err)
		if _, ok := event.(*toolgate.OutputEvent); ok {
			break
		}
	}
	err = client.SendSignal(ctx, execution.CallID(), toolgate.SignalTerm)
	expect(t, "error", err != nil, true)
	expect(t, "lost answers", lost, 1)
	result, err := execution.Result()
	check(t, err)
	expect(t, "it has ended by the signal", result.ExitCode == nil || *result.ExitCode != 0, true)
}
