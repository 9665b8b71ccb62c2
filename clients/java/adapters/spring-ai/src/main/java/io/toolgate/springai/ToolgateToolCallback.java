package io.toolgate.springai;

import io.toolgate.CallResult;
import io.toolgate.Tool;
import java.util.Map;
import java.util.function.Consumer;
import org.springframework.ai.chat.model.ToolContext;
import org.springframework.ai.tool.ToolCallback;
import org.springframework.ai.tool.definition.ToolDefinition;
import org.springframework.ai.tool.execution.ToolExecutionException;

/** One tool of the service. */
final class ToolgateToolCallback implements ToolCallback {
    /** Makes a call of a tool. */
    @FunctionalInterface
    interface Run {
        /** Waits for its end. */
        CallResult run(String tool, String arguments, ToolContext context);
    }

    private final ToolDefinition definition;
    private final Run run;
    private final Consumer<CallResult> onResult;

    ToolgateToolCallback(Tool tool, Run run, Consumer<CallResult> onResult) {
        this.definition = ToolDefinition.builder()
                .name(tool.name())
                .description(tool.description())
                .inputSchema(tool.proto().getInputSchemaJson())
                .build();
        this.run = run;
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
        CallResult result = run.run(definition.name(), toolInput, context);
        onResult.accept(result);
        if (result instanceof CallResult.Failed failed) {
            throw new ToolExecutionException(definition, new CallFailure(failed));
        }
        return result.text();
    }
}
