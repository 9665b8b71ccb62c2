package io.toolgate;

/** Decides about prompts. Handlers of several prompts run at the same time. */
@FunctionalInterface
public interface PromptHandler {
    /**
     * Decides about a prompt. The thread is interrupted when the prompt has ended otherwise.
     *
     * @param prompt what is asked
     * @return the decision; null or {@link Decision#leave()} leaves the prompt to others
     * @throws Exception to leave the prompt open; {@link ApprovalListener#failed} is told
     */
    Decision decide(Prompt prompt) throws Exception;
}
