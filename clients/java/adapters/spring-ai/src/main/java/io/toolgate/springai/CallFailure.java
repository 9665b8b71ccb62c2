package io.toolgate.springai;

import io.toolgate.CallResult;

/**
 * Why a tool call has no result, as the cause of Spring AI's {@code ToolExecutionException}. Its message is the text for the
 * model, and nothing else: Spring AI gives the model the message.
 */
public final class CallFailure extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final transient CallResult.Failed result;

    CallFailure(CallResult.Failed result) {
        super(result.error());
        this.result = result;
    }

    /**
     * Returns how the call ended, with the reason for programs.
     *
     * @return the failure
     */
    public CallResult.Failed result() {
        return result;
    }
}
