package io.toolgate;

/** A call ended without a result; thrown only by {@link CallResult#orElseThrow()}. */
public final class CallFailedException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final transient CallResult.Failed result;

    CallFailedException(CallResult.Failed result) {
        super(result.reason() + ": " + result.error());
        this.result = result;
    }

    /**
     * Returns how the call ended.
     *
     * @return the failure
     */
    public CallResult.Failed result() {
        return result;
    }
}
