package toolgategenkit_test

import (
	"context"
	"fmt"

	"github.com/firebase/genkit/go/ai"
	"github.com/firebase/genkit/go/genkit"
	"github.com/toolgate/toolgate/clients/go"
	"github.com/toolgate/toolgate/clients/go/toolgategenkit"
)

// answer lets the model of g work with the tools until it has an answer, and asks a person whenever the rules want one. Between
// the interrupt and the restart a web application would store response.History() and answer its own request.
func answer(
	ctx context.Context, g *genkit.Genkit, tools *toolgategenkit.Tools, task string,
	ask func(prompt toolgate.Prompt) toolgate.Decision,
) (*ai.ModelResponse, error) {
	response, err := genkit.Generate(ctx, g, ai.WithPrompt(task), ai.WithTools(tools.Refs()...))
	for err == nil && len(response.Interrupts()) > 0 {
		var restarts []*ai.Part
		for _, part := range response.Interrupts() {
			prompt, err := tools.Prompt(ctx, part)
			if err != nil {
				return nil, err
			}
			restart, err := tools.Reply(ctx, part, prompt, ask(prompt))
			if err != nil {
				return nil, err
			}
			restarts = append(restarts, restart)
		}
		response, err = genkit.Generate(ctx, g, ai.WithMessages(response.History()...), ai.WithTools(tools.Refs()...),
			ai.WithToolRestarts(restarts...))
	}
	return response, err
}

// A program that asks at its terminal. The model is the one of a plugin, given to genkit.Init.
func Example() {
	ctx := context.Background()
	client, err := toolgate.NewClient("") // $TOOLGATE_SERVER, or http://127.0.0.1:50551
	if err != nil {
		panic(err)
	}
	defer client.Close()
	tools, err := toolgategenkit.New(ctx, client, toolgategenkit.Options{Name: "Ada"})
	if err != nil {
		panic(err)
	}
	g := genkit.Init(ctx, genkit.WithDefaultModel("provider/model"))
	response, err := answer(ctx, g, tools, "Which files are here?", func(prompt toolgate.Prompt) toolgate.Decision {
		fmt.Printf("%s. Allow it? [y/N] ", prompt.Title())
		var answer string
		if fmt.Scanln(&answer); answer != "y" {
			return toolgate.Reject("The user does not want that.")
		}
		return toolgate.Once()
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(response.Text())
}
