package io.toolgate;

import io.toolgate.v1.PromptReplyResult;
import io.toolgate.v1.ReplyResult;

/** Is told what becomes of prompts and replies. Unless overridden, its methods log what a person should know. */
public interface ApprovalListener {
    /** The prompts that were open are known. Called again after each reconnection. */
    default void ready() {}

    /**
     * A prompt has ended otherwise while its handler was still deciding.
     *
     * @param prompt the prompt
     */
    default void gone(Prompt prompt) {}

    /**
     * A reply has been heard.
     *
     * @param prompt the prompt that was replied to
     * @param result what became of the reply
     */
    default void replied(Prompt prompt, PromptReplyResult result) {
        if (result.getResult() != ReplyResult.REPLY_RESULT_ACCEPTED) {
            Log.LOG.log(
                    System.Logger.Level.WARNING,
                    "the reply to {0} was not accepted: {1} {2}",
                    prompt.id(),
                    result.getResult(),
                    result.getMessage());
        }
    }

    /**
     * A handler has failed, or its replies were not taken time after time, and its prompt stays open.
     *
     * @param prompt the prompt
     * @param failure what the handler threw, or a {@link ToolgateException} that says what was wrong with its last reply
     */
    default void failed(Prompt prompt, Exception failure) {
        Log.LOG.log(System.Logger.Level.WARNING, "the handler of " + prompt.id() + " failed", failure);
    }

    /**
     * The connection is lost and will be made again.
     *
     * @param failure how it was lost
     */
    default void lost(ToolgateException failure) {
        Log.LOG.log(System.Logger.Level.INFO, "connecting again: {0}", failure.getMessage());
    }
}
