package toolgategenkit_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"
	"github.com/toolgate/toolgate/clients/go"
	"github.com/toolgate/toolgate/clients/go/internal/testserver"
	"github.com/toolgate/toolgate/clients/go/toolgategenkit"
)

// A picture of one pixel.
const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// scripted is a model that asks for the tools of its script, one turn after another, and then says that it is done.
type scripted struct {
	turns    [][]*ai.ToolRequest
	requests []*ai.ModelRequest
}

func (s *scripted) generate(_ context.Context, request *ai.ModelRequest, _ ai.ModelStreamCallback) (*ai.ModelResponse, error) {
	turn := len(s.requests)
	// Genkit goes on with the same request.
	seen := *request
	s.requests = append(s.requests, &seen)
	message := ai.NewModelTextMessage("done")
	if turn < len(s.turns) {
		var parts []*ai.Part
		for _, tool := range s.turns[turn] {
			parts = append(parts, ai.NewToolRequestPart(tool))
		}
		message = ai.NewModelMessage(parts...)
	}
	return &ai.ModelResponse{Request: request, Message: message, FinishReason: ai.FinishReasonStop}, nil
}

// answer is the tool response to a request that the model was given after a turn, counted from 0.
func (s *scripted) answer(t *testing.T, turn int, request *ai.ToolRequest) *ai.ToolResponse {
	t.Helper()
	messages := s.requests[turn+1].Messages
	for _, part := range messages[len(messages)-1].Content {
		if part.IsToolResponse() && part.ToolResponse.Ref == request.Ref {
			return part.ToolResponse
		}
	}
	t.Fatalf("the model was given no answer of the tool: %v", messages)
	return nil
}

func bash(command string) *ai.ToolRequest {
	return &ai.ToolRequest{Name: "bash", Ref: command, Input: map[string]any{"command": command, "description": "Tests"}}
}

type setup struct {
	server *testserver.Server
	client *toolgate.Client
	tools  *toolgategenkit.Tools
	model  *scripted
	g      *genkit.Genkit
}

func start(t *testing.T, options toolgategenkit.Options, turns ...[]*ai.ToolRequest) *setup {
	t.Helper()
	server := testserver.New(t, rules)
	client := server.Client()
	tools, err := toolgategenkit.New(t.Context(), client, options)
	check(t, err)
	model := &scripted{turns: turns}
	g := genkit.Init(t.Context(), genkit.WithDefaultModel("test/scripted"))
	genkit.DefineModel(g, "test/scripted", &ai.ModelOptions{
		Supports: &ai.ModelSupports{Tools: true, Multiturn: true, Media: true},
	}, model.generate)
	return &setup{server, client, tools, model, g}
}

func nobody(t *testing.T) func(toolgate.Prompt) toolgate.Decision {
	return func(prompt toolgate.Prompt) toolgate.Decision {
		t.Errorf("somebody was asked: %s", prompt.Title())
		return toolgate.Reject("")
	}
}

func TestModelsAreToldOfTheToolsAndGetTheirResults(t *testing.T) {
	s := start(t, toolgategenkit.Options{}, []*ai.ToolRequest{bash("echo one"), bash("exit 3")})
	response, err := answer(t.Context(), s.g, s.tools, "Count.", nobody(t))
	check(t, err)
	expect(t, "the answer", response.Text(), "done")
	expect(t, "what was printed", strings.TrimSpace(s.model.answer(t, 0, bash("echo one")).Output.(string)), "one")

	told := map[string]*ai.ToolDefinition{}
	for _, tool := range s.model.requests[0].Tools {
		told[tool.Name] = tool
	}
	definitions, err := s.client.Tools(t.Context())
	check(t, err)
	expect(t, "the number of tools", len(told), len(definitions))
	for i, definition := range definitions {
		var schema map[string]any
		check(t, json.Unmarshal(definition.InputSchema, &schema))
		expect(t, "the order", s.tools.Refs()[i].Name(), definition.Name)
		expect(t, "the description", told[definition.Name].Description, definition.Description)
		expect(t, "the schema of "+definition.Name, text(t, told[definition.Name].InputSchema), text(t, schema))
	}
}

func TestAnInputThatDoesNotFitIsAnsweredToTheModel(t *testing.T) {
	wrong := &ai.ToolRequest{Name: "bash", Ref: "1", Input: map[string]any{"command": 5}}
	forbidden := bash("rm -r precious")
	s := start(t, toolgategenkit.Options{}, []*ai.ToolRequest{wrong, forbidden})
	_, err := answer(t.Context(), s.g, s.tools, "Try.", nobody(t))
	check(t, err)
	for word, request := range map[string]*ai.ToolRequest{"command": wrong, "rule": forbidden} {
		if told := s.model.answer(t, 0, request).Output.(string); !strings.Contains(told, word) {
			t.Errorf("%q is not in %q", word, told)
		}
	}
}

func TestAPromptInterruptsAndTheReplyGoesOn(t *testing.T) {
	s := start(t, toolgategenkit.Options{Name: "Ada"}, []*ai.ToolRequest{bash("touch made"), bash("echo beside")},
		[]*ai.ToolRequest{bash("touch secret")})
	var asked []string
	response, err := answer(t.Context(), s.g, s.tools, "Make files.", func(prompt toolgate.Prompt) toolgate.Decision {
		patterns := prompt.(*toolgate.PermissionPrompt).Permission.Patterns
		asked = append(asked, patterns...)
		if patterns[0] == "touch secret" {
			return toolgate.Reject("Not that file.")
		}
		if _, err := os.Stat(filepath.Join(s.server.Workspace(), "made")); err == nil {
			t.Error("it ran before it was allowed")
		}
		return toolgate.Once()
	})
	check(t, err)
	expect(t, "the answer", response.Text(), "done")
	expect(t, "what was asked", strings.Join(asked, ", "), "touch made, touch secret")
	_, err = os.Stat(filepath.Join(s.server.Workspace(), "made"))
	check(t, err)
	if refused := s.model.answer(t, 1, bash("touch secret")).Output.(string); !strings.Contains(refused, "Not that file.") {
		t.Errorf("the model was told %q", refused)
	}
	// Restarted or not, each tool request is one call.
	calls := 0
	for call, err := range s.client.Calls(t.Context(), toolgate.CallFilter{}) {
		check(t, err)
		calls++
		prompt := call.Tool == "bash"
		expect(t, "a call of bash", prompt, true)
	}
	expect(t, "the number of calls", calls, 3)
}

func TestACallMadeByACallInterruptsToo(t *testing.T) {
	batch := &ai.ToolRequest{Name: "batch", Ref: "1", Input: map[string]any{"tool_calls": []any{
		map[string]any{"tool": "bash", "parameters": map[string]any{"command": "touch made", "description": "Tests"}},
	}}}
	s := start(t, toolgategenkit.Options{}, []*ai.ToolRequest{batch})
	response, err := genkit.Generate(t.Context(), s.g, ai.WithPrompt("Make."), ai.WithTools(s.tools.Refs()...))
	check(t, err)
	expect(t, "the interrupts", len(response.Interrupts()), 1)
	part := response.Interrupts()[0]
	interrupt, ok := toolgategenkit.InterruptOf(part)
	expect(t, "it is one of these tools", ok, true)
	expect(t, "its pattern", interrupt.Patterns[0], "touch made")

	// What is stored is JSON; another process answers what it finds there.
	var stored ai.Part
	check(t, json.Unmarshal([]byte(text(t, part)), &stored))
	elsewhere, err := toolgategenkit.New(t.Context(), s.server.Client(), toolgategenkit.Options{})
	check(t, err)
	prompt, err := elsewhere.Prompt(t.Context(), &stored)
	check(t, err)
	restart, err := elsewhere.Reply(t.Context(), &stored, prompt, toolgate.Once())
	check(t, err)
	response, err = genkit.Generate(t.Context(), s.g, ai.WithMessages(response.History()...),
		ai.WithTools(elsewhere.Refs()...), ai.WithToolRestarts(restart))
	check(t, err)
	expect(t, "the answer", response.Text(), "done")
	_, err = os.Stat(filepath.Join(s.server.Workspace(), "made"))
	check(t, err)
}

func TestPicturesComeWithTheResult(t *testing.T) {
	read := &ai.ToolRequest{Name: "read", Ref: "1", Input: map[string]any{"filePath": "pixel.png"}}
	s := start(t, toolgategenkit.Options{}, []*ai.ToolRequest{read})
	data, err := base64.StdEncoding.DecodeString(pixel)
	check(t, err)
	s.server.Write("pixel.png", string(data))
	_, err = answer(t.Context(), s.g, s.tools, "Look.", nobody(t))
	check(t, err)
	content := s.model.answer(t, 0, read).Content
	expect(t, "the parts", len(content), 1)
	expect(t, "it is a picture", content[0].IsImage(), true)
	expect(t, "the picture", content[0].Text, "data:image/png;base64,"+pixel)
}

func TestTheEndOfTheContextCancelsTheCall(t *testing.T) {
	s := start(t, toolgategenkit.Options{}, []*ai.ToolRequest{bash("sleep 600")})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := answer(ctx, s.g, s.tools, "Sleep.", nobody(t))
		ended <- err
	}()
	only(t, s.client, "RUNNING")
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
		t.Errorf("it ended with %v", err)
	}
	call := only(t, s.client, "FAILED")
	whole, err := s.client.Get(t.Context(), call.ID)
	check(t, err)
	expect(t, "why it failed", whole.Result.Reason, toolgate.ReasonCancelled)
}

func TestOthersMayAnswerWhileTheToolWaits(t *testing.T) {
	s := start(t, toolgategenkit.Options{Wait: true}, []*ai.ToolRequest{bash("touch made")})
	ctx, leave := context.WithCancel(t.Context())
	approver := make(chan error, 1)
	go func() {
		approver <- s.client.Approve(ctx, toolgate.Approver{
			Handle: func(context.Context, toolgate.Prompt) (toolgate.Decision, error) { return toolgate.Once(), nil },
		})
	}()
	_, err := answer(t.Context(), s.g, s.tools, "Make.", nobody(t))
	check(t, err)
	_, err = os.Stat(filepath.Join(s.server.Workspace(), "made"))
	check(t, err)
	leave()
	if err := <-approver; !errors.Is(err, context.Canceled) {
		t.Errorf("the approver ended with %v", err)
	}
}

func TestAnInterruptMayBeLeft(t *testing.T) {
	s := start(t, toolgategenkit.Options{}, []*ai.ToolRequest{bash("touch made")})
	response, err := genkit.Generate(t.Context(), s.g, ai.WithPrompt("Make."), ai.WithTools(s.tools.Refs()...))
	check(t, err)
	part := response.Interrupts()[0]
	_, err = genkit.Generate(t.Context(), s.g, ai.WithMessages(response.History()...), ai.WithTools(s.tools.Refs()...),
		ai.WithToolRestarts(s.tools.Refs()[0].(ai.Tool).Restart(part, nil)))
	if err == nil {
		t.Error("a restart that names no call was taken")
	}
	check(t, s.tools.Cancel(t.Context(), part))
	only(t, s.client, "FAILED")
	_, err = s.tools.Prompt(t.Context(), ai.NewTextPart("hello"))
	expect(t, "a text is an interrupt", err != nil, true)
}

// only waits until the service has one call, in this state.
func only(t *testing.T, client *toolgate.Client, state toolgate.CallState) *toolgate.Call {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for {
		var last *toolgate.Call
		for call, err := range client.Calls(ctx, toolgate.CallFilter{}) {
			check(t, err)
			last = call
		}
		if last != nil && last.State == state {
			return last
		}
		select {
		case <-ctx.Done():
			t.Fatalf("no call is %s: %v", state, last)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func text(t *testing.T, value any) string {
	t.Helper()
	encoded, err := json.Marshal(value)
	check(t, err)
	return string(encoded)
}
