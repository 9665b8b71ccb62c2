package io.toolgate;

import io.toolgate.v1.PermissionPart;
import io.toolgate.v1.Question;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/** A question to a person that a call waits on. */
public sealed interface Prompt {
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
        return proto.hasQuestions() ? new Questions(proto, problem) : new Permission(proto, problem);
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

    /**
     * A tool needs a permission.
     *
     * @param proto the message
     * @param problem why its handler is asked again
     */
    record Permission(io.toolgate.v1.Prompt proto, Optional<String> problem) implements Prompt {
        /**
         * Makes the prompt that a handler is asked about for the first time.
         *
         * @param proto the message
         */
        public Permission(io.toolgate.v1.Prompt proto) {
            this(proto, Optional.empty());
        }

        /**
         * Returns the permission's name, such as {@code bash} or {@code edit}.
         *
         * @return the name
         */
        public String permission() {
            return proto.getPermission().getPermission();
        }

        /**
         * Returns what the tool is about to touch.
         *
         * @return the patterns
         */
        public List<String> patterns() {
            return proto.getPermission().getPatternsList();
        }

        /**
         * Returns what {@link Decision#always()} would allow from now on.
         *
         * @return the patterns
         */
        public List<String> alwaysPatterns() {
            return proto.getPermission().getAlwaysList();
        }

        /**
         * Returns a short line for the person.
         *
         * @return the title
         */
        public String title() {
            return proto.getPermission().getTitle();
        }

        /**
         * Returns what the person should see, such as the command of a shell call.
         *
         * @return the metadata
         */
        public Map<String, Object> metadata() {
            return Protos.map(proto.getPermission().getMetadata());
        }

        /**
         * Returns the change that an edit would make.
         *
         * @return a unified diff, if the prompt has one
         */
        public Optional<String> diff() {
            return Optional.ofNullable(metadata().get("diff"))
                    .filter(String.class::isInstance)
                    .map(String.class::cast);
        }

        /**
         * Returns what a compound request consists of, such as the commands of a shell line.
         *
         * @return the parts, possibly none
         */
        public List<PermissionPart> parts() {
            return proto.getPermission().getPartsList();
        }

        /**
         * Returns whether the reply may be {@link Decision#instead(Object)}.
         *
         * @return whether the input can be replaced
         */
        public boolean editable() {
            return proto.getEditable();
        }

        /**
         * Returns the input that would run.
         *
         * @return canonical JSON if the prompt is editable, else an empty text
         */
        public String inputJson() {
            return proto.getInputJson();
        }
    }

    /**
     * A tool asks questions.
     *
     * @param proto the message
     * @param problem why its handler is asked again
     */
    record Questions(io.toolgate.v1.Prompt proto, Optional<String> problem) implements Prompt {
        /**
         * Makes the prompt that a handler is asked about for the first time.
         *
         * @param proto the message
         */
        public Questions(io.toolgate.v1.Prompt proto) {
            this(proto, Optional.empty());
        }

        /**
         * Returns the questions.
         *
         * @return them in the order in which they are answered
         */
        public List<Question> questions() {
            return proto.getQuestions().getQuestionsList();
        }
    }
}
