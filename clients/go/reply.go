package toolgate

import (
	"context"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// Prompt returns a prompt as it stands, for a program that has kept its id while a person made up their mind.
func (c *Client) Prompt(ctx context.Context, promptID string) (Prompt, error) {
	response, err := c.permissions.GetPrompt(ctx, &toolgatev1.GetPromptRequest{PromptId: promptID})
	if err != nil {
		return nil, err
	}
	return newPrompt(response.GetPrompt()), nil
}

// Reply replies to a prompt without an [Approver]: one request after another of a web server may show the prompt and take the
// decision. The reply cites the digest of the input that this prompt shows, so it holds for exactly that. The name is
// recorded with the decision. What became of the reply is no error.
func (c *Client) Reply(ctx context.Context, name string, prompt Prompt, decision Decision) (Reply, error) {
	if decision.leaves() {
		return Reply{}, invalid("a reply needs a decision: Once, Always, Reject, Answer or Instead")
	}
	reply, err := decision.reply(prompt.Info())
	if err != nil {
		return Reply{}, err
	}
	response, err := c.permissions.ReplyPrompt(ctx, &toolgatev1.ReplyPromptRequest{Reply: reply, Name: name})
	if err != nil {
		return Reply{}, err
	}
	return newReply(response.GetResult()), nil
}

func newReply(result *toolgatev1.PromptReplyResult) Reply {
	reply := Reply{
		PromptID: result.GetPromptId(), Message: result.GetMessage(),
		Result: word[ReplyResult](replyResultPrefix, result.GetResult()),
	}
	if prompt := result.GetPrompt(); prompt != nil {
		reply.Prompt = newPrompt(prompt)
	}
	return reply
}
