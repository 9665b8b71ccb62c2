package io.toolgate.springai;

import io.toolgate.CallResult;
import io.toolgate.ToolgateClient;
import io.toolgate.adapters.FrameworkTools;
import io.toolgate.v1.Attachment;
import java.net.URI;
import java.util.List;
import java.util.function.Consumer;
import org.springframework.ai.chat.model.ToolContext;
import org.springframework.ai.content.Media;
import org.springframework.ai.tool.ToolCallback;
import org.springframework.ai.tool.ToolCallbackProvider;
import org.springframework.util.MimeType;

/**
 * The tools of a service, for {@code ChatClient.Builder.defaultToolCallbacks} and everything else that takes a {@link
 * ToolCallbackProvider}.
 *
 * <p>Spring AI knows no questions to a person, so a call waits in its thread while a {@linkplain
 * io.toolgate.adapters.FrameworkTools.Builder#prompts handler} decides, or somebody else does. Cancelling the stream of a
 * {@code ChatClient} interrupts the thread, and so cancels the call. A failed call is a {@code ToolExecutionException}, whose
 * message Spring AI gives the model. That the service cannot be reached, or that the thread was interrupted, is a {@link
 * io.toolgate.ToolgateException}, which ends the conversation.
 */
public final class ToolgateTools extends FrameworkTools<ToolContext> implements ToolCallbackProvider {
    private final Consumer<CallResult> onResult;

    private ToolgateTools(Builder builder) {
        super(builder);
        this.onResult = builder.onResult;
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
        return list().stream()
                .map(tool -> new ToolgateToolCallback(tool, this::run, onResult))
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

    /** Says which tools there are, in whose name they are called, and who answers their prompts. */
    public static final class Builder extends FrameworkTools.Builder<ToolContext, Builder> {
        private Consumer<CallResult> onResult = result -> {};

        private Builder(ToolgateClient client) {
            super(client, "spring-ai");
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

        @Override
        protected Builder self() {
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
