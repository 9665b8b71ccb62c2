package io.toolgate;

import io.toolgate.v1.ListToolsRequest;
import io.toolgate.v1.ListToolsResponse;
import io.toolgate.v1.ModelRef;
import io.toolgate.v1.ToolServiceGrpc;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Function;

/**
 * The tools that an agent may use, in the order in which a model should be told of them.
 *
 * <p>{@link #openai()}, {@link #openaiResponses()}, {@link #anthropic()} and {@link #gemini()} give the list in the form that
 * a model API takes; the methods of {@link CallResult} with the same names give the results. The schemas depend on the model:
 * if the list was asked for without one, these methods ask the service again, for a model of that provider.
 */
public final class ToolList extends AbstractList<Tool> {
    private final Rpc rpc;
    private final ListToolsRequest request;
    private final List<Tool> tools;
    private final String etag;

    private ToolList(Rpc rpc, ListToolsRequest request, List<Tool> tools, String etag) {
        this.rpc = rpc;
        this.request = request;
        this.tools = List.copyOf(tools);
        this.etag = etag;
    }

    /** Lists the tools, all pages. */
    static ToolList fetch(Rpc rpc, ListToolsRequest request) {
        List<Tool> tools = new ArrayList<>();
        ListToolsRequest.Builder page = request.toBuilder();
        while (true) {
            ListToolsResponse response = rpc.call(ToolServiceGrpc.getListToolsMethod(), page.build());
            response.getToolsList().forEach(tool -> tools.add(new Tool(tool)));
            if (response.getNextPageToken().isEmpty()) {
                return new ToolList(rpc, request, tools, response.getEtag());
            }
            page.setPageToken(response.getNextPageToken());
        }
    }

    @Override
    public Tool get(int index) {
        return tools.get(index);
    }

    @Override
    public int size() {
        return tools.size();
    }

    /**
     * Returns the tool of this name.
     *
     * @param name the name
     * @return the tool, if it is listed
     */
    public Optional<Tool> find(String name) {
        return tools.stream().filter(tool -> tool.name().equals(name)).findFirst();
    }

    /**
     * Returns a text that changes when anything in the list changes.
     *
     * @return the entity tag
     */
    public String etag() {
        return etag;
    }

    /**
     * Returns the tools as OpenAI's chat completions take them.
     *
     * @return {@code [{"type": "function", "function": {"name", "description", "parameters"}}]}
     */
    public List<Map<String, Object>> openai() {
        return each("openai", tool -> Forms.object("type", "function", "function", function(tool)));
    }

    /**
     * Returns the tools as OpenAI's responses take them.
     *
     * @return {@code [{"type": "function", "name", "description", "parameters", "strict": false}]}: strict mode, the default
     *     there, takes only schemas that require every property
     */
    public List<Map<String, Object>> openaiResponses() {
        return each("openai", tool -> {
            Map<String, Object> form = Forms.object("type", "function");
            form.putAll(function(tool));
            form.put("strict", false);
            return form;
        });
    }

    /**
     * Returns the tools as Anthropic's messages take them.
     *
     * @return {@code [{"name", "description", "input_schema"}]}
     */
    public List<Map<String, Object>> anthropic() {
        return each(
                "anthropic",
                tool -> Forms.object(
                        "name", tool.name(), "description", tool.description(), "input_schema", tool.inputSchema()));
    }

    /**
     * Returns the tools as Gemini takes them.
     *
     * @return {@code [{"functionDeclarations": [{"name", "description", "parameters"}]}]}
     */
    public List<Map<String, Object>> gemini() {
        return List.of(Forms.object("functionDeclarations", each("google", ToolList::function)));
    }

    private List<Map<String, Object>> each(String provider, Function<Tool, Map<String, Object>> form) {
        return listedFor(provider).stream().map(form).toList();
    }

    private ToolList listedFor(String provider) {
        if (request.hasModel()) {
            return this;
        }
        ModelRef model = ModelRef.newBuilder().setProviderId(provider).build();
        // The etag in the request, if there is one, is that of the list without a model.
        return fetch(rpc, request.toBuilder().setModel(model).clearIfNoneMatch().build());
    }

    private static Map<String, Object> function(Tool tool) {
        return Forms.object("name", tool.name(), "description", tool.description(), "parameters", tool.inputSchema());
    }
}
