package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"path/filepath"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"github.com/toolgate/toolgate/clients/go/internal/testserver"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rules ask for every command.
const rules = `{"permission": {"bash": "ask", "secret": "deny"}}`

var (
	check  = testserver.Check
	expect = testserver.Expect[any]
)

// talk is the other side of a driver.
type talk struct {
	t        *testing.T
	commands *json.Encoder
	reports  map[float64]chan map[string]any
	last     float64
}

func start(t *testing.T) *talk {
	input, commands := io.Pipe()
	output, reports := io.Pipe()
	// A channel for each command, made before anything is read.
	talk := &talk{t: t, commands: json.NewEncoder(commands), reports: map[float64]chan map[string]any{}}
	for id := range 40 {
		talk.reports[float64(id)] = make(chan map[string]any, 1000)
	}
	ended := make(chan error, 1)
	go func() {
		driver := &driver{
			out: json.NewEncoder(reports), clients: map[string]*toolgate.Client{}, running: map[int64]*command{},
		}
		err := driver.read(input)
		_ = reports.Close()
		ended <- err
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		for decoder := json.NewDecoder(output); ; {
			var report map[string]any
			if decoder.Decode(&report) != nil {
				return
			}
			talk.reports[report["id"].(float64)] <- report
		}
	}()
	t.Cleanup(func() {
		_ = commands.Close()
		check(t, <-ended)
		<-read
	})
	return talk
}

// send sends a command and returns its id.
func (t *talk) send(do string, arguments fields) float64 {
	t.t.Helper()
	t.last++
	command := fields{"id": t.last, "do": do, "client": "c"}
	for name, value := range arguments {
		if message, ok := value.(proto.Message); ok {
			text, err := encode(message)
			check(t.t, err)
			value = text
		}
		command[name] = value
	}
	check(t.t, t.commands.Encode(command))
	return t.last
}

// until returns the next report of a command that has a field, passing over others.
func (t *talk) until(id float64, field string) any {
	t.t.Helper()
	timeout := time.After(30 * time.Second)
	for {
		select {
		case report := <-t.reports[id]:
			if value, ok := report[field]; ok {
				return value
			}
			if report["error"] != nil || report["done"] != nil {
				t.t.Fatalf("no %s: %v", field, report)
			}
		case <-timeout:
			t.t.Fatalf("no %s of command %v", field, id)
		}
	}
}

func (t *talk) done(do string, arguments fields) map[string]any {
	t.t.Helper()
	return t.until(t.send(do, arguments), "done").(map[string]any)
}

func (t *talk) fails(do string, arguments fields) any {
	t.t.Helper()
	return t.until(t.send(do, arguments), "error").(map[string]any)["code"]
}

func read[M proto.Message](t *testing.T, text any, message M) M {
	t.Helper()
	check(t, decode(text.(string), message))
	return message
}

func bash(command string) *toolgatev1.ExecuteToolRequest {
	input, _ := json.Marshal(map[string]string{"command": command, "description": "Tests"})
	return &toolgatev1.ExecuteToolRequest{
		Tool: "bash", Arguments: &toolgatev1.ExecuteToolRequest_InputJson{InputJson: string(input)},
	}
}

func TestCallsAndPrompts(t *testing.T) {
	server, talk := testserver.New(t, rules), start(t)
	talk.done("connect", fields{"target": server.Target()})
	expect(t, "tools", len(talk.done("tools", nil)["tools"].([]any)) > 5, true)
	expect(t, "formats", len(talk.done("formats", nil)), 4)
	events := talk.send("events", fields{"request": &toolgatev1.WatchEventsRequest{}})
	talk.until(events, "ready")

	approvals := talk.send("approvals", fields{"name": "tests"})
	talk.until(approvals, "ready")
	call := talk.send("execute", fields{"request": bash("seq 3")})
	prompt := read(t, talk.until(approvals, "prompt"), &toolgatev1.Prompt{})
	once := toolgatev1.PromptDecision_PROMPT_DECISION_ONCE
	talk.done("reply", fields{
		"approvals": approvals, "reply": &toolgatev1.PromptReply{PromptId: prompt.GetPromptId(), Decision: once},
	})
	expect(t, "reply", talk.until(approvals, "result").(map[string]any)["result"], "ACCEPTED")
	record := read(t, talk.until(call, "done").(map[string]any)["call"], &toolgatev1.Call{})
	expect(t, "output", record.GetCompleted().GetOutput(), "1\n2\n3\n")
	talk.until(events, "event")
	talk.done("stop", fields{"command": events})
	talk.until(events, "done")

	output := record.GetCompleted().GetTruncation().GetOutputId()
	piece := talk.until(talk.send("read", fields{"output": output, "offset": 2, "limit": 2}), "data").(string)
	bytes, err := base64.StdEncoding.DecodeString(piece)
	check(t, err)
	expect(t, "read", string(bytes), "2\n")
	search := &toolgatev1.SearchOutputRequest{OutputId: output, Pattern: "3"}
	found := read(t, talk.done("search", fields{"request": search})["response"], &toolgatev1.SearchOutputResponse{})
	expect(t, "found", found.GetMatches(), int32(1))
	saved := talk.done("save", fields{"output": output, "path": filepath.Join(server.Folder, "saved")})
	expect(t, "saved", saved["bytes"], 6.0)
	response := talk.done("unary", fields{
		"method":  "toolgate.v1.ToolService/GetCall",
		"request": &toolgatev1.GetCallRequest{CallId: record.GetCallId()},
	})["response"]
	expect(t, "record", read(t, response, &toolgatev1.GetCallResponse{}).GetCall().GetTool(), "bash")

	waiting := talk.send("execute", fields{"request": bash("sleep 1000")})
	prompt = read(t, talk.until(approvals, "prompt"), &toolgatev1.Prompt{})
	talk.done("interrupt", fields{"execution": waiting})
	record = read(t, talk.until(waiting, "done").(map[string]any)["call"], &toolgatev1.Call{})
	expect(t, "reason", record.GetFailed().GetReason(), toolgatev1.FailureReason_FAILURE_REASON_CANCELLED)
	expect(t, "gone", talk.until(approvals, "gone"), prompt.GetPromptId())
	talk.done("stop", fields{"command": approvals})
	talk.until(approvals, "done")

	expect(t, "unknown command", talk.fails("dance", nil), "INVALID_ARGUMENT")
	expect(t, "unknown prompt", talk.fails("reply", fields{"approvals": approvals}), "NOT_FOUND")
	expect(t, "unknown output", talk.fails("read", fields{"output": "tool_none"}), "NOT_FOUND")
	talk.done("close", nil)
}

func TestHosts(t *testing.T) {
	server, talk := testserver.New(t, rules), start(t)
	talk.done("connect", fields{"target": server.Target()})
	greeter := talk.send("greeter", nil)
	talk.until(greeter, "ready")
	input, err := structpb.NewStruct(map[string]any{"name": "you", "times": 2})
	check(t, err)
	greet := &toolgatev1.ExecuteToolRequest{Tool: "greet", Arguments: &toolgatev1.ExecuteToolRequest_Input{Input: input}}
	record := read(t, talk.done("execute", fields{"request": greet})["call"], &toolgatev1.Call{})
	expect(t, "output", record.GetCompleted().GetOutput(), "Hello, you!\nHello, you!")
	expect(t, "greeted", record.GetCompleted().GetMetadata().AsMap()["greeted"], 2.0)
	talk.done("stop", fields{"command": greeter})
	talk.until(greeter, "done")

	host := talk.send("host", fields{"hello": &toolgatev1.HostHello{
		Name: "tests", Tools: []*toolgatev1.LentTool{{Name: "lent", Description: "Lent."}, {Name: "bash"}},
	}})
	refused := talk.until(host, "ready").(map[string]any)["refused"].([]any)
	expect(t, "refused", read(t, refused[0], &toolgatev1.HostRefused{}).GetName(), "bash")
	call := talk.send("execute", fields{"request": &toolgatev1.ExecuteToolRequest{Tool: "lent"}})
	id := read(t, talk.until(host, "invoke"), &toolgatev1.HostInvoke{}).GetInvocationId()
	report := func(report *toolgatev1.HostReport) map[string]any {
		report.InvocationId = id
		return talk.done("report", fields{"host": host, "report": report})
	}
	title := "Working"
	report(&toolgatev1.HostReport{Report: &toolgatev1.HostReport_Progress{Progress: &toolgatev1.HostProgress{Title: &title}}})
	report(&toolgatev1.HostReport{Report: &toolgatev1.HostReport_Output{Output: &toolgatev1.HostOutput{Data: []byte("written")}}})
	asked := report(&toolgatev1.HostReport{Report: &toolgatev1.HostReport_Ask{Ask: &toolgatev1.HostAsk{Permission: "secret"}}})
	expect(t, "allowed", asked["allowed"], false)
	report(&toolgatev1.HostReport{Report: &toolgatev1.HostReport_Completed{Completed: &toolgatev1.HostCompleted{}}})
	record = read(t, talk.until(call, "done").(map[string]any)["call"], &toolgatev1.Call{})
	expect(t, "output", record.GetCompleted().GetOutput(), "written")
	expect(t, "title", record.GetCompleted().GetTitle(), title)

	call = talk.send("execute", fields{"request": &toolgatev1.ExecuteToolRequest{Tool: "lent"}})
	id = read(t, talk.until(host, "invoke"), &toolgatev1.HostInvoke{}).GetInvocationId()
	talk.done("cancel", fields{"execution": call})
	expect(t, "cancelled", talk.until(host, "cancelled"), id)
}
