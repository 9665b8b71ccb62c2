package io.toolgate;

/**
 * What a lent tool does.
 *
 * @param <I> the type of its input
 * @param <O> {@link ToolOutput}, or {@link String} for text alone
 */
@FunctionalInterface
public interface ToolFunction<I, O> {
    /**
     * Runs the tool. The thread is interrupted when the call is cancelled.
     *
     * @param input the input, valid by the tool's schema and approved
     * @param invocation the call that this is for
     * @return the result
     * @throws Exception to fail: its message is the text for the model, so let it say what to do next
     */
    O run(I input, Invocation invocation) throws Exception;
}
