package io.toolgate.driver;

import io.grpc.Status;
import io.toolgate.ToolgateClient;
import io.toolgate.ToolgateException;
import java.nio.file.Path;
import java.util.Map;

/** Saves an output to a file. */
final class Saving implements Driver.Running {
    private final Command command;
    private final ToolgateClient client;
    private volatile Thread thread;
    private volatile boolean stopped;

    Saving(Command command, ToolgateClient client) {
        this.command = command;
        this.client = client;
    }

    @Override
    public void perform() throws Exception {
        thread = Thread.currentThread();
        if (stopped) {
            thread.interrupt();
        }
        try {
            long bytes = client.output(command.text("output"))
                    .saveTo(
                            Path.of(command.text("path")),
                            (saved, total) -> command.report("progress", Map.of("bytes", saved, "total", total)));
            command.done(Map.of("bytes", bytes));
        } catch (ToolgateException failure) {
            if (!stopped || failure.code() != Status.Code.CANCELLED) {
                throw failure;
            }
            command.done();
        } finally {
            // The thread goes back to the pool.
            Thread.interrupted();
        }
    }

    @Override
    public void stop() {
        stopped = true;
        if (thread != null) {
            thread.interrupt();
        }
    }
}
