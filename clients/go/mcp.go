package toolgate

import (
	"context"
	"iter"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// MCPServers shows what the MCP servers of a workspace have beside tools, in somebody's name: resources and prompts. The
// rules for `read` decide, and nothing that a server says is to be trusted.
//
// Lists and completions ask nobody: what a person would have to be asked about is refused, with the reason
// PERMISSION_NEEDED, and what a rule denies is not in lists. Reading a resource or getting a prompt is a call of the tool
// `mcp-read_SERVER`, which asks like any other, for as long as that takes: see [WithWait]. What it could not do is an
// [*Error], with the call's id as `call_id` in its Metadata.
type MCPServers struct {
	client  *Client
	options []ContextOption
}

// MCP returns the MCP servers of a workspace, as the options and those of the client say. It asks nothing yet.
func (c *Client) MCP(options ...ContextOption) *MCPServers { return &MCPServers{c, options} }

// MCPFilter says what to list.
type MCPFilter struct {
	// Server is the server, as the configuration names it; empty for all.
	Server string
	// PageSize is how many are fetched at once; 0 for 100.
	PageSize int
	// OnOmitted is told, before the first entry, of each server whose entries the list of all servers lacks, and why.
	OnOmitted func(*toolgatev1.McpOmission)
}

// mcpPage is what the pages of all lists have.
type mcpPage interface {
	GetOmitted() []*toolgatev1.McpOmission
	GetNextPageToken() string
}

// mcpList goes through the pages of a list.
func mcpList[P mcpPage, T any](
	m *MCPServers, filter MCPFilter, fetch func(named *toolgatev1.CallContext, token string) (P, error), entries func(P) []T,
) iter.Seq2[T, error] {
	return pages(func(token string) ([]T, string, error) {
		named, err := m.client.context(m.options)
		if err != nil {
			return nil, "", err
		}
		page, err := fetch(named, token)
		if err != nil {
			return nil, "", err
		}
		// Each page says the same.
		if token == "" && filter.OnOmitted != nil {
			for _, omitted := range page.GetOmitted() {
				filter.OnOmitted(omitted)
			}
		}
		return entries(page), page.GetNextPageToken(), nil
	})
}

// Resources lists the resources: by server, in the order of the configuration.
func (m *MCPServers) Resources(ctx context.Context, filter MCPFilter) iter.Seq2[*toolgatev1.McpResource, error] {
	fetch := func(named *toolgatev1.CallContext, token string) (*toolgatev1.ListMcpResourcesResponse, error) {
		return m.client.mcp.ListMcpResources(ctx, &toolgatev1.ListMcpResourcesRequest{
			Context: named, Server: filter.Server, PageSize: int32(filter.PageSize), PageToken: token,
		})
	}
	return mcpList(m, filter, fetch, (*toolgatev1.ListMcpResourcesResponse).GetResources)
}

// Templates lists the templates from which addresses of resources are made.
func (m *MCPServers) Templates(ctx context.Context, filter MCPFilter) iter.Seq2[*toolgatev1.McpResourceTemplate, error] {
	fetch := func(named *toolgatev1.CallContext, token string) (*toolgatev1.ListMcpResourceTemplatesResponse, error) {
		return m.client.mcp.ListMcpResourceTemplates(ctx, &toolgatev1.ListMcpResourceTemplatesRequest{
			Context: named, Server: filter.Server, PageSize: int32(filter.PageSize), PageToken: token,
		})
	}
	return mcpList(m, filter, fetch, (*toolgatev1.ListMcpResourceTemplatesResponse).GetTemplates)
}

// Prompts lists the prompts.
func (m *MCPServers) Prompts(ctx context.Context, filter MCPFilter) iter.Seq2[*toolgatev1.McpPrompt, error] {
	fetch := func(named *toolgatev1.CallContext, token string) (*toolgatev1.ListMcpPromptsResponse, error) {
		return m.client.mcp.ListMcpPrompts(ctx, &toolgatev1.ListMcpPromptsRequest{
			Context: named, Server: filter.Server, PageSize: int32(filter.PageSize), PageToken: token,
		})
	}
	return mcpList(m, filter, fetch, (*toolgatev1.ListMcpPromptsResponse).GetPrompts)
}

// Read reads a resource by its address; the server need not have listed it.
func (m *MCPServers) Read(
	ctx context.Context, server, uri string, options ...CallOption,
) (*toolgatev1.ReadMcpResourceResponse, error) {
	_, call, err := m.client.callStart(m.options, options)
	if err != nil {
		return nil, err
	}
	return m.client.mcp.ReadMcpResource(ctx, &toolgatev1.ReadMcpResourceRequest{Call: call, Server: server, Uri: uri})
}

// Prompt gets the messages that a server makes of a prompt with these arguments. If a required one is missing, the error
// has the reason MCP_ARGUMENT_MISSING, and the name as `argument` in its Metadata.
func (m *MCPServers) Prompt(
	ctx context.Context, server, name string, arguments map[string]string, options ...CallOption,
) (*toolgatev1.GetMcpPromptResponse, error) {
	_, call, err := m.client.callStart(m.options, options)
	if err != nil {
		return nil, err
	}
	return m.client.mcp.GetMcpPrompt(ctx, &toolgatev1.GetMcpPromptRequest{
		Call: call, Server: server, Name: name, Arguments: arguments,
	})
}

// MCPArgument is an argument that a person types.
type MCPArgument struct {
	// Prompt is the prompt whose argument it is; Template the template, if it is not a prompt's.
	Prompt, Template string
	// Name is its name.
	Name string
	// Value is what is typed of it so far.
	Value string
	// Others are other arguments that are given already.
	Others map[string]string
}

// Complete suggests values for an argument, the best first.
func (m *MCPServers) Complete(
	ctx context.Context, server string, argument MCPArgument,
) (*toolgatev1.CompleteMcpArgumentResponse, error) {
	if (argument.Prompt == "") == (argument.Template == "") {
		return nil, invalid("an argument belongs to a prompt or to a template: name one of them")
	}
	named, err := m.client.context(m.options)
	if err != nil {
		return nil, err
	}
	request := &toolgatev1.CompleteMcpArgumentRequest{
		Context: named, Server: server, Argument: argument.Name, Value: argument.Value, Arguments: argument.Others,
	}
	if argument.Prompt != "" {
		request.Owner = &toolgatev1.CompleteMcpArgumentRequest_Prompt{Prompt: argument.Prompt}
	} else {
		request.Owner = &toolgatev1.CompleteMcpArgumentRequest_UriTemplate{UriTemplate: argument.Template}
	}
	return m.client.mcp.CompleteMcpArgument(ctx, request)
}
