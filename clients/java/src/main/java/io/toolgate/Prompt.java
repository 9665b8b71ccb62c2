package io.toolgate;

import java.time.Instant;
import java.util.Optional;

/** A question to a person that a call waits on: for a permission, or questions of the model. */
public sealed interface Prompt permits PermissionPrompt, QuestionPrompt {
    /**
     * Returns the prompt as the contract has it.
     *
     * @return the message
     */
    io.toolgate.v1.Prompt proto();

    /**
     * Makes the typed prompt of a message.
     *
     * @param proto the message
     * @return the prompt
     */
    static Prompt of(io.toolgate.v1.Prompt proto) {
        return of(proto, Optional.empty());
    }

    /**
     * Makes the typed prompt of a message.
     *
     * @param proto the message
     * @param problem why its handler is asked again
     * @return the prompt
     */
    static Prompt of(io.toolgate.v1.Prompt proto, Optional<String> problem) {
        return proto.hasQuestions() ? new QuestionPrompt(proto, problem) : new PermissionPrompt(proto, problem);
    }

    /**
     * Returns why a handler is asked again: its last reply was not taken.
     *
     * @return a sentence; empty the first time
     */
    Optional<String> problem();

    /**
     * Returns the prompt's id.
     *
     * @return the id
     */
    default String id() {
        return proto().getPromptId();
    }

    /**
     * Returns the call that waits.
     *
     * @return its id
     */
    default String callId() {
        return proto().getCallId();
    }

    /**
     * Returns the call's session.
     *
     * @return its id
     */
    default String sessionId() {
        return proto().getSessionId();
    }

    /**
     * Returns the call's workspace.
     *
     * @return its name
     */
    default String workspace() {
        return proto().getWorkspace();
    }

    /**
     * Returns the call's agent.
     *
     * @return its name
     */
    default String agent() {
        return proto().getAgent();
    }

    /**
     * Returns the call's tool.
     *
     * @return its name
     */
    default String tool() {
        return proto().getTool();
    }

    /**
     * Returns who made the call.
     *
     * @return the principal; empty without authentication
     */
    default String requester() {
        return proto().getRequester();
    }

    /**
     * Returns the digest of the input that would run. The library cites it with each reply.
     *
     * @return SHA-256, 64 hexadecimal digits
     */
    default String inputDigest() {
        return proto().getInputDigest();
    }

    /**
     * Returns when the prompt ends by itself.
     *
     * @return the time, unless it waits for ever
     */
    default Optional<Instant> expireTime() {
        return proto().hasExpireTime() ? Optional.of(Protos.instant(proto().getExpireTime())) : Optional.empty();
    }
}
