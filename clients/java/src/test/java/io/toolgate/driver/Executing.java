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

    Executing(Command command, ToolgateClient client) {
        this.command = command;
        this.execution = client.execute(ToolCall.of(command.message("request", ExecuteToolRequest.parser())));
    }

    @Override
    public void perform() {
        for (CallEvent event : execution) {
            command.report("event", Command.encoded(event.proto()));
        }
        command.done(Map.of("call", Command.encoded(record(execution.result()))));
    }

    private static Call record(CallResult result) {
        Call.Builder call = Call.newBuilder().setCallId(result.callId());
        if (result instanceof CallResult.Completed completed) {
            call.setCompleted(completed.proto());
        } else if (result instanceof CallResult.Failed failed) {
            call.setFailed(failed.proto());
        }
        return call.build();
    }

    void cancel() {
        execution.cancel();
    }

    @Override
    public void stop() {
        execution.close();
    }
}
