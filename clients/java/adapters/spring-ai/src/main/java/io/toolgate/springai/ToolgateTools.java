package io.toolgate.springai;

import io.toolgate.ApprovalOptions;
import io.toolgate.Approvals;
import io.toolgate.CallResult;
import io.toolgate.PromptHandler;
import io.toolgate.Tool;
import io.toolgate.ToolCall;
import io.toolgate.ToolgateClient;
import io.toolgate.v1.Attachment;
import io.toolgate.v1.ListToolsRequest;
import java.net.URI;
import java.util.List;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.springframework.ai.chat.model.ToolContext;
import org.springframework.ai.content.Media;
import org.springframework.ai.tool.ToolCallback;
import org.springframework.ai.tool.ToolCallbackProvider;
import org.springframework.util.MimeType;

/**
 * The tools of a service, for {@code ChatClient.Builder.defaultToolCallbacks} and everything else that takes a {@link
 * ToolCallbackProvider}.
 *
 * <p>Spring AI knows no questions to a person, so a call waits in its thread while a {@linkplain Builder#prompts handler}
 * decides, or somebody else does. Nothing is decided here. A failed call is a {@code ToolExecutionException}, whose message
 * Spring AI gives the model. That the service cannot be reached, or that the thread was interrupted, is a {@link
 * io.toolgate.ToolgateException}, which ends the conversation.
 */
public final class ToolgateTools implements ToolCallbackProvider, AutoCloseable {
    private final ToolgateClient client;
    private final ListToolsRequest request;
    private final Predicate<Tool> only;
    private final BiFunction<ToolCall, ToolContext, ToolCall> inName;
    private final Consumer<CallResult> onResult;
    /** Null if others answer prompts. */
    private final Approvals approvals;

    private ToolgateTools(Builder builder) {
        this.client = builder.client;
        this.request = builder.request;
        this.only = builder.only;
        this.inName = builder.inName;
        this.onResult = builder.onResult;
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

    /** Lists the tools as they are now. */
    @Override
    public ToolCallback[] getToolCallbacks() {
        return client.tools(request).stream()
                .filter(only)
                .map(tool -> new ToolgateToolCallback(client, tool, inName, onResult))
                .toArray(ToolCallback[]::new);
    }

    /**
     * Returns the pictures and other files of a result, for the next message of the user: the answer of a tool is a text in
     * Spring AI.
     *
     * @param result what {@link Builder#onResult} was told
     * @return the files; empty if there are none
     */
    public static List<Media> media(CallResult result) {
        return result.attachments().stream().map(ToolgateTools::media).toList();
    }

    private static Media media(Attachment attachment) {
        Media.Builder media = Media.builder().mimeType(MimeType.valueOf(attachment.getMime()));
        if (!attachment.getFilename().isEmpty()) {
            media.name(attachment.getFilename());
        }
        return attachment.hasUrl()
                ? media.data(URI.create(attachment.getUrl())).build()
                : media.data(attachment.getData().toByteArray()).build();
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
        private BiFunction<ToolCall, ToolContext, ToolCall> inName = (call, context) -> call;
        private Consumer<CallResult> onResult = result -> {};
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
         * @param inName changes a call by the tool context of its conversation
         * @return this
         */
        public Builder inName(BiFunction<ToolCall, ToolContext, ToolCall> inName) {
            this.inName = inName;
            return this;
        }

        /**
         * Is told of each result, on the thread of its call, before the model is.
         *
         * @param onResult the listener
         * @return this
         */
        public Builder onResult(Consumer<CallResult> onResult) {
            this.onResult = onResult;
            return this;
        }

        /**
         * Answers the prompts of the client's calls until the tools are closed.
         *
         * @param handler decides; may wait for a person as long as it likes
         * @return this
         */
        public Builder prompts(PromptHandler handler) {
            return prompts(ApprovalOptions.named("spring-ai"), handler);
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
