package io.toolgate;

import io.grpc.MethodDescriptor;
import io.toolgate.v1.CallContext;
import io.toolgate.v1.CallStart;
import io.toolgate.v1.CompleteMcpArgumentRequest;
import io.toolgate.v1.CompleteMcpArgumentResponse;
import io.toolgate.v1.GetMcpPromptRequest;
import io.toolgate.v1.GetMcpPromptResponse;
import io.toolgate.v1.ListMcpPromptsRequest;
import io.toolgate.v1.ListMcpPromptsResponse;
import io.toolgate.v1.ListMcpResourceTemplatesRequest;
import io.toolgate.v1.ListMcpResourceTemplatesResponse;
import io.toolgate.v1.ListMcpResourcesRequest;
import io.toolgate.v1.ListMcpResourcesResponse;
import io.toolgate.v1.McpOmission;
import io.toolgate.v1.McpPrompt;
import io.toolgate.v1.McpResource;
import io.toolgate.v1.McpResourceTemplate;
import io.toolgate.v1.McpServiceGrpc;
import io.toolgate.v1.ReadMcpResourceRequest;
import io.toolgate.v1.ReadMcpResourceResponse;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Stream;

/**
 * What the MCP servers of a workspace have beside tools: resources and prompts. Nothing that a server says is to be trusted.
 *
 * <p>The rules for {@code read} decide. Lists and completions ask nobody: what a person would have to be asked about is
 * refused with {@code PERMISSION_NEEDED}, and what a rule denies is not in lists. Reading a resource or getting a prompt is a
 * call of the tool {@code mcp-read_SERVER}, about which a person may be asked, so it has no deadline. What the call could not
 * do is a {@link ToolgateException} whose metadata have the {@code call_id}.
 *
 * <p>A request says more than the other arguments do: another workspace, session or agent, for instance, or that the call
 * waits for a person who is not there yet. What it leaves out is the client's.
 */
public final class McpServers {
    private final Rpc rpc;
    private final CallStart options;

    McpServers(Rpc rpc, CallStart options) {
        this.rpc = rpc;
        this.options = options;
    }

    /**
     * Lists the resources of all servers that can be listed.
     *
     * @return by server, in the order of the configuration, fetched as the stream comes to them
     */
    public Stream<McpResource> resources() {
        return resources(ListMcpResourcesRequest.getDefaultInstance(), omission -> {});
    }

    /**
     * Lists resources.
     *
     * @param request which; its page size says how many are fetched at a time
     * @param omitted told at once of each server that the list of all lacks, and why
     * @return as {@link #resources()}
     */
    public Stream<McpResource> resources(ListMcpResourcesRequest request, Consumer<? super McpOmission> omitted) {
        ListMcpResourcesRequest.Builder sent = request.toBuilder().setContext(context(request.getContext()));
        return listed(
                McpServiceGrpc.getListMcpResourcesMethod(),
                token -> sent.setPageToken(token).build(),
                ListMcpResourcesResponse::getOmittedList,
                omitted,
                ListMcpResourcesResponse::getResourcesList,
                ListMcpResourcesResponse::getNextPageToken);
    }

    /**
     * Lists the templates from which addresses of resources are made, of all servers that can be listed.
     *
     * @return as {@link #resources()}
     */
    public Stream<McpResourceTemplate> templates() {
        return templates(ListMcpResourceTemplatesRequest.getDefaultInstance(), omission -> {});
    }

    /**
     * Lists templates.
     *
     * @param request which; its page size says how many are fetched at a time
     * @param omitted told at once of each server that the list of all lacks, and why
     * @return as {@link #resources()}
     */
    public Stream<McpResourceTemplate> templates(
            ListMcpResourceTemplatesRequest request, Consumer<? super McpOmission> omitted) {
        ListMcpResourceTemplatesRequest.Builder sent = request.toBuilder().setContext(context(request.getContext()));
        return listed(
                McpServiceGrpc.getListMcpResourceTemplatesMethod(),
                token -> sent.setPageToken(token).build(),
                ListMcpResourceTemplatesResponse::getOmittedList,
                omitted,
                ListMcpResourceTemplatesResponse::getTemplatesList,
                ListMcpResourceTemplatesResponse::getNextPageToken);
    }

    /**
     * Lists the prompts of all servers that can be listed.
     *
     * @return as {@link #resources()}
     */
    public Stream<McpPrompt> prompts() {
        return prompts(ListMcpPromptsRequest.getDefaultInstance(), omission -> {});
    }

    /**
     * Lists prompts.
     *
     * @param request which; its page size says how many are fetched at a time
     * @param omitted told at once of each server that the list of all lacks, and why
     * @return as {@link #resources()}
     */
    public Stream<McpPrompt> prompts(ListMcpPromptsRequest request, Consumer<? super McpOmission> omitted) {
        ListMcpPromptsRequest.Builder sent = request.toBuilder().setContext(context(request.getContext()));
        return listed(
                McpServiceGrpc.getListMcpPromptsMethod(),
                token -> sent.setPageToken(token).build(),
                ListMcpPromptsResponse::getOmittedList,
                omitted,
                ListMcpPromptsResponse::getPromptsList,
                ListMcpPromptsResponse::getNextPageToken);
    }

    /**
     * Reads a resource.
     *
     * @param server the server, as the configuration names it
     * @param uri the address; the server need not have listed it
     * @return the contents, and the call that read them
     */
    public ReadMcpResourceResponse read(String server, String uri) {
        return read(ReadMcpResourceRequest.newBuilder()
                .setServer(server)
                .setUri(uri)
                .build());
    }

    /**
     * Reads a resource as the request says.
     *
     * @param request what to read, and how the call is made
     * @return the contents, and the call that read them
     */
    public ReadMcpResourceResponse read(ReadMcpResourceRequest request) {
        CallStart call = WorkspaceFiles.filled(request.getCall(), options);
        return rpc.await(
                McpServiceGrpc.getReadMcpResourceMethod(),
                request.toBuilder().setCall(call).build());
    }

    /**
     * Gets the messages that a server makes of a prompt.
     *
     * @param server the server, as the configuration names it
     * @param name the prompt
     * @param arguments its arguments; {@code MCP_ARGUMENT_MISSING} means that it requires another one
     * @return the messages, and the call that got them
     */
    public GetMcpPromptResponse prompt(String server, String name, Map<String, String> arguments) {
        return prompt(GetMcpPromptRequest.newBuilder()
                .setServer(server)
                .setName(name)
                .putAllArguments(arguments)
                .build());
    }

    /**
     * Gets a prompt as the request says.
     *
     * @param request which, and how the call is made
     * @return the messages, and the call that got them
     */
    public GetMcpPromptResponse prompt(GetMcpPromptRequest request) {
        CallStart call = WorkspaceFiles.filled(request.getCall(), options);
        return rpc.await(
                McpServiceGrpc.getGetMcpPromptMethod(),
                request.toBuilder().setCall(call).build());
    }

    /**
     * Suggests values for an argument of a prompt or of a template, for what a person has typed of it.
     *
     * @param request whose argument, which, and what is typed
     * @return at most 100, the best first
     */
    public CompleteMcpArgumentResponse complete(CompleteMcpArgumentRequest request) {
        CompleteMcpArgumentRequest sent =
                request.toBuilder().setContext(context(request.getContext())).build();
        return rpc.call(McpServiceGrpc.getCompleteMcpArgumentMethod(), sent);
    }

    private CallContext context(CallContext asked) {
        return ToolCall.filled(asked, options.getContext());
    }

    private <Q, P, T> Stream<T> listed(
            MethodDescriptor<Q, P> method,
            Function<String, Q> request,
            Function<P, List<McpOmission>> omissions,
            Consumer<? super McpOmission> omitted,
            Function<P, List<T>> entries,
            Function<P, String> nextPageToken) {
        return Pages.stream(
                token -> {
                    P page = rpc.call(method, request.apply(token));
                    // Each page says the same.
                    if (token.isEmpty()) {
                        omissions.apply(page).forEach(omitted);
                    }
                    return page;
                },
                page -> entries.apply(page).stream(),
                nextPageToken);
    }
}
