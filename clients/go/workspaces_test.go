package toolgate_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
)

func TestWorkspacesAreOpenedAndClosed(t *testing.T) {
	server := startServer(t)
	client, ctx := server.Client(), bounded(t)
	shop := toolgate.WorkspaceFolder{Name: "shop", Directory: filepath.Join(server.Roots(), "shop")}
	_, _, err := client.OpenWorkspace(ctx, shop)
	refused(t, err, "FOLDER_MISSING")
	shop.Create = true
	workspace, opened, err := client.OpenWorkspace(ctx, shop)
	check(t, err)
	expect(t, "opened", opened, true)
	expect(t, "name", workspace.Name, "shop")
	expect(t, "directory", workspace.Directory, shop.Directory)
	expect(t, "trusted", workspace.Trusted, false)
	expect(t, "time", time.Since(workspace.Opened) < time.Minute, true)
	_, opened, err = client.OpenWorkspace(ctx, shop)
	check(t, err)
	expect(t, "opened again", opened, false)

	_, _, err = client.OpenWorkspace(ctx, toolgate.WorkspaceFolder{Name: "shop", Directory: server.Roots() + "/other", Create: true})
	refused(t, err, "WORKSPACE_NAME_TAKEN")
	_, _, err = client.OpenWorkspace(ctx, toolgate.WorkspaceFolder{Name: "other", Directory: server.Folder})
	refused(t, err, "OUTSIDE_ROOTS")
	_, _, err = client.OpenWorkspace(ctx, toolgate.WorkspaceFolder{Name: "a//b", Directory: shop.Directory})
	refused(t, err, "INVALID_FIELD")

	// A broken one says why.
	broken := filepath.Join(server.Roots(), "broken")
	check(t, os.Mkdir(broken, 0o755))
	check(t, os.WriteFile(filepath.Join(broken, "opencode.json"), []byte("{"), 0o644))
	workspace, _, err = client.OpenWorkspace(ctx, toolgate.WorkspaceFolder{Name: "broken", Directory: broken})
	check(t, err)
	expect(t, "problem", workspace.Problem != "", true)

	var names []string
	for workspace, err := range client.Workspaces(ctx, toolgate.WorkspaceFilter{PageSize: 1}) {
		check(t, err)
		names = append(names, workspace.Name)
	}
	expect(t, "names", strings.Join(names, " "), "broken default shop")
	for _, err := range client.Workspaces(ctx, toolgate.WorkspaceFilter{PageSize: -1}) {
		refused(t, err, "INVALID_FIELD")
	}
	workspace, err = client.GetWorkspace(ctx, "")
	check(t, err)
	expect(t, "the default one", workspace.Name, "default")
	expect(t, "agents", len(workspace.Proto().GetAgents()) > 0, true)
	expect(t, "configured", workspace.Opened.IsZero(), true)

	// Calls work in it, and end with it.
	result, err := client.Run(ctx, "write", map[string]string{"filePath": "a", "content": "a"}, toolgate.WithWorkspace("shop"))
	check(t, err)
	check(t, result.Err())
	_, err = os.Stat(filepath.Join(shop.Directory, "a"))
	check(t, err)
	execution, err := client.Execute(ctx, "bash", run("sleep 1000"), toolgate.WithWorkspace("shop"))
	check(t, err)
	cancelled, err := client.CloseWorkspace(ctx, "shop")
	check(t, err)
	expect(t, "cancelled", cancelled, 1)
	result, err = execution.Result()
	check(t, err)
	expect(t, "reason", result.Reason, toolgate.ReasonCancelled)
	_, err = client.CloseWorkspace(ctx, "shop")
	refused(t, err, "NOT_FOUND")
	_, err = client.GetWorkspace(ctx, "shop")
	refused(t, err, "NOT_FOUND")
	_, err = client.CloseWorkspace(ctx, "default")
	refused(t, err, "WORKSPACE_CONFIGURED")
}

func TestACallIsEvaluated(t *testing.T) {
	server := startServer(t)
	client, ctx := server.Client(), bounded(t)
	evaluation, err := client.Evaluate(ctx, "bash", run("echo x; touch made"))
	check(t, err)
	expect(t, "action", evaluation.Action, toolgate.ActionAsk)
	expect(t, "tool", evaluation.Tool, "bash")
	expect(t, "complete", evaluation.Complete, true)
	expect(t, "digest", evaluation.InputDigest, digest(string(evaluation.Input)))
	expect(t, "requests", len(evaluation.Requests), 1)
	request := evaluation.Requests[0]
	expect(t, "action", request.Action, toolgate.ActionAsk)
	var parts []string
	for _, part := range request.Permission.Parts {
		parts = append(parts, fmt.Sprintf("%s: %s", part.Text, part.Action))
	}
	expect(t, "parts", strings.Join(parts, ", "), "echo x: ALLOW, touch made: ASK")
	_, err = os.Stat(filepath.Join(server.Workspace(), "made"))
	expect(t, "nothing is run", errors.Is(err, os.ErrNotExist), true)

	for command, action := range map[string]toolgate.PermissionAction{
		"echo x": toolgate.ActionAllow, "rm x": toolgate.ActionDeny,
	} {
		evaluation, err = client.Evaluate(ctx, "bash", run("%s", command))
		check(t, err)
		expect(t, command, evaluation.Action, action)
	}
	evaluation, err = client.Evaluate(ctx, "bash", `{"command": `)
	check(t, err)
	expect(t, "malformed input", evaluation.Tool, "invalid")
	edit := map[string]string{"filePath": "opencode.json", "oldString": "nothing like that", "newString": ""}
	evaluation, err = client.Evaluate(ctx, "edit", edit)
	check(t, err)
	expect(t, "problem", evaluation.Problem != "", true)
	background := map[string]any{"command": "echo x", "description": "Tests", "background": true}
	evaluation, err = client.Evaluate(ctx, "bash", background)
	check(t, err)
	expect(t, "child", evaluation.Children[0].Tool, "background")
	evaluation, err = client.Evaluate(ctx, "question", map[string]any{"questions": []any{map[string]any{
		"question": "Tabs or spaces?", "header": "Indent", "options": []any{map[string]string{"label": "Tabs", "description": "Tabs"}},
	}}})
	check(t, err)
	expect(t, "question", evaluation.Requests[0].Questions[0].Text, "Tabs or spaces?")
	expect(t, "permission", evaluation.Requests[0].Permission, nil)

	_, err = client.Evaluate(ctx, "bash", run("echo x"), toolgate.WithWorkspace("nowhere"))
	refused(t, err, "NOT_FOUND")
	_, err = client.Evaluate(ctx, "bash", run("echo x"), toolgate.WithAgent("nobody"))
	refused(t, err, "INVALID_FIELD")
	_, err = client.Evaluate(ctx, "bash", "\xff")
	expect(t, "input", err.Error(), "toolgate: INVALID_ARGUMENT: the input is not UTF-8")
}
