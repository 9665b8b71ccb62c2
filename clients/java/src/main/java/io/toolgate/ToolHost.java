package io.toolgate;

import io.toolgate.v1.HostAskResult;
import io.toolgate.v1.HostCompleted;
import io.toolgate.v1.HostEvent;
import io.toolgate.v1.HostFailed;
import io.toolgate.v1.HostHello;
import io.toolgate.v1.HostHook;
import io.toolgate.v1.HostHookResult;
import io.toolgate.v1.HostInvoke;
import io.toolgate.v1.HostLeave;
import io.toolgate.v1.HostReport;
import io.toolgate.v1.HostRequest;
import io.toolgate.v1.HostResponse;
import io.toolgate.v1.HostRunSubagent;
import io.toolgate.v1.HostServiceGrpc;
import io.toolgate.v1.HostWelcome;
import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.jspecify.annotations.Nullable;

/**
 * Lends tools until it is closed, over as many connections as it takes.
 *
 * <p>A function is called once for each invocation, however often the service sends it. Reports wait while there is no
 * connection; what a function has returned meanwhile is sent when the service asks for it again.
 */
public final class ToolHost implements AutoCloseable {
    private static final int REMEMBERED_RESULTS = 256;
    private static final Duration LONGEST_LEAVE = Duration.ofSeconds(2);

    private final HostOptions options;
    private final String workspace;
    private final Executor executor;
    private final Map<String, HostedTool> tools = new HashMap<>();
    private final StreamLoop<HostRequest, HostResponse> loop;
    private final CompletableFuture<HostWelcome> ready = new CompletableFuture<>();
    private final Map<String, Invocation> running = new HashMap<>();
    /** The last results, for invocations that are sent again because the result was lost. */
    private final Map<String, List<HostReport>> results = new LinkedHashMap<>() {
        private static final long serialVersionUID = 1L;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, List<HostReport>> eldest) {
            return size() > REMEMBERED_RESULTS;
        }
    };

    /** The invocations that ran when the stream was opened and have not been sent again; null once that is over. */
    private @Nullable Set<String> missing;

    /** What the thread of the loop reads from. */
    private @Nullable RpcStream<HostRequest, HostResponse> opening;

    /** The same, once the service has welcomed this host; null before. */
    private @Nullable RpcStream<HostRequest, HostResponse> stream;

    private String token = "";

    ToolHost(Rpc rpc, Executor executor, HostOptions options, String workspace) {
        this.options = options;
        this.executor = executor;
        this.workspace = options.workspace().isEmpty() ? workspace : options.workspace();
        options.tools().forEach(tool -> tools.put(tool.definition().getName(), tool));
        this.loop = new StreamLoop<>(rpc, HostServiceGrpc.getHostMethod(), new HostSession());
        loop.done().whenComplete((nothing, failure) -> over(failure));
        loop.start(executor);
    }

    /**
     * Tells when what is lent can be called for the first time, and what was refused.
     *
     * @return completes with the service's welcome
     */
    public CompletableFuture<HostWelcome> ready() {
        return ready;
    }

    /**
     * Tells when the host is over: after {@link #close()}, or with a {@link ToolgateException} if the service refuses it.
     *
     * @return completes at the end
     */
    public CompletableFuture<Void> done() {
        return loop.done();
    }

    /** Takes back what is lent; the calls that it still runs fail, and their functions are interrupted. */
    @Override
    public void close() {
        loop.finish();
        RpcStream<HostRequest, HostResponse> current;
        synchronized (this) {
            current = stream;
        }
        try {
            if (current != null
                    && send(
                            current,
                            HostReport.newBuilder()
                                    .setLeave(HostLeave.getDefaultInstance())
                                    .build())) {
                current.halfClose();
                loop.done().get(LONGEST_LEAVE.toMillis(), TimeUnit.MILLISECONDS);
            }
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException unheard) {
            Log.LOG.log(System.Logger.Level.DEBUG, "the service did not hear that the host left", unheard);
        }
        loop.close();
    }

    private void over(Throwable failure) {
        ready.completeExceptionally(failure == null ? new IllegalStateException("the host was closed") : failure);
        List<Invocation> left;
        synchronized (this) {
            left = List.copyOf(running.values());
            running.clear();
        }
        left.forEach(Invocation::cancel);
    }

    private final class HostSession implements StreamLoop.Session<HostRequest, HostResponse> {
        @Override
        public void begin(RpcStream<HostRequest, HostResponse> opened) throws InterruptedException {
            HostHello.Builder hello = HostHello.newBuilder()
                    .setName(options.name())
                    .setWorkspace(workspace)
                    .setRunsSubagents(options.subagentRunner() != null)
                    .addAllSubagents(options.subagents())
                    .addAllHooks(options.hooks().keySet())
                    .setToken(token);
            options.tools().forEach(tool -> hello.addTools(tool.definition()));
            opening = opened;
            opened.send(HostRequest.newBuilder().setHello(hello).build());
        }

        @Override
        public void received(HostResponse message) {
            HostEvent event = message.getEvent();
            switch (event.getEventCase()) {
                case WELCOME -> welcomed(event.getWelcome());
                case INVOKE -> invoked(event.getInvoke());
                case RUN_SUBAGENT -> invoked(event.getRunSubagent());
                case HOOK -> invoked(event.getHook());
                case CANCEL -> cancelled(event.getCancel().getInvocationId());
                case ASK_RESULT -> answered(event.getAskResult());
                case HEARTBEAT -> allResent();
                case EVENT_NOT_SET -> {}
            }
        }

        @Override
        public void lost(ToolgateException failure) {
            disconnected(opening);
            options.listener().lost(failure);
        }
    }

    private synchronized void disconnected(@Nullable RpcStream<HostRequest, HostResponse> broken) {
        if (stream == broken) {
            stream = null;
        }
    }

    private void welcomed(HostWelcome welcome) {
        List<Invocation> goingOn;
        synchronized (this) {
            token = welcome.getToken();
            missing = new HashSet<>(running.keySet());
            goingOn = List.copyOf(running.values());
        }
        if (welcome.getResumed()) {
            // Before anything new is reported, and above all before a result.
            goingOn.forEach(invocation -> sendAll(opening, invocation.unheard()));
        } else {
            allResent();
        }
        synchronized (this) {
            stream = opening;
            notifyAll();
        }
        options.listener().ready(welcome);
        ready.complete(welcome);
    }

    /** Of what ran before the connection broke, the rest has ended meanwhile. */
    private void allResent() {
        Set<String> ended;
        synchronized (this) {
            ended = missing == null ? Set.of() : missing;
            missing = null;
        }
        ended.forEach(this::cancelled);
    }

    private void invoked(HostInvoke invoke) {
        HostedTool tool = tools.get(invoke.getTool());
        Invocation invocation = new Invocation(invoke, this::report);
        start(
                invocation,
                () -> completed(invocation, lent(tool, invoke.getTool()).run(invoke.getInputJson(), invocation)));
    }

    private void invoked(HostRunSubagent task) {
        HostInvoke invoke = HostInvoke.newBuilder()
                .setInvocationId(task.getInvocationId())
                .setCallId(task.getCallId())
                .setContext(task.getContext())
                .setTool("task")
                .setResent(task.getResent())
                .build();
        Invocation invocation = new Invocation(invoke, this::report);
        start(
                invocation,
                () -> completed(
                        invocation, lent(options.subagentRunner(), "task").run(task, invocation)));
    }

    private void invoked(HostHook hook) {
        HostInvoke invoke =
                HostInvoke.newBuilder().setInvocationId(hook.getInvocationId()).build();
        Invocation invocation = new Invocation(invoke, this::report);
        start(invocation, () -> {
            Hook lent = lent(options.hooks().get(hook.getPoint()), hook.getPoint());
            String output = lent.run(hook.getInputJson(), hook.getOutputJson());
            return invocation
                    .report()
                    .setHookResult(HostHookResult.newBuilder().setOutputJson(output))
                    .build();
        });
    }

    private static <T> T lent(@Nullable T function, String name) {
        return Objects.requireNonNull(function, () -> "this host does not lend " + name);
    }

    private static HostReport completed(Invocation invocation, @Nullable ToolOutput output) {
        HostCompleted completed = output == null ? HostCompleted.getDefaultInstance() : output.proto();
        return invocation.report().setCompleted(completed).build();
    }

    private void start(Invocation invocation, Callable<HostReport> function) {
        String id = invocation.id();
        FutureTask<Void> task;
        synchronized (this) {
            if (missing != null) {
                missing.remove(id);
            }
            if (running.containsKey(id) || results.containsKey(id)) {
                again(id);
                return;
            }
            task = new FutureTask<>(() -> run(invocation, function), null);
            invocation.runs(task);
            running.put(id, invocation);
        }
        executor.execute(task);
    }

    /** The service sends what it has no result of: that may have been lost. */
    private void again(String id) {
        List<HostReport> result = results.getOrDefault(id, List.of());
        RpcStream<HostRequest, HostResponse> current = stream;
        executor.execute(() -> sendAll(current, result));
    }

    private void run(Invocation invocation, Callable<HostReport> function) {
        HostReport result;
        try {
            result = function.call();
        } catch (Exception failure) {
            String error = failure.getMessage() == null ? failure.toString() : failure.getMessage();
            result = invocation
                    .report()
                    .setFailed(HostFailed.newBuilder().setError(error))
                    .build();
        }
        RpcStream<HostRequest, HostResponse> current;
        synchronized (this) {
            if (running.remove(invocation.id()) == null) {
                return;
            }
            List<HostReport> last = invocation.unheard();
            last.add(result);
            results.put(invocation.id(), last);
            current = stream;
        }
        sendAll(current, List.of(result));
    }

    private void cancelled(String id) {
        Invocation invocation;
        synchronized (this) {
            invocation = running.remove(id);
        }
        if (invocation != null && invocation.cancel()) {
            options.listener().cancelled(invocation);
        }
    }

    private void answered(HostAskResult result) {
        Invocation invocation;
        synchronized (this) {
            invocation = running.get(result.getInvocationId());
        }
        if (invocation != null) {
            invocation.answered(result);
        }
    }

    /** Sends a report, once there is a connection. */
    private void report(HostReport report) throws InterruptedException {
        RpcStream<HostRequest, HostResponse> current = connected();
        while (!send(current, report)) {
            disconnected(current);
            current = connected();
        }
    }

    private synchronized RpcStream<HostRequest, HostResponse> connected() throws InterruptedException {
        while (stream == null) {
            wait();
        }
        return stream;
    }

    /** Sends what the service asks for again if it does not get through. */
    private static void sendAll(@Nullable RpcStream<HostRequest, HostResponse> stream, List<HostReport> reports) {
        try {
            for (HostReport report : reports) {
                if (stream == null || !send(stream, report)) {
                    return;
                }
            }
        } catch (InterruptedException closed) {
            Thread.currentThread().interrupt();
        }
    }

    private static boolean send(RpcStream<HostRequest, HostResponse> stream, HostReport report)
            throws InterruptedException {
        return stream.send(HostRequest.newBuilder().setReport(report).build());
    }
}
