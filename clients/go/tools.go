package toolgate

import (
	"context"
	"encoding/json"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// ToolDefinition is what a model and a front end are told about a tool.
type ToolDefinition struct {
	// Name is the name that a call uses.
	Name string
	// Description is the text for the model.
	Description string
	// InputSchema is the JSON Schema of the input.
	InputSchema json.RawMessage
	// Source says where the tool comes from.
	Source ToolSource
	// Effects says what it may do.
	Effects []ToolEffect
	// Permissions are those that it may ask for.
	Permissions []string
	// Experimental says that it may change or vanish without notice.
	Experimental bool

	message *toolgatev1.ToolDefinition
}

// Proto returns the message of the contract.
func (d ToolDefinition) Proto() *toolgatev1.ToolDefinition { return d.message }

func newToolDefinition(message *toolgatev1.ToolDefinition) ToolDefinition {
	return ToolDefinition{
		Name: message.GetName(), Description: message.GetDescription(),
		InputSchema: json.RawMessage(message.GetInputSchemaJson()),
		Source:      word[ToolSource](toolSourcePrefix, message.GetSource()),
		Effects: each(message.GetEffects(), func(effect toolgatev1.ToolEffect) ToolEffect {
			return word[ToolEffect](toolEffectPrefix, effect)
		}),
		Permissions: message.GetPermissions(), Experimental: message.GetExperimental(), message: message,
	}
}

// toolsConfig is what a list of tools is made for.
type toolsConfig struct {
	context  callContext
	pageSize int
}

type toolsOption func(*toolsConfig)

func (o toolsOption) applyTools(c *toolsConfig) error { o(c); return nil }

// WithPageSize sets how many tools are fetched at once; all of them unless said.
func WithPageSize(size int) ToolsOption {
	return toolsOption(func(c *toolsConfig) { c.pageSize = size })
}

// Tools lists the tools that an agent on a model may use, in the order in which models are told of them.
func (c *Client) Tools(ctx context.Context, options ...ToolsOption) ([]ToolDefinition, error) {
	return c.listTools(ctx, Model{}, options)
}

// listTools lists the tools for the model that the options name, or else for this one.
func (c *Client) listTools(ctx context.Context, model Model, options []ToolsOption) ([]ToolDefinition, error) {
	list := toolsConfig{context: c.config.context}
	for _, option := range options {
		if err := option.applyTools(&list); err != nil {
			return nil, err
		}
	}
	if list.context.Model == (Model{}) {
		list.context.Model = model
	}
	var tools []ToolDefinition
	for tool, err := range pages(func(token string) ([]ToolDefinition, string, error) {
		response, err := c.tools.ListTools(ctx, &toolgatev1.ListToolsRequest{
			Workspace: list.context.Workspace, Agent: list.context.Agent, Model: list.context.Model.proto(),
			ClientKind: list.context.ClientKind, ParentCallId: list.context.ParentCallID,
			PageSize: int32(list.pageSize), PageToken: token,
		})
		if err != nil {
			return nil, "", err
		}
		return each(response.GetTools(), newToolDefinition), response.GetNextPageToken(), nil
	}) {
		if err != nil {
			return nil, err
		}
		tools = append(tools, tool)
	}
	return tools, nil
}

// OpenAITool is a tool in the form of OpenAI's chat completions, which most other servers of models take as well.
type OpenAITool struct {
	// Type is always "function".
	Type string `json:"type"`
	// Function is the tool.
	Function Function `json:"function"`
}

// Function is a function that a model may call.
type Function struct {
	// Name is the name that a call uses.
	Name string `json:"name"`
	// Description is the text for the model.
	Description string `json:"description"`
	// Parameters is the JSON Schema of the input.
	Parameters json.RawMessage `json:"parameters"`
}

// OpenAIResponsesTool is a tool in the form of OpenAI's responses.
type OpenAIResponsesTool struct {
	// Type is always "function".
	Type string `json:"type"`
	Function
	// Strict is always false: strict mode, the default there, takes only schemas that require every property.
	Strict bool `json:"strict"`
}

// AnthropicTool is a tool in the form of Anthropic's messages.
type AnthropicTool struct {
	// Name is the name that a call uses.
	Name string `json:"name"`
	// Description is the text for the model.
	Description string `json:"description"`
	// InputSchema is the JSON Schema of the input.
	InputSchema json.RawMessage `json:"input_schema"`
}

// GeminiTool is a list of tools in the form of Gemini's contents.
type GeminiTool struct {
	// FunctionDeclarations are the tools.
	FunctionDeclarations []Function `json:"functionDeclarations"`
}

// OpenAITools is [Client.Tools] in the form of OpenAI's chat completions, for a model of OpenAI unless [WithModel] names
// another.
func (c *Client) OpenAITools(ctx context.Context, options ...ToolsOption) ([]OpenAITool, error) {
	return toolsAs(ctx, c, "openai", options, func(tool ToolDefinition) OpenAITool {
		return OpenAITool{Type: "function", Function: tool.function()}
	})
}

// OpenAIResponsesTools is [Client.Tools] in the form of OpenAI's responses, for a model of OpenAI unless [WithModel] names
// another.
func (c *Client) OpenAIResponsesTools(ctx context.Context, options ...ToolsOption) ([]OpenAIResponsesTool, error) {
	return toolsAs(ctx, c, "openai", options, func(tool ToolDefinition) OpenAIResponsesTool {
		return OpenAIResponsesTool{Type: "function", Function: tool.function()}
	})
}

// AnthropicTools is [Client.Tools] in the form of Anthropic, for a model of Anthropic unless [WithModel] names another.
func (c *Client) AnthropicTools(ctx context.Context, options ...ToolsOption) ([]AnthropicTool, error) {
	return toolsAs(ctx, c, "anthropic", options, func(tool ToolDefinition) AnthropicTool {
		return AnthropicTool{Name: tool.Name, Description: tool.Description, InputSchema: tool.InputSchema}
	})
}

// GeminiTools is [Client.Tools] in the form of Gemini, for a model of Google unless [WithModel] names another.
func (c *Client) GeminiTools(ctx context.Context, options ...ToolsOption) ([]GeminiTool, error) {
	declarations, err := toolsAs(ctx, c, "google", options, ToolDefinition.function)
	if err != nil {
		return nil, err
	}
	return []GeminiTool{{FunctionDeclarations: declarations}}, nil
}

func toolsAs[T any](
	ctx context.Context, c *Client, provider string, options []ToolsOption, form func(ToolDefinition) T,
) ([]T, error) {
	tools, err := c.listTools(ctx, Model{Provider: provider}, options)
	if err != nil {
		return nil, err
	}
	return each(tools, form), nil
}

func (d ToolDefinition) function() Function {
	return Function{Name: d.Name, Description: d.Description, Parameters: d.InputSchema}
}
