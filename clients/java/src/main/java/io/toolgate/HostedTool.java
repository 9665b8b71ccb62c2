package io.toolgate;

import io.toolgate.v1.LentTool;
import io.toolgate.v1.ToolEffect;
import java.util.List;

/** A function that is lent to the service as a tool. */
public final class HostedTool {
    private final LentTool definition;
    private final ToolFunction<String, ToolOutput> function;

    private HostedTool(LentTool definition, ToolFunction<String, ToolOutput> function) {
        this.definition = definition;
        this.function = function;
    }

    /**
     * Makes a tool of a function with a result.
     *
     * @param name the tool's name: 1 to 64 letters, digits, {@code _} and {@code -}
     * @param description the text for the model
     * @param input a record or a bean, whose properties are the arguments: see {@link Description} and {@link Default}
     * @param function what the tool does
     * @param <I> the type of its input
     * @return the tool
     */
    public static <I> HostedTool of(
            String name, String description, Class<I> input, ToolFunction<I, ToolOutput> function) {
        InputSchema<I> schema = InputSchema.of(input);
        LentTool definition = LentTool.newBuilder()
                .setName(name)
                .setDescription(description)
                .setInputSchemaJson(schema.json())
                .build();
        return new HostedTool(definition, (json, invocation) -> function.run(schema.parse(json), invocation));
    }

    /**
     * Makes a tool of a function that returns text.
     *
     * @param name the tool's name
     * @param description the text for the model
     * @param input a record or a bean
     * @param function what the tool does
     * @param <I> the type of its input
     * @return the tool
     */
    public static <I> HostedTool text(
            String name, String description, Class<I> input, ToolFunction<I, String> function) {
        return of(name, description, input, (value, invocation) -> ToolOutput.text(function.run(value, invocation)));
    }

    /**
     * Makes a tool with a schema of its own.
     *
     * @param definition the tool as the contract has it
     * @param function gets the input as canonical JSON
     * @return the tool
     */
    public static HostedTool json(LentTool definition, ToolFunction<String, ToolOutput> function) {
        return new HostedTool(definition, function);
    }

    /**
     * Says what the tool may do to the world, for front ends that mark tools by it.
     *
     * @param effects the effects
     * @return the tool
     */
    public HostedTool effects(ToolEffect... effects) {
        LentTool marked = definition.toBuilder()
                .clearEffects()
                .addAllEffects(List.of(effects))
                .build();
        return new HostedTool(marked, function);
    }

    /**
     * Returns the tool as the contract has it.
     *
     * @return the message
     */
    public LentTool definition() {
        return definition;
    }

    ToolOutput run(String inputJson, Invocation invocation) throws Exception {
        return function.run(inputJson, invocation);
    }
}
