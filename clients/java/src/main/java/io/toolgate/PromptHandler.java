package io.toolgate;

import org.jspecify.annotations.Nullable;

/** Decides about prompts. Handlers of several prompts run at the same time. */
@FunctionalInterface
public interface PromptHandler {
    /**
     * Decides about a prompt. The thread is interrupted when the prompt has ended otherwise.
     *
     * <p>If the reply itself was wrong ({@code INVALID}, {@code DIGEST_MISMATCH}), this is called again with the prompt as it
     * stands and its {@link Prompt#problem}, five times at most; then {@link ApprovalListener#failed} is told. After {@code
     * NOT_ALLOWED}, {@code OTHER_INSTANCE} and {@code SECOND_APPROVAL_NEEDED} the prompt is left to others.
     *
     * @param prompt what is asked
     * @return the decision; null or {@link Decision#leave()} leaves the prompt to others
     * @throws Exception to leave the prompt open; {@link ApprovalListener#failed} is told
     */
    @Nullable
    Decision decide(Prompt prompt) throws Exception;
}
