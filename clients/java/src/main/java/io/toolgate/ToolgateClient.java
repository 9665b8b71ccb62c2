package io.toolgate;

import com.google.protobuf.ByteString;
import io.grpc.Channel;
import io.grpc.ClientInterceptors;
import io.grpc.ManagedChannel;
import io.toolgate.v1.Call;
import io.toolgate.v1.CallContext;
import io.toolgate.v1.CallEvaluation;
import io.toolgate.v1.CallStart;
import io.toolgate.v1.CancelCallRequest;
import io.toolgate.v1.ExecuteToolRequest;
import io.toolgate.v1.ExecuteToolResponse;
import io.toolgate.v1.GetCallRequest;
import io.toolgate.v1.GetServerInfoRequest;
import io.toolgate.v1.GetServerInfoResponse;
import io.toolgate.v1.GetTerminalRequest;
import io.toolgate.v1.GetTerminalResponse;
import io.toolgate.v1.InfoServiceGrpc;
import io.toolgate.v1.ListCallsRequest;
import io.toolgate.v1.ListToolsRequest;
import io.toolgate.v1.OnDisconnect;
import io.toolgate.v1.OpenPortRequest;
import io.toolgate.v1.OutputMode;
import io.toolgate.v1.PortServiceGrpc;
import io.toolgate.v1.PromptFilter;
import io.toolgate.v1.ResizeTerminalRequest;
import io.toolgate.v1.RevertCallRequest;
import io.toolgate.v1.RevertCallResponse;
import io.toolgate.v1.SendInputRequest;
import io.toolgate.v1.SendInputResponse;
import io.toolgate.v1.Signal;
import io.toolgate.v1.SignalCallRequest;
import io.toolgate.v1.TerminalSize;
import io.toolgate.v1.ToolServiceGrpc;
import io.toolgate.v1.WatchEventsRequest;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executor;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * A client of a Toolgate service. Safe for use by many threads; one is enough for a program.
 *
 * <p>Its methods throw {@link ToolgateException} when an RPC fails. A call that fails is no error: its {@link CallResult}
 * says so.
 */
public final class ToolgateClient implements AutoCloseable {
    private static final Duration LONGEST_CLOSE = Duration.ofSeconds(2);

    private final ManagedChannel connection;
    private final Channel channel;
    private final Rpc rpc;
    /** By what calls are known as those of this client. */
    private final String clientId;

    private final CallContext context;
    /** Null if the program has others. */
    private final @Nullable ExecutorService threads;

    private final Executor executor;
    /** What ends with the client. */
    private final Set<AutoCloseable> open = ConcurrentHashMap.newKeySet();

    ToolgateClient(
            ManagedChannel connection,
            @Nullable Bearer bearer,
            Rpc.Settings settings,
            CallContext context,
            @Nullable Executor executor) {
        this.connection = connection;
        this.channel = bearer == null ? connection : ClientInterceptors.intercept(connection, bearer);
        this.rpc = new Rpc(channel, connection::resetConnectBackoff, settings);
        this.clientId = Uuid7.next();
        this.context = context.toBuilder().addClientIds(clientId).build();
        if (executor == null) {
            ExecutorService own = Executors.newCachedThreadPool(ToolgateClient::thread);
            this.threads = own;
            this.executor = own;
        } else {
            this.threads = null;
            this.executor = executor;
        }
    }

    private static Thread thread(Runnable task) {
        Thread thread = new Thread(task, "toolgate");
        // A program ends when its own threads do.
        thread.setDaemon(true);
        return thread;
    }

    /**
     * Makes a client for the service that {@code TOOLGATE_SERVER} names, else for the one that is likely to run on this
     * machine.
     *
     * @return the client; it connects with the first RPC
     */
    public static ToolgateClient connect() {
        return builder().build();
    }

    /**
     * Makes a client.
     *
     * @param target {@code unix:/path}, {@code http://host:port}, {@code https://host:port} or {@code host:port}
     * @return the client; it connects with the first RPC
     */
    public static ToolgateClient connect(String target) {
        return builder().target(target).build();
    }

    /**
     * Says how to reach a service, and in whose name.
     *
     * @return a builder that takes what is left out from the environment
     */
    public static ClientBuilder builder() {
        return new ClientBuilder(System.getenv());
    }

    /**
     * Lists the tools that the client's agent may use.
     *
     * @return the tools
     */
    public ToolList tools() {
        return tools(ListToolsRequest.getDefaultInstance());
    }

    /**
     * Lists tools.
     *
     * @param request for whom; what it leaves out is the client's
     * @return the tools, of all pages
     */
    public ToolList tools(ListToolsRequest request) {
        ListToolsRequest.Builder defaults = ListToolsRequest.newBuilder()
                .setWorkspace(context.getWorkspace())
                .setAgent(context.getAgent())
                .setClientKind(context.getClientKind());
        if (context.hasModel()) {
            defaults.setModel(context.getModel());
        }
        return ToolList.fetch(rpc, defaults.mergeFrom(request).build());
    }

    /**
     * Executes a tool.
     *
     * @param tool the tool's name
     * @param input a map, a record or a bean, or the JSON text as a model wrote it
     * @return the execution, which has begun; close it
     */
    public Execution execute(String tool, Object input) {
        return execute(ToolCall.of(tool, input));
    }

    /**
     * Executes a tool as a model asked for it.
     *
     * @param tool the tool's name as the model wrote it
     * @param inputJson the arguments exactly as the model wrote them
     * @return the execution, which has begun; close it
     */
    public Execution execute(String tool, String inputJson) {
        return execute(ToolCall.ofJson(tool, inputJson));
    }

    /**
     * Executes a tool.
     *
     * @param call what to execute, and in whose name
     * @return the execution, which has begun; close it
     */
    public Execution execute(ToolCall call) {
        ExecuteToolRequest request = call.request(context);
        Supplier<CallFollower.Source<?>> start = () -> new CallFollower.Source<>(
                rpc.open(ToolServiceGrpc.getExecuteToolMethod(), request), ExecuteToolResponse::getEvent);
        return follow(request.getCallId(), start, 0, request.getOutput(), call.cancelledOnClose());
    }

    /**
     * Executes a tool and waits for the end of the call. Interrupting the thread cancels the call.
     *
     * @param tool the tool's name
     * @param input a map, a record or a bean, or the JSON text as a model wrote it
     * @return how the call ended
     */
    public CallResult run(String tool, Object input) {
        return run(ToolCall.of(tool, input));
    }

    /**
     * Executes a tool and waits for the end of the call. Interrupting the thread cancels the call.
     *
     * @param call what to execute, and in whose name
     * @return how the call ended
     */
    public CallResult run(ToolCall call) {
        try (Execution execution = execute(call)) {
            return execution.result();
        }
    }

    /**
     * Says what a call would ask before it does anything, and what rules and standing approvals say to that.
     *
     * @param tool the tool's name
     * @param input a map, a record or a bean, or the JSON text as a model wrote it
     * @return the verdict, and each question with its own; nothing is run, and nobody is asked
     */
    public CallEvaluation evaluate(String tool, Object input) {
        return evaluate(ToolCall.of(tool, input));
    }

    /**
     * Says what a call would ask before it does anything, and what rules and standing approvals say to that.
     *
     * @param call what would be executed, and in whose name
     * @return the verdict, and each question with its own; nothing is run, and nobody is asked
     */
    public CallEvaluation evaluate(ToolCall call) {
        return rpc.call(ToolServiceGrpc.getEvaluateCallMethod(), call.evaluation(context))
                .getEvaluation();
    }

    /**
     * Watches a call, running or ended, from its first event on. Closing the execution does not touch the call.
     *
     * @param callId the call
     * @return its events and its result
     */
    public Execution watch(String callId) {
        return watch(callId, 0);
    }

    /**
     * Watches a call from some event on.
     *
     * @param callId the call
     * @param afterSequence the number of the last event that is known
     * @return the events after it, and the result
     */
    public Execution watch(String callId, long afterSequence) {
        return watch(callId, afterSequence, OutputMode.OUTPUT_MODE_FULL);
    }

    /**
     * Watches a call from some event on.
     *
     * @param callId the call
     * @param afterSequence the number of the last event that is known
     * @param output how much of the output to stream
     * @return the events after it, and the result
     */
    public Execution watch(String callId, long afterSequence, OutputMode output) {
        return follow(callId, null, afterSequence, output, false);
    }

    /**
     * Takes back what an ended call did to files, by a call of its own.
     *
     * @param callId the call to take back
     * @return the execution of {@code revert}; close it
     */
    public Execution revert(String callId) {
        return revert(RevertCallRequest.newBuilder().setCallId(callId).build());
    }

    /**
     * Takes back what an ended call did to files, as the request says.
     *
     * @param request what to take back, and how; what it leaves out of the context is the client's
     * @return the execution of {@code revert}; close it
     */
    public Execution revert(RevertCallRequest request) {
        RevertCallRequest.Builder named = request.toBuilder()
                .setContext(ToolCall.filled(request.getContext(), context))
                .setOnDisconnect(ToolCall.sent(request.getOnDisconnect()));
        if (named.getRevertCallId().isEmpty()) {
            named.setRevertCallId(Uuid7.next());
        }
        RevertCallRequest sent = named.build();
        Supplier<CallFollower.Source<?>> start = () -> new CallFollower.Source<>(
                rpc.open(ToolServiceGrpc.getRevertCallMethod(), sent), RevertCallResponse::getEvent);
        boolean owned = request.getOnDisconnect() != OnDisconnect.ON_DISCONNECT_KEEP;
        return follow(sent.getRevertCallId(), start, 0, OutputMode.OUTPUT_MODE_FULL, owned);
    }

    private Execution follow(
            String callId,
            @Nullable Supplier<CallFollower.Source<?>> start,
            long after,
            OutputMode output,
            boolean owned) {
        CallFollower follower = new CallFollower(rpc, callId, start, after, output);
        Execution execution = new Execution(rpc, executor, callId, follower, owned, open::remove);
        open.add(execution);
        follower.open();
        return execution;
    }

    /**
     * Returns the record of a call.
     *
     * @param callId the call
     * @return the record
     */
    public Call get(String callId) {
        GetCallRequest request = GetCallRequest.newBuilder().setCallId(callId).build();
        return rpc.call(ToolServiceGrpc.getGetCallMethod(), request).getCall();
    }

    /**
     * Lists calls, newest first.
     *
     * @param request which calls; its page size says how many are fetched at a time
     * @return the calls, fetched as the stream comes to them; without their inputs and outputs, which {@link #get} has
     */
    public Stream<Call> calls(ListCallsRequest request) {
        return Pages.stream(
                token -> rpc.call(
                        ToolServiceGrpc.getListCallsMethod(),
                        request.toBuilder().setPageToken(token).build()),
                page -> page.getCallsList().stream(),
                page -> page.getNextPageToken());
    }

    /**
     * Asks a call to stop, and waits until it has ended and its programs are gone.
     *
     * @param callId the call
     * @return its record, as it ended
     */
    public Call cancel(String callId) {
        CancelCallRequest request =
                CancelCallRequest.newBuilder().setCallId(callId).build();
        return rpc.call(ToolServiceGrpc.getCancelCallMethod(), request).getCall();
    }

    /**
     * Sends bytes to the standard input of a running command in the background.
     *
     * @param callId the call, of the tool {@code background}
     * @param offset how many bytes came before in all; those that were accepted before are skipped
     * @param data at most 1 MiB
     * @param close whether nothing follows
     * @return how far the input has come
     */
    public SendInputResponse sendInput(String callId, long offset, byte[] data, boolean close) {
        SendInputRequest request = SendInputRequest.newBuilder()
                .setCallId(callId)
                .setOffset(offset)
                .setData(ByteString.copyFrom(data))
                .setClose(close)
                .build();
        return rpc.call(ToolServiceGrpc.getSendInputMethod(), request);
    }

    /**
     * Sends bytes to the standard input of a running command in the background, behind those that were accepted before.
     *
     * @param callId the call, of the tool {@code background}
     * @param data at most 1 MiB; when two send at the same moment, bytes of one of them may be taken for those of the other
     * @return how far the input has come
     */
    public SendInputResponse sendInput(String callId, byte[] data) {
        long offset = sendInput(callId, 0, new byte[0], false).getNextOffset();
        return sendInput(callId, offset, data, false);
    }

    /**
     * Changes the size of the terminal of a running command in the background.
     *
     * @param callId the call, of the tool {@code background} with {@code terminal} in its input
     * @param columns 1 to 500
     * @param rows 1 to 200
     */
    public void resizeTerminal(String callId, int columns, int rows) {
        ResizeTerminalRequest request = ResizeTerminalRequest.newBuilder()
                .setCallId(callId)
                .setSize(TerminalSize.newBuilder().setColumns(columns).setRows(rows))
                .build();
        rpc.call(ToolServiceGrpc.getResizeTerminalMethod(), request);
    }

    /**
     * Returns what the terminal of a running command in the background shows, for who comes to it late or again.
     *
     * @param callId the call
     * @return what draws it, and where its output goes on: watch the call after {@code last_sequence}, and skip the output
     *     before {@code output_offset}
     */
    public GetTerminalResponse terminal(String callId) {
        GetTerminalRequest request =
                GetTerminalRequest.newBuilder().setCallId(callId).build();
        return rpc.call(ToolServiceGrpc.getGetTerminalMethod(), request);
    }

    /**
     * Sends a signal to a command in the background, in a terminal to what is in its foreground. It is sent once: after a
     * failure with the code {@code UNAVAILABLE} it may have been sent.
     *
     * @param callId the call
     * @param signal the signal
     */
    public void signal(String callId, Signal signal) {
        SignalCallRequest request = SignalCallRequest.newBuilder()
                .setCallId(callId)
                .setSignal(signal)
                .build();
        rpc.once(ToolServiceGrpc.getSignalCallMethod(), request);
    }

    /**
     * Opens a port that a program of a call listens on, and returns when that was allowed.
     *
     * @param callId the call whose program listens
     * @param port the port, 1 to 65535
     * @return the opened port; close it
     */
    public OpenedPort openPort(String callId, int port) {
        return openPort(
                OpenPortRequest.newBuilder().setCallId(callId).setPort(port).build());
    }

    /**
     * Opens a port as the request says: waiting for a person who is not there yet, for instance.
     *
     * @param request which port; what it leaves out of the call is the client's
     * @return the opened port; close it
     */
    public OpenedPort openPort(OpenPortRequest request) {
        OpenPortRequest sent = request.toBuilder()
                .setCall(WorkspaceFiles.filled(request.getCall(), callOptions()))
                .build();
        OpenedPort opened = new OpenedPort(rpc, rpc.await(PortServiceGrpc.getOpenPortMethod(), sent), open::remove);
        open.add(opened);
        return opened;
    }

    private CallStart callOptions() {
        return CallStart.newBuilder().setContext(context).build();
    }

    /**
     * Gives access to the files of the client's workspace, as the client's agent sees them.
     *
     * @return the files; nothing is fetched yet
     */
    public WorkspaceFiles files() {
        return new WorkspaceFiles(rpc, callOptions(), open);
    }

    /**
     * Gives access to what the MCP servers of the client's workspace have beside tools.
     *
     * @return the servers; nothing is fetched yet
     */
    public McpServers mcp() {
        return new McpServers(rpc, callOptions());
    }

    /**
     * Gives access to the workspaces of the service.
     *
     * @return the workspaces; nothing is fetched yet
     */
    public Workspaces workspaces() {
        return new Workspaces(rpc);
    }

    /**
     * Answers the prompts of this client's calls with a handler until it is closed.
     *
     * @param handler decides; runs for several prompts at the same time
     * @return the approvals, which have begun
     */
    public Approvals approvals(PromptHandler handler) {
        return approvals(ApprovalOptions.named("toolgate-java"), handler);
    }

    /**
     * Answers prompts with a handler until it is closed.
     *
     * @param options which prompts to answer, and as whom
     * @param handler decides; runs for several prompts at the same time
     * @return the approvals, which have begun
     */
    public Approvals approvals(ApprovalOptions options, PromptHandler handler) {
        PromptFilter filter = options.filter(clientId, context.getSessionId());
        Approvals approvals = new Approvals(rpc, executor, options, filter, handler);
        return ending(approvals, approvals.done());
    }

    /**
     * Lends functions as tools until it is closed.
     *
     * @param tools the tools
     * @return the host, which has begun
     */
    public ToolHost host(HostedTool... tools) {
        return host(HostOptions.named("toolgate-java").tools(tools));
    }

    /**
     * Lends tools, subagents and hooks until it is closed.
     *
     * @param options what to lend, and as whom
     * @return the host, which has begun
     */
    public ToolHost host(HostOptions options) {
        ToolHost host = new ToolHost(rpc, executor, options, context.getWorkspace());
        return ending(host, host.done());
    }

    /**
     * Gives access to a stored output.
     *
     * @param outputId its id, from {@code truncation().getOutputId()} of a result or from an output event
     * @return the output; nothing is fetched yet
     */
    public StoredOutput output(String outputId) {
        return new StoredOutput(rpc, outputId);
    }

    /**
     * Watches what happens in the workspaces.
     *
     * @param request which workspace and session, and from when on
     * @return the stream, which has begun; close it
     */
    public EventStream events(WatchEventsRequest request) {
        return new EventStream(rpc, request);
    }

    /**
     * Returns version, limits and workspaces of the service.
     *
     * @return the message
     */
    public GetServerInfoResponse serverInfo() {
        return rpc.call(InfoServiceGrpc.getGetServerInfoMethod(), GetServerInfoRequest.getDefaultInstance());
    }

    /**
     * Gives access to every RPC: generated stubs over this channel use the client's connection and credentials.
     *
     * @return the channel, for instance for {@code ToolServiceGrpc.newBlockingStub}
     */
    public Channel channel() {
        return channel;
    }

    private <T extends AutoCloseable> T ending(T opened, CompletableFuture<Void> done) {
        open.add(opened);
        done.whenComplete((nothing, failure) -> open.remove(opened));
        return opened;
    }

    /** Cancels the calls that this client executes, ends approvals, hosts, watches and opened ports, and closes the connection. */
    @Override
    public void close() {
        for (AutoCloseable each : open) {
            if (each instanceof Execution execution) {
                execution.abandon();
            }
        }
        for (AutoCloseable each : open) {
            close(each);
        }
        open.clear();
        if (threads != null) {
            threads.shutdownNow();
        }
        connection.shutdownNow();
        try {
            connection.awaitTermination(LONGEST_CLOSE.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    private static void close(AutoCloseable each) {
        try {
            each.close();
        } catch (Exception impossible) {
            throw new IllegalStateException("what a client opens closes without checked exceptions", impossible);
        }
    }
}
