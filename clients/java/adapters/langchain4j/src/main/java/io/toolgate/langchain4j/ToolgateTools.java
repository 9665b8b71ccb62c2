package io.toolgate.langchain4j;

import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.invocation.InvocationContext;
import dev.langchain4j.service.tool.ToolProvider;
import dev.langchain4j.service.tool.ToolProviderRequest;
import dev.langchain4j.service.tool.ToolProviderResult;
import io.toolgate.Tool;
import io.toolgate.ToolgateClient;
import io.toolgate.adapters.FrameworkTools;

/**
 * The tools of a service, for {@code AiServices.builder(…).toolProvider(tools)}. They are listed anew for each message of
 * the user.
 *
 * <p>LangChain4j knows no questions to a person within a tool, so a call waits in its thread while a {@linkplain
 * io.toolgate.adapters.FrameworkTools.Builder#prompts handler} decides, or somebody else does. A failed call is a result
 * that is an error, with the text for the model.
 */
public final class ToolgateTools extends FrameworkTools<InvocationContext> implements ToolProvider {
    private final ToolgateExecutor executor;

    private ToolgateTools(Builder builder) {
        super(builder);
        this.executor = new ToolgateExecutor(
                (request, context) -> run(request.name(), request.arguments(), context), builder.files);
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
        list().forEach(tool -> result.add(specification(tool), executor));
        return result.build();
    }

    private static ToolSpecification specification(Tool tool) {
        return ToolSpecification.builder()
                .name(tool.name())
                .description(tool.description())
                .parameters(Schemas.of(tool.inputSchema()))
                .build();
    }

    /** Says which tools there are, in whose name they are called, and who answers their prompts. */
    public static final class Builder extends FrameworkTools.Builder<InvocationContext, Builder> {
        private boolean files;

        private Builder(ToolgateClient client) {
            super(client, "langchain4j");
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
