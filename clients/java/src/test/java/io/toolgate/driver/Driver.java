package io.toolgate.driver;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.toolgate.ToolgateException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;

/** Does what the tests of the repository tell it, through the library's public functions: see clients/DRIVER.md. */
public final class Driver {
    private static final JsonMapper JSON = JsonMapper.builder().build();

    private final Reports reports = new Reports(System.out);
    private final ExecutorService threads = Executors.newCachedThreadPool();
    private final Clients clients = new Clients();
    /** What runs and can be told something: executions, approvals, hosts, streams, downloads. */
    private final Map<Long, Running> running = new ConcurrentHashMap<>();

    private Driver() {}

    /**
     * Runs until the standard input ends.
     *
     * @param arguments none
     * @throws IOException if the standard input breaks
     * @throws InterruptedException never
     */
    public static void main(String[] arguments) throws IOException, InterruptedException {
        new Driver().run();
        // Threads of user code that ignores interrupts would keep the program alive.
        System.exit(0);
    }

    private void run() throws IOException, InterruptedException {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            if (!line.isBlank()) {
                accept(line);
            }
        }
        running.values().forEach(Running::stop);
        clients.closeAll();
        threads.shutdownNow();
        threads.awaitTermination(5, TimeUnit.SECONDS);
    }

    private void accept(String line) {
        JsonNode json;
        try {
            json = JSON.readTree(line);
        } catch (JacksonException malformed) {
            System.err.println("not a command: " + line);
            return;
        }
        Command command = new Command(json, reports);
        perform(command, () -> start(command));
    }

    /** Begins in the order of arrival: what a later command names must be there. */
    private void start(Command command) {
        switch (command.verb()) {
            case "connect" -> {
                clients.connect(command);
                command.done();
            }
            case "execute" -> begin(command, new Executing(command, clients.of(command)));
            case "approvals" -> begin(command, new Approving(command, clients.of(command)));
            case "host" -> begin(command, new Hosting(command, clients.of(command)));
            case "greeter" -> begin(command, new Greeter(command, clients.of(command)));
            case "events" -> begin(command, new Watching(command, clients.of(command)));
            case "save" -> begin(command, new Saving(command, clients.of(command)));
            default -> threads.execute(() -> perform(command, () -> doNow(command)));
        }
    }

    private void begin(Command command, Running work) {
        running.put(command.id(), work);
        threads.execute(() -> {
            perform(command, work);
            running.remove(command.id());
        });
    }

    private void doNow(Command command) throws Exception {
        switch (command.verb()) {
            case "close" -> {
                clients.close(command);
                command.done();
            }
            case "forms" -> Queries.forms(command);
            case "cancel" -> {
                find(command.number("execution"), Executing.class).cancel();
                command.done();
            }
            case "interrupt" -> {
                find(command.number("execution"), Executing.class).interrupt();
                command.done();
            }
            case "reply" -> {
                find(command.number("approvals"), Approving.class).reply(command);
                command.done();
            }
            case "report" -> find(command.number("host"), Hosting.class).report(command);
            case "stop" -> {
                find(command.number("command"), Running.class).stop();
                command.done();
            }
            default -> Queries.perform(command, clients.of(command));
        }
    }

    private <T> T find(long id, Class<T> kind) {
        Running found = running.get(id);
        if (!kind.isInstance(found)) {
            throw new NoSuchElementException("nothing of that kind runs as " + id);
        }
        return kind.cast(found);
    }

    private static void perform(Command command, Work work) {
        try {
            work.perform();
        } catch (Exception failure) {
            command.failed(failure);
        }
    }

    /** What a command does. */
    @FunctionalInterface
    interface Work {
        /** Reports its end, or throws. */
        void perform() throws Exception;
    }

    /** A command that goes on until it is stopped or ends by itself. */
    interface Running extends Work {
        /** Ends it in the way of the language. */
        void stop();
    }

    /** Turns what a command failed with into an error of the protocol. */
    static Map<String, Object> error(Throwable failure) {
        Throwable cause = failure instanceof ExecutionException ? failure.getCause() : failure;
        if (cause instanceof StatusRuntimeException raw) {
            cause = ToolgateException.of(raw);
        }
        if (cause instanceof ToolgateException refused) {
            return Map.of("code", refused.code().name(), "reason", refused.reason(), "message", text(refused));
        }
        Status.Code code = Status.Code.UNKNOWN;
        if (cause instanceof NoSuchElementException) {
            code = Status.Code.NOT_FOUND;
        } else if (cause instanceof IllegalArgumentException || cause instanceof JacksonException) {
            code = Status.Code.INVALID_ARGUMENT;
        }
        return Map.of("code", code.name(), "message", text(cause));
    }

    private static String text(Throwable failure) {
        return failure.getMessage() == null ? failure.toString() : failure.getMessage();
    }
}
