package io.toolgate.adapters;

import io.toolgate.ApprovalOptions;
import io.toolgate.Approvals;
import io.toolgate.CallResult;
import io.toolgate.PromptHandler;
import io.toolgate.Tool;
import io.toolgate.ToolCall;
import io.toolgate.ToolgateClient;
import io.toolgate.v1.ListToolsRequest;
import java.util.List;
import java.util.Objects;
import java.util.function.BiFunction;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * The tools of a service for a framework: which there are, in whose name they are called, and who answers their prompts.
 *
 * <p>A call is made on the thread that the framework calls on; interrupting it cancels the call. A call that asks a person
 * waits in its thread while a {@linkplain Builder#prompts handler} decides, or somebody else does.
 *
 * <p><i>Invariant:</i> nothing is decided here, and the service alone judges the arguments of a model.
 *
 * @param <C> what the framework tells of the conversation that a call belongs to
 */
public abstract class FrameworkTools<C> implements AutoCloseable {
    private final ToolgateClient client;
    private final ListToolsRequest request;
    private final Predicate<Tool> only;
    private final BiFunction<ToolCall, C, ToolCall> inName;
    /** Null if others answer prompts. */
    private final @Nullable Approvals approvals;

    /**
     * Begins to answer prompts, if there is a handler.
     *
     * @param builder what was said
     */
    protected FrameworkTools(Builder<C, ?> builder) {
        this.client = builder.client;
        this.request = builder.request;
        this.only = builder.only;
        this.inName = builder.inName;
        this.approvals = builder.options == null || builder.handler == null
                ? null
                : client.approvals(builder.options, builder.handler);
    }

    /**
     * Lists the tools as they are now.
     *
     * @return those that were picked, in the order in which a model should be told of them
     */
    protected final List<Tool> list() {
        return client.tools(request).stream().filter(only).toList();
    }

    /**
     * Makes a call, and waits for its end.
     *
     * @param tool the tool's name
     * @param arguments the text as the model wrote it: what is malformed is answered to the model
     * @param context the conversation
     * @return how the call ended
     */
    protected final CallResult run(String tool, String arguments, C context) {
        return client.run(inName.apply(ToolCall.ofJson(tool, arguments), context));
    }

    /** Ends the approvals; the prompts that are open are left to others. The client stays open. */
    @Override
    public void close() {
        if (approvals != null) {
            approvals.close();
        }
    }

    /**
     * Says which tools there are, in whose name they are called, and who answers their prompts.
     *
     * @param <C> what the framework tells of the conversation that a call belongs to
     * @param <B> the builder of the adapter
     */
    public abstract static class Builder<C, B extends Builder<C, B>> {
        private final ToolgateClient client;
        private final String name;
        private ListToolsRequest request = ListToolsRequest.getDefaultInstance();
        private Predicate<Tool> only = tool -> true;
        private BiFunction<ToolCall, C, ToolCall> inName = (call, context) -> call;
        private @Nullable ApprovalOptions options;
        private @Nullable PromptHandler handler;

        /**
         * Begins with all tools of a client, whose prompts others answer.
         *
         * @param client the client, which stays open when the tools are closed
         * @param name what decisions are recorded with unless the options say otherwise: the framework's name
         */
        protected Builder(ToolgateClient client, String name) {
            this.client = Objects.requireNonNull(client, "client");
            this.name = name;
        }

        /**
         * Returns the builder of the adapter.
         *
         * @return this
         */
        protected abstract B self();

        /**
         * Lists the tools for another agent or model than the client's.
         *
         * @param request for whom
         * @return this
         */
        public B list(ListToolsRequest request) {
            this.request = request;
            return self();
        }

        /**
         * Picks the tools.
         *
         * @param only whether a tool is one of them
         * @return this
         */
        public B only(Predicate<Tool> only) {
            this.only = only;
            return self();
        }

        /**
         * Says in whose name calls are made: in which session, for instance.
         *
         * @param inName changes a call by what the framework tells of its conversation
         * @return this
         */
        public B inName(BiFunction<ToolCall, C, ToolCall> inName) {
            this.inName = inName;
            return self();
        }

        /**
         * Answers the prompts of the client's calls until the tools are closed.
         *
         * @param handler decides; may wait for a person as long as it likes
         * @return this
         */
        public B prompts(PromptHandler handler) {
            return prompts(ApprovalOptions.named(name), handler);
        }

        /**
         * Answers prompts until the tools are closed.
         *
         * @param options which prompts to answer, and as whom
         * @param handler decides; may wait for a person as long as it likes
         * @return this
         */
        public B prompts(ApprovalOptions options, PromptHandler handler) {
            this.options = options;
            this.handler = handler;
            return self();
        }
    }
}
