package io.toolgate.langchain4j;

import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.invocation.InvocationContext;
import dev.langchain4j.service.tool.ToolProvider;
import dev.langchain4j.service.tool.ToolProviderRequest;
import dev.langchain4j.service.tool.ToolProviderResult;
import io.toolgate.ApprovalOptions;
import io.toolgate.Approvals;
import io.toolgate.PromptHandler;
import io.toolgate.Tool;
import io.toolgate.ToolCall;
import io.toolgate.ToolgateClient;
import io.toolgate.v1.ListToolsRequest;
import java.util.function.BiFunction;
import java.util.function.Predicate;

/**
 * The tools of a service, for {@code AiServices.builder(…).toolProvider(tools)}. They are listed anew for each message of
 * the user.
 *
 * <p>LangChain4j knows no questions to a person within a tool, so a call waits in its thread while a {@linkplain
 * Builder#prompts handler} decides, or somebody else does. Nothing is decided here. A failed call is a result that is an
 * error, with the text for the model.
 */
public final class ToolgateTools implements ToolProvider, AutoCloseable {
    private final ToolgateClient client;
    private final ListToolsRequest request;
    private final Predicate<Tool> only;
    private final ToolgateExecutor executor;
    /** Null if others answer prompts. */
    private final Approvals approvals;

    private ToolgateTools(Builder builder) {
        this.client = builder.client;
        this.request = builder.request;
        this.only = builder.only;
        this.executor = new ToolgateExecutor(client, builder.inName, builder.files);
        this.approvals = builder.handler == null ? null : client.approvals(builder.options, builder.handler);
    }

    /**
     * Begins with all tools of a client, whose prompts others answer.
     *
     * @param client the client, which stays open when the tools are closed
     * @return a builder
     */
    public static Builder builder(ToolgateClient client) {
        return new Builder(client);
    }

    @Override
    public ToolProviderResult provideTools(ToolProviderRequest asked) {
        ToolProviderResult.Builder result = ToolProviderResult.builder();
        client.tools(request).stream().filter(only).forEach(tool -> result.add(specification(tool), executor));
        return result.build();
    }

    private static ToolSpecification specification(Tool tool) {
        return ToolSpecification.builder()
                .name(tool.name())
                .description(tool.description())
                .parameters(Schemas.of(tool.inputSchema()))
                .build();
    }

    /** Ends the approvals; the prompts that are open are left to others. The client stays open. */
    @Override
    public void close() {
        if (approvals != null) {
            approvals.close();
        }
    }

    /** Says which tools there are, in whose name they are called, and who answers their prompts. */
    public static final class Builder {
        private final ToolgateClient client;
        private ListToolsRequest request = ListToolsRequest.getDefaultInstance();
        private Predicate<Tool> only = tool -> true;
        private BiFunction<ToolCall, InvocationContext, ToolCall> inName = (call, context) -> call;
        private boolean files;
        private ApprovalOptions options;
        private PromptHandler handler;

        private Builder(ToolgateClient client) {
            this.client = client;
        }

        /**
         * Lists the tools for another agent or model than the client's.
         *
         * @param request for whom
         * @return this
         */
        public Builder list(ListToolsRequest request) {
            this.request = request;
            return this;
        }

        /**
         * Picks the tools.
         *
         * @param only whether a tool is one of them
         * @return this
         */
        public Builder only(Predicate<Tool> only) {
            this.only = only;
            return this;
        }

        /**
         * Says in whose name calls are made: in which session, for instance.
         *
         * @param inName changes a call by its conversation, whose memory has an id
         * @return this
         */
        public Builder inName(BiFunction<ToolCall, InvocationContext, ToolCall> inName) {
            this.inName = inName;
            return this;
        }

        /**
         * Gives the model pictures, audio and PDF files with the text of a result. Not every model takes them as the answer
         * of a tool: LangChain4j refuses the message then. Without this a file is known by the text of the result only.
         *
         * @param files whether to
         * @return this
         */
        public Builder files(boolean files) {
            this.files = files;
            return this;
        }

        /**
         * Answers the prompts of the client's calls until the tools are closed.
         *
         * @param handler decides; may wait for a person as long as it likes
         * @return this
         */
        public Builder prompts(PromptHandler handler) {
            return prompts(ApprovalOptions.named("langchain4j"), handler);
        }

        /**
         * Answers prompts until the tools are closed.
         *
         * @param options which prompts to answer, and as whom
         * @param handler decides; may wait for a person as long as it likes
         * @return this
         */
        public Builder prompts(ApprovalOptions options, PromptHandler handler) {
            this.options = options;
            this.handler = handler;
            return this;
        }

        /**
         * Begins to answer prompts, if there is a handler.
         *
         * @return the tools; close them
         */
        public ToolgateTools build() {
            return new ToolgateTools(this);
        }
    }
}
