package io.toolgate;

import com.google.protobuf.ByteString;
import io.toolgate.v1.ListeningPort;
import io.toolgate.v1.PromptResolution;
import io.toolgate.v1.PromptState;
import io.toolgate.v1.WarningKind;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * One event in the life of a call.
 *
 * <p>The last one is {@link Completed} or {@link Failed}. Heartbeats are not events: the library uses them up.
 */
public sealed interface CallEvent {
    /**
     * Returns the event as the contract has it.
     *
     * @return the message
     */
    io.toolgate.v1.CallEvent proto();

    /**
     * Returns the call's id.
     *
     * @return the id
     */
    default String callId() {
        return proto().getCallId();
    }

    /**
     * Returns the event's number in the call's log, from 1 without gaps.
     *
     * @return the number; of a {@link Gap} that of the last event it stands for
     */
    default long sequence() {
        return proto().getSequence();
    }

    /**
     * Returns when it happened.
     *
     * @return the time, by the service's clock
     */
    default Instant time() {
        return Protos.instant(proto().getEventTime());
    }

    /**
     * The call is admitted and recorded.
     *
     * @param proto the message
     */
    record Pending(io.toolgate.v1.CallEvent proto) implements CallEvent {
        /**
         * Returns the tool that will run.
         *
         * @return its name
         */
        public String tool() {
            return proto.getPending().getTool();
        }

        /**
         * Returns the name that was asked for.
         *
         * @return the name as the model wrote it
         */
        public String requestedTool() {
            return proto.getPending().getRequestedTool();
        }

        /**
         * Returns a first title, made from the input.
         *
         * @return the title
         */
        public String title() {
            return proto.getPending().getTitle();
        }

        /**
         * Returns what the call touches: a command, a path, a URL, a pattern.
         *
         * @return one line
         */
        public String summary() {
            return proto.getPending().getSummary();
        }
    }

    /**
     * The tool starts.
     *
     * @param proto the message
     */
    record Running(io.toolgate.v1.CallEvent proto) implements CallEvent {
        /**
         * Returns the input that nothing changes any more.
         *
         * @return canonical JSON
         */
        public String inputJson() {
            return proto.getRunning().getInputJson();
        }

        /**
         * Returns the SHA-256 of the input.
         *
         * @return 64 hexadecimal digits
         */
        public String inputDigest() {
            return proto.getRunning().getInputDigest();
        }

        /**
         * Returns the title so far.
         *
         * @return the title, possibly empty
         */
        public String title() {
            return proto.getRunning().getTitle();
        }
    }

    /**
     * Title or metadata changed.
     *
     * @param proto the message
     */
    record Metadata(io.toolgate.v1.CallEvent proto) implements CallEvent {
        /**
         * Returns the new title.
         *
         * @return the title, if it changed
         */
        public Optional<String> title() {
            return proto.getMetadata().hasTitle()
                    ? Optional.of(proto.getMetadata().getTitle())
                    : Optional.empty();
        }

        /**
         * Returns what changed: an absent key stays, null clears one.
         *
         * @return the patch
         */
        public Map<String, @Nullable Object> patch() {
            return Protos.map(proto.getMetadata().getMetadata());
        }
    }

    /**
     * The tool produced output.
     *
     * @param proto the message
     */
    record Output(io.toolgate.v1.CallEvent proto) implements CallEvent {
        /**
         * Returns the stored output that the bytes belong to.
         *
         * @return its id, for {@link ToolgateClient#output(String)}
         */
        public String outputId() {
            return proto.getOutput().getOutputId();
        }

        /**
         * Returns where in the output the first byte is.
         *
         * @return the absolute offset
         */
        public long offset() {
            return proto.getOutput().getOffset();
        }

        /**
         * Returns the bytes as the tool wrote them.
         *
         * @return at most 64 KiB
         */
        public ByteString data() {
            return proto.getOutput().getData();
        }

        /**
         * Returns the bytes as text.
         *
         * @return the text; what is not UTF-8 is replaced
         */
        public String text() {
            return data().toStringUtf8();
        }
    }

    /**
     * The call waits for a person.
     *
     * @param proto the message
     */
    record Waiting(io.toolgate.v1.CallEvent proto) implements CallEvent {
        /**
         * Returns what is asked.
         *
         * @return the prompt
         */
        public Prompt prompt() {
            return Prompt.of(proto.getWaiting().getPrompt());
        }

        /**
         * Returns how many approvers could see the prompt when it was asked.
         *
         * @return their number
         */
        public int approvers() {
            return proto.getWaiting().getApprovers();
        }
    }

    /**
     * The wait is over.
     *
     * @param proto the message
     */
    record Resumed(io.toolgate.v1.CallEvent proto) implements CallEvent {
        /**
         * Returns which prompt ended.
         *
         * @return its id
         */
        public String promptId() {
            return proto.getResumed().getPromptId();
        }

        /**
         * Returns the state that the prompt ended in.
         *
         * @return the state
         */
        public PromptState state() {
            return proto.getResumed().getState();
        }

        /**
         * Returns how the prompt was settled.
         *
         * @return the resolution
         */
        public PromptResolution resolution() {
            return proto.getResumed().getResolution();
        }
    }

    /**
     * Something that a person should know.
     *
     * @param proto the message
     */
    record Warning(io.toolgate.v1.CallEvent proto) implements CallEvent {
        /**
         * Returns what the warning is about.
         *
         * @return the word for it
         */
        public WarningKind kind() {
            return proto.getWarning().getKind();
        }

        /**
         * Returns the warning.
         *
         * @return a sentence
         */
        public String text() {
            return proto.getWarning().getText();
        }
    }

    /**
     * The call made another one, which is watched under its own id.
     *
     * @param proto the message
     */
    record Child(io.toolgate.v1.CallEvent proto) implements CallEvent {
        /**
         * Returns the other call.
         *
         * @return its id, for {@link ToolgateClient#watch(String)}
         */
        public String childCallId() {
            return proto.getChild().getCallId();
        }

        /**
         * Returns the other call's tool.
         *
         * @return its name
         */
        public String tool() {
            return proto.getChild().getTool();
        }
    }

    /**
     * A program of the call began or ceased to listen on a port.
     *
     * @param proto the message
     */
    record Listening(io.toolgate.v1.CallEvent proto) implements CallEvent {
        /**
         * Returns all that the call's programs listen on now.
         *
         * @return the ports, for {@link ToolgateClient#openPort(String, int)}; none any more if empty
         */
        public List<ListeningPort> ports() {
            return proto.getListening().getPortsList();
        }
    }

    /**
     * Events that this stream leaves out.
     *
     * @param proto the message
     */
    record Gap(io.toolgate.v1.CallEvent proto) implements CallEvent {
        /**
         * Returns the first event left out.
         *
         * @return its number
         */
        public long firstSequence() {
            return proto.getGap().getFirstSequence();
        }

        /**
         * Returns the last event left out.
         *
         * @return its number
         */
        public long lastSequence() {
            return proto.getGap().getLastSequence();
        }

        /**
         * Returns how much output was left out.
         *
         * @return the number of bytes
         */
        public long outputBytes() {
            return proto.getGap().getOutputBytes();
        }
    }

    /**
     * The call ended with a result.
     *
     * @param proto the message
     */
    record Completed(io.toolgate.v1.CallEvent proto) implements CallEvent {
        /**
         * Returns the result.
         *
         * @return what {@link Execution#result()} returns as well
         */
        public CallResult.Completed result() {
            return new CallResult.Completed(proto.getCallId(), proto.getCompleted());
        }
    }

    /**
     * The call ended without a result.
     *
     * @param proto the message
     */
    record Failed(io.toolgate.v1.CallEvent proto) implements CallEvent {
        /**
         * Returns the failure.
         *
         * @return what {@link Execution#result()} returns as well
         */
        public CallResult.Failed result() {
            return proto.hasCompleted()
                    ? CallResult.Failed.invalid(proto.getCallId(), proto.getCompleted())
                    : new CallResult.Failed(proto.getCallId(), proto.getFailed());
        }
    }
}
