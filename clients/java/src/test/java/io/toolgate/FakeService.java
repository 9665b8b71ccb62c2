package io.toolgate;

import io.grpc.BindableService;
import io.grpc.ManagedChannel;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.StreamObserver;
import io.toolgate.v1.Call;
import io.toolgate.v1.CallContext;
import io.toolgate.v1.CancelCallRequest;
import io.toolgate.v1.CancelCallResponse;
import io.toolgate.v1.ExecuteToolRequest;
import io.toolgate.v1.ExecuteToolResponse;
import io.toolgate.v1.GetCallRequest;
import io.toolgate.v1.GetCallResponse;
import io.toolgate.v1.SignalCallRequest;
import io.toolgate.v1.SignalCallResponse;
import io.toolgate.v1.ToolServiceGrpc;
import io.toolgate.v1.WatchCallRequest;
import io.toolgate.v1.WatchCallResponse;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;

/** A service in this process that plays prepared streams, one for each that is opened. */
final class FakeService extends ToolServiceGrpc.ToolServiceImplBase implements AutoCloseable {
    /** How a stream ends: well, broken, or never. */
    record Act(List<io.toolgate.v1.CallEvent> events, Status end) {
        static Act ending(io.toolgate.v1.CallEvent... events) {
            return new Act(List.of(events), Status.OK);
        }

        static Act breaking(Status how, io.toolgate.v1.CallEvent... events) {
            return new Act(List.of(events), how);
        }

        static Act silent(io.toolgate.v1.CallEvent... events) {
            return new Act(List.of(events), null);
        }
    }

    final List<String> rpcs = new CopyOnWriteArrayList<>();
    final CompletableFuture<String> cancelled = new CompletableFuture<>();
    private final Queue<Act> acts = new ArrayDeque<>();
    private final String name = InProcessServerBuilder.generateName();
    private final Server server;
    volatile Call record = Call.getDefaultInstance();

    FakeService(Act... acts) throws IOException {
        this(List.of(acts), List.of());
    }

    /** Serves others beside what plays streams. */
    FakeService(List<Act> acts, List<? extends BindableService> others) throws IOException {
        this.acts.addAll(acts);
        InProcessServerBuilder builder = InProcessServerBuilder.forName(name).addService(this);
        others.forEach(builder::addService);
        this.server = builder.build().start();
    }

    /** Makes a client of this service that gives up after some time and finds silence suspicious. */
    ToolgateClient client(Duration reconnectTimeout, Duration silence) {
        ManagedChannel channel = InProcessChannelBuilder.forName(name).build();
        Rpc.Settings settings = new Rpc.Settings(Duration.ofSeconds(10), reconnectTimeout, silence, false);
        return new ToolgateClient(channel, null, settings, CallContext.getDefaultInstance(), null);
    }

    @Override
    public void executeTool(ExecuteToolRequest request, StreamObserver<ExecuteToolResponse> stream) {
        rpcs.add("execute " + request.getCallId());
        play(
                event -> stream.onNext(
                        ExecuteToolResponse.newBuilder().setEvent(event).build()),
                stream);
    }

    @Override
    public void watchCall(WatchCallRequest request, StreamObserver<WatchCallResponse> stream) {
        rpcs.add("watch " + request.getCallId() + " after " + request.getAfterSequence());
        play(
                event -> stream.onNext(
                        WatchCallResponse.newBuilder().setEvent(event).build()),
                stream);
    }

    private void play(Consumer<io.toolgate.v1.CallEvent> send, StreamObserver<?> stream) {
        Act act;
        synchronized (acts) {
            act = acts.isEmpty() ? Act.breaking(Status.UNAVAILABLE) : acts.remove();
        }
        act.events().forEach(send);
        if (act.end() == null) {
            return;
        }
        if (act.end().isOk()) {
            stream.onCompleted();
        } else {
            stream.onError(act.end().asRuntimeException());
        }
    }

    @Override
    public void getCall(GetCallRequest request, StreamObserver<GetCallResponse> answer) {
        answer.onNext(GetCallResponse.newBuilder().setCall(record).build());
        answer.onCompleted();
    }

    @Override
    public void cancelCall(CancelCallRequest request, StreamObserver<CancelCallResponse> answer) {
        cancelled.complete(request.getCallId());
        answer.onNext(CancelCallResponse.getDefaultInstance());
        answer.onCompleted();
    }

    @Override
    public void signalCall(SignalCallRequest request, StreamObserver<SignalCallResponse> answer) {
        rpcs.add("signal " + request.getCallId());
        answer.onError(Status.UNAVAILABLE.asRuntimeException());
    }

    @Override
    public void close() {
        server.shutdownNow();
    }
}
