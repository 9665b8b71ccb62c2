package io.toolgate;

import io.toolgate.v1.CallCompleted;
import io.toolgate.v1.CallOutcome;
import org.jspecify.annotations.Nullable;

/** Makes typed views of messages. */
final class Typed {
    private Typed() {}

    /** Makes the typed event of a message; null for what is none: heartbeats, and kinds of a later version. */
    static @Nullable CallEvent event(io.toolgate.v1.CallEvent proto) {
        return switch (proto.getEventCase()) {
            case PENDING -> new CallEvent.Pending(proto);
            case RUNNING -> new CallEvent.Running(proto);
            case METADATA -> new CallEvent.Metadata(proto);
            case OUTPUT -> new CallEvent.Output(proto);
            case WAITING -> new CallEvent.Waiting(proto);
            case RESUMED -> new CallEvent.Resumed(proto);
            case WARNING -> new CallEvent.Warning(proto);
            case CHILD -> new CallEvent.Child(proto);
            case LISTENING -> new CallEvent.Listening(proto);
            case GAP -> new CallEvent.Gap(proto);
            case COMPLETED ->
                isInvalid(proto.getCompleted()) ? new CallEvent.Failed(proto) : new CallEvent.Completed(proto);
            case FAILED -> new CallEvent.Failed(proto);
            case HEARTBEAT, EVENT_NOT_SET -> null;
        };
    }
    /** Says whether a call was not understood, so that its result is none to programs. */
    static boolean isInvalid(CallCompleted completed) {
        return completed.getOutcome() == CallOutcome.CALL_OUTCOME_INVALID;
    }

    /** Makes the result of a terminal event; null for others. */
    static @Nullable CallResult result(CallEvent event) {
        if (event instanceof CallEvent.Completed completed) {
            return completed.result();
        }
        return event instanceof CallEvent.Failed failed ? failed.result() : null;
    }

    /** Makes the result of a record; null while the call runs. */
    static @Nullable CallResult result(io.toolgate.v1.Call call) {
        return switch (call.getEndingCase()) {
            case COMPLETED ->
                isInvalid(call.getCompleted())
                        ? CallResult.Failed.invalid(call.getCallId(), call.getCompleted())
                        : new CallResult.Completed(call.getCallId(), call.getCompleted());
            case FAILED -> new CallResult.Failed(call.getCallId(), call.getFailed());
            case ENDING_NOT_SET -> null;
        };
    }
}
