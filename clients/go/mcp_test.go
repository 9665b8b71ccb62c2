package toolgate_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"github.com/toolgate/toolgate/clients/go/internal/testserver"
)

const mcpRules = `{"permission": {"read": {
	"*": "allow", "mcp:notes:notes://7": "deny", "mcp:notes:notes://8": "ask", "mcp:notes:prompt:private": "ask"}}}`

// startMCP starts a service with two MCP servers, one of which does not start, and waits until the other one is ready.
func startMCP(t *testing.T, ctx context.Context) *server {
	t.Helper()
	server := &server{testserver.New(t, mcpRules)}
	program, err := filepath.Abs("../mcp-server.py")
	check(t, err)
	// Servers in the user's own settings are always used.
	check(t, os.Mkdir(filepath.Join(server.Folder, "opencode"), 0o755))
	check(t, os.WriteFile(filepath.Join(server.Folder, "opencode", "opencode.json"), fmt.Appendf(nil, `{"mcp": {
		"notes": {"type": "local", "command": ["python3", %q]}, "gone": {"type": "local", "command": ["false"]}}}`, program), 0o644))
	servers := server.Client().MCP()
	for ctx.Err() == nil {
		ready := true
		for _, err := range servers.Templates(ctx, toolgate.MCPFilter{Server: "notes"}) {
			ready = err == nil
		}
		if ready {
			return server
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the MCP server does not become ready")
	return nil
}

func collected[T any](t *testing.T, list iter.Seq2[T, error]) (all []T) {
	t.Helper()
	for one, err := range list {
		check(t, err)
		all = append(all, one)
	}
	return all
}

func TestWhatMCPServersHaveIsListedAndRead(t *testing.T) {
	ctx := bounded(t)
	client := startMCP(t, ctx).Client()
	servers := client.MCP(toolgate.WithSession("ses_mcp"))
	var omitted []string
	told := func(one *toolgatev1.McpOmission) {
		omitted = append(omitted, one.GetServer()+" "+one.GetReason().String())
	}
	// All pages, without what a rule denies.
	resources := collected(t, servers.Resources(ctx, toolgate.MCPFilter{PageSize: 50, OnOmitted: told}))
	expect(t, "resources", len(resources), 119)
	expect(t, "size of the last one", resources[118].GetSizeBytes(), 119)
	expect(t, "omitted", strings.Join(omitted, ", "), "gone ERROR_REASON_MCP_SERVER_NOT_READY")
	templates := collected(t, servers.Templates(ctx, toolgate.MCPFilter{}))
	expect(t, "template", templates[0].GetUriTemplate(), "notes://{day}")
	prompts := collected(t, servers.Prompts(ctx, toolgate.MCPFilter{Server: "notes"}))
	expect(t, "prompts", prompts[0].GetName()+" "+prompts[1].GetName(), "plan private")
	expect(t, "argument", prompts[0].GetArguments()[0].GetName(), "day")

	read, err := servers.Read(ctx, "notes", "notes://new", toolgate.WithCallID("reading"))
	check(t, err)
	expect(t, "call", read.GetCallId(), "reading")
	expect(t, "text", read.GetContents()[0].GetText(), "This is notes://new.")
	expect(t, "bytes", string(read.GetContents()[1].GetBlob()), "\x00\x01\x02")
	call, err := client.Get(ctx, "reading")
	check(t, err)
	expect(t, "tool", call.Tool+" "+call.Context.SessionID, "mcp-read_notes ses_mcp")
	prompt, err := servers.Prompt(ctx, "notes", "plan", map[string]string{"day": "today"})
	check(t, err)
	expect(t, "message", prompt.GetMessages()[0].GetText(), `{"day": "today"}`)
	expect(t, "role", prompt.GetMessages()[0].GetRole(), toolgatev1.McpRole_MCP_ROLE_USER)
	argument := toolgate.MCPArgument{Prompt: "plan", Name: "day", Value: "to", Others: map[string]string{"week": "48"}}
	hints, err := servers.Complete(ctx, "notes", argument)
	check(t, err)
	expect(t, "values", strings.Join(hints.GetValues(), " "), "today plan 48")
	expect(t, "all values", hints.GetTotal(), 7)
	hints, err = servers.Complete(ctx, "notes", toolgate.MCPArgument{Template: "notes://{day}", Name: "day"})
	check(t, err)
	expect(t, "values", strings.Join(hints.GetValues(), " "), "day notes://{day}")

	_, err = servers.Read(ctx, "notes", "notes://7")
	refused(t, err, "DENIED_BY_RULE")
	// Nobody is there to ask.
	_, err = servers.Read(ctx, "notes", "notes://8")
	refused(t, err, "PERMISSION_NEEDED")
	_, err = servers.Complete(ctx, "notes", toolgate.MCPArgument{Prompt: "private", Name: "x"})
	refused(t, err, "PERMISSION_NEEDED")
	_, err = servers.Prompt(ctx, "notes", "plan", nil)
	refused(t, err, "MCP_ARGUMENT_MISSING")
	for _, err := range servers.Resources(ctx, toolgate.MCPFilter{Server: "nobody"}) {
		refused(t, err, "NOT_FOUND")
	}
	_, err = servers.Complete(ctx, "notes", toolgate.MCPArgument{Name: "day"})
	expect(t, "an argument of nothing", strings.Contains(err.Error(), "name one of them"), true)
}

func TestReadingWaitsForPeople(t *testing.T) {
	ctx := bounded(t)
	client := startMCP(t, ctx).Client(toolgate.WithRPCTimeout(time.Second))
	inBackground(t, func(ctx context.Context) error {
		return client.Approve(ctx, toolgate.Approver{
			Handle: func(ctx context.Context, prompt toolgate.Prompt) (toolgate.Decision, error) {
				// Longer than other unary RPCs may take.
				time.Sleep(1500 * time.Millisecond)
				if prompt.(*toolgate.PermissionPrompt).Permission.Patterns[0] == "mcp:notes:notes://8" {
					return toolgate.Once(), nil
				}
				return toolgate.Reject("not that"), nil
			},
		})
	})
	servers := client.MCP()
	read, err := servers.Read(ctx, "notes", "notes://8", toolgate.WithWait(0))
	check(t, err)
	expect(t, "text", read.GetContents()[0].GetText(), "This is notes://8.")
	_, err = servers.Prompt(ctx, "notes", "private", nil, toolgate.WithWait(time.Minute))
	refused(t, err, "REJECTED")
}
