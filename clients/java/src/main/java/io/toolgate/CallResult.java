package io.toolgate;

import io.toolgate.v1.Attachment;
import io.toolgate.v1.Call;
import io.toolgate.v1.CallCompleted;
import io.toolgate.v1.CallFailed;
import io.toolgate.v1.CallOutcome;
import io.toolgate.v1.FailureReason;
import io.toolgate.v1.Timing;
import io.toolgate.v1.Truncation;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import org.jspecify.annotations.Nullable;

/** How a call ended. A failed call is a result as well: its text tells the model what to do next. */
public sealed interface CallResult {
    /**
     * Returns how the call of a record ended.
     *
     * @param call the record
     * @return its result; empty while it runs
     */
    static Optional<CallResult> of(Call call) {
        return Optional.ofNullable(Typed.result(call));
    }

    /**
     * Returns the call's id.
     *
     * @return the id
     */
    String callId();

    /**
     * Returns a short text for people.
     *
     * @return the title
     */
    String title();

    /**
     * Returns the text for the model: the output, or the error.
     *
     * @return the text
     */
    String text();

    /**
     * Returns what a front end draws.
     *
     * @return the metadata; whole numbers are {@link Long}, others {@link Double}
     */
    Map<String, @Nullable Object> metadata();

    /**
     * Returns the files that belong to the result.
     *
     * @return the attachments
     */
    List<Attachment> attachments();

    /**
     * Returns what the model sees of the whole output, and where the whole is.
     *
     * @return what truncation did
     */
    Truncation truncation();

    /**
     * Returns how the call spent its time.
     *
     * @return the times
     */
    Timing timing();

    /**
     * Returns whether the call ended with a result.
     *
     * @return whether this is {@link Completed}
     */
    default boolean ok() {
        return this instanceof Completed;
    }

    /**
     * Returns the result of a call that must not fail.
     *
     * @return the result
     * @throws CallFailedException if the call failed
     */
    default Completed orElseThrow() {
        if (this instanceof Failed failed) {
            throw new CallFailedException(failed);
        }
        return (Completed) this;
    }

    /**
     * Makes the message {@code tool} of OpenAI's chat completions, which take no files there: they are named.
     *
     * @param toolCallId the id that the model gave its call
     * @return {@code {"role": "tool", "tool_call_id", "content"}}
     */
    default Map<String, Object> openai(String toolCallId) {
        return Forms.openai(this, toolCallId);
    }

    /**
     * Makes the item {@code function_call_output} of OpenAI's responses, with images and PDF files.
     *
     * @param callId the id that the model gave its call
     * @return {@code {"type": "function_call_output", "call_id", "output"}}
     */
    default Map<String, Object> openaiResponses(String callId) {
        return Forms.openaiResponses(this, callId);
    }

    /**
     * Makes the block {@code tool_result} of Anthropic's messages, with images and PDF files.
     *
     * @param toolUseId the id that the model gave its call
     * @return {@code {"type": "tool_result", "tool_use_id", "content", "is_error"}}
     */
    default Map<String, Object> anthropic(String toolUseId) {
        return Forms.anthropic(this, toolUseId);
    }

    /**
     * Makes the part {@code functionResponse} of Gemini's contents, with images and PDF files.
     *
     * @param name the function's name
     * @return {@code {"functionResponse": {"name", "response", "parts"}}}
     */
    default Map<String, Object> gemini(String name) {
        return gemini(name, "");
    }

    /**
     * Makes the part {@code functionResponse} of Gemini's contents, with images and PDF files.
     *
     * @param name the function's name
     * @param callId the id that the model gave its call, or empty
     * @return {@code {"functionResponse": {"name", "response", "id", "parts"}}}
     */
    default Map<String, Object> gemini(String name, String callId) {
        return Forms.gemini(this, name, callId);
    }

    /**
     * The call has a result.
     *
     * @param callId the call
     * @param proto the message
     */
    record Completed(String callId, CallCompleted proto) implements CallResult {
        /**
         * Returns the text for the model.
         *
         * @return the output
         */
        public String output() {
            return proto.getOutput();
        }

        /**
         * Returns how the result is to be read: a command may have ended with another exit code than 0, for instance.
         *
         * @return the word for it
         */
        public CallOutcome outcome() {
            return proto.getOutcome();
        }

        /**
         * Returns the exit code of the command that the call ran.
         *
         * @return the code; empty if it ran none, or if a signal ended it
         */
        public OptionalInt exitCode() {
            return proto.getCommand().hasExitCode()
                    ? OptionalInt.of(proto.getCommand().getExitCode())
                    : OptionalInt.empty();
        }

        @Override
        public String title() {
            return proto.getTitle();
        }

        @Override
        public String text() {
            return output();
        }

        @Override
        public Map<String, @Nullable Object> metadata() {
            return Protos.map(proto.getMetadata());
        }

        @Override
        public List<Attachment> attachments() {
            return proto.getAttachmentsList();
        }

        @Override
        public Truncation truncation() {
            return proto.getTruncation();
        }

        @Override
        public Timing timing() {
            return proto.getTiming();
        }
    }

    /**
     * The call has no result; what it reached is kept. So does a call of which the service could not understand the name of
     * the tool or the JSON: its record completes with a text for the model, but nothing ran.
     *
     * @param callId the call
     * @param proto the message; of a call that was not understood it says the same with
     *     {@code FAILURE_REASON_INVALID_ARGUMENTS}
     */
    record Failed(String callId, CallFailed proto) implements CallResult {
        /** Makes the failure of a call that was not understood. */
        static Failed invalid(String callId, CallCompleted end) {
            CallFailed.Builder failed = CallFailed.newBuilder()
                    .setReason(FailureReason.FAILURE_REASON_INVALID_ARGUMENTS)
                    .setError(end.getOutput())
                    .setTitle(end.getTitle())
                    .setMetadata(end.getMetadata())
                    .addAllAttachments(end.getAttachmentsList())
                    .setTruncation(end.getTruncation())
                    .setTiming(end.getTiming());
            return new Failed(callId, failed.build());
        }

        /**
         * Returns why, for programs.
         *
         * @return the reason
         */
        public FailureReason reason() {
            return proto.getReason();
        }

        /**
         * Returns why, for the model.
         *
         * @return the error
         */
        public String error() {
            return proto.getError();
        }

        @Override
        public String title() {
            return proto.getTitle();
        }

        @Override
        public String text() {
            return error();
        }

        @Override
        public Map<String, @Nullable Object> metadata() {
            return Protos.map(proto.getMetadata());
        }

        @Override
        public List<Attachment> attachments() {
            return proto.getAttachmentsList();
        }

        @Override
        public Truncation truncation() {
            return proto.getTruncation();
        }

        @Override
        public Timing timing() {
            return proto.getTiming();
        }
    }
}
