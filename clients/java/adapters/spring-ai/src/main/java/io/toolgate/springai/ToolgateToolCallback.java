package io.toolgate.springai;

import io.toolgate.CallResult;
import io.toolgate.Tool;
import io.toolgate.ToolCall;
import io.toolgate.ToolgateClient;
import java.util.Map;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import org.springframework.ai.chat.model.ToolContext;
import org.springframework.ai.tool.ToolCallback;
import org.springframework.ai.tool.definition.ToolDefinition;
import org.springframework.ai.tool.execution.ToolExecutionException;

/**
 * One tool of the service.
 *
 * <p>A call is made on the thread that Spring AI calls on. Interrupting it cancels the call, and so does cancelling the stream
 * of a {@code ChatClient}, which interrupts it.
 */
final class ToolgateToolCallback implements ToolCallback {
    private final ToolgateClient client;
    private final ToolDefinition definition;
    private final BiFunction<ToolCall, ToolContext, ToolCall> inName;
    private final Consumer<CallResult> onResult;

    ToolgateToolCallback(
            ToolgateClient client,
            Tool tool,
            BiFunction<ToolCall, ToolContext, ToolCall> inName,
            Consumer<CallResult> onResult) {
        this.client = client;
        this.definition = ToolDefinition.builder()
                .name(tool.name())
                .description(tool.description())
                .inputSchema(tool.proto().getInputSchemaJson())
                .build();
        this.inName = inName;
        this.onResult = onResult;
    }

    @Override
    public ToolDefinition getToolDefinition() {
        return definition;
    }

    @Override
    public String call(String toolInput) {
        return call(toolInput, null);
    }

    @Override
    public String call(String toolInput, ToolContext toolContext) {
        ToolContext context = toolContext == null ? new ToolContext(Map.of()) : toolContext;
        // The text as the model wrote it: what is malformed is answered to the model.
        CallResult result = client.run(inName.apply(ToolCall.ofJson(definition.name(), toolInput), context));
        onResult.accept(result);
        if (result instanceof CallResult.Failed failed) {
            throw new ToolExecutionException(definition, new CallFailure(failed));
        }
        return result.text();
    }
}
