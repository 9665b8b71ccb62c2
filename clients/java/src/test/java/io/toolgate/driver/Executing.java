package io.toolgate.driver;

import io.toolgate.CallEvent;
import io.toolgate.CallResult;
import io.toolgate.Execution;
import io.toolgate.ToolCall;
import io.toolgate.ToolgateClient;
import io.toolgate.v1.Call;
import io.toolgate.v1.ExecuteToolRequest;
import java.util.Map;

/** Executes a tool, and tells its events and its result. */
final class Executing implements Driver.Running {
    private final Command command;
    private final Execution execution;
    private volatile Thread reader;

    Executing(Command command, ToolgateClient client) {
        this.command = command;
        this.execution = client.execute(ToolCall.of(command.message("request", ExecuteToolRequest.parser())));
    }

    @Override
    public void perform() {
        reader = Thread.currentThread();
        CallEvent last = null;
        for (CallEvent event : execution) {
            command.report("event", Command.encoded(event.proto()));
            last = event;
        }
        CallResult result = execution.result();
        command.done(Map.of("call", Command.encoded(record(result, last)), "ok", result.ok()));
    }

    private static Call record(CallResult result, CallEvent last) {
        Call.Builder call = Call.newBuilder().setCallId(result.callId());
        if (last != null && last.proto().hasCompleted()) {
            // As the service sent it: of a call that was not understood the library makes a failure.
            call.setCompleted(last.proto().getCompleted());
        } else if (result instanceof CallResult.Completed completed) {
            call.setCompleted(completed.proto());
        } else if (result instanceof CallResult.Failed failed) {
            call.setFailed(failed.proto());
        }
        return call.build();
    }

    void cancel() {
        execution.cancel();
    }

    /** Cancels in the way of the language. */
    void interrupt() {
        Thread thread = reader;
        if (thread != null) {
            thread.interrupt();
        }
    }

    @Override
    public void stop() {
        execution.close();
    }
}
