package toolgate_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolgate/toolgate/clients/go"
)

// A program that does not stay: it leaves the call waiting, and comes back with a decision.
func TestAPromptIsRepliedToByItsID(t *testing.T) {
	s := startServer(t)
	ctx := bounded(t)
	execution, err := s.Client().Execute(ctx, "bash", run("touch made"))
	check(t, err)
	var promptID string
	for event, err := range execution.Events() {
		check(t, err)
		if waiting, ok := event.(*toolgate.WaitingEvent); ok {
			promptID = waiting.Prompt.Info().ID
			break
		}
	}
	execution.Detach()
	check(t, execution.Close())

	client := s.Client()
	prompt, err := client.Prompt(ctx, promptID)
	check(t, err)
	expect(t, "what is asked", prompt.(*toolgate.PermissionPrompt).Permission.Patterns[0], "touch made")
	expect(t, "it waits", prompt.Info().State, toolgate.PromptOpen)
	_, err = client.Reply(ctx, "Ada", prompt, toolgate.Leave())
	expect(t, "a reply without a decision is taken", err == nil, false)

	reply, err := client.Reply(ctx, "Ada", prompt, toolgate.Once())
	check(t, err)
	expect(t, "what became of it", reply.Result, toolgate.ReplyAccepted)
	late, err := client.Reply(ctx, "Bob", prompt, toolgate.Reject(""))
	check(t, err)
	expect(t, "what became of a later one", late.Result, toolgate.ReplyAlreadyResolved)

	for event, err := range client.Watch(ctx, execution.CallID(), 0) {
		check(t, err)
		if failed, ok := event.(*toolgate.FailedEvent); ok {
			t.Errorf("the call failed: %s", failed.Result.Error)
		}
	}
	_, err = os.Stat(filepath.Join(s.Workspace(), "made"))
	check(t, err)
}
