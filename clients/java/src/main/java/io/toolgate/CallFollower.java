package io.toolgate;

import io.grpc.Status;
import io.toolgate.v1.Call;
import io.toolgate.v1.CallGap;
import io.toolgate.v1.GetCallRequest;
import io.toolgate.v1.OutputMode;
import io.toolgate.v1.ToolServiceGrpc;
import io.toolgate.v1.WatchCallRequest;
import io.toolgate.v1.WatchCallResponse;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Follows one call from event to event over as many streams as it takes, without loss or repetition.
 *
 * <p>The first stream starts the call, if there is something to start. Each later one watches it from the last event on; if
 * the service does not know the call then, the start never arrived, and is sent again.
 */
final class CallFollower {
    /** A stream of messages that each carry one event. */
    record Source<R>(RpcStream<?, R> stream, Function<R, io.toolgate.v1.CallEvent> event) {
        io.toolgate.v1.@Nullable CallEvent next(Duration silence) throws InterruptedException {
            R message = stream.next(silence);
            return message == null ? null : event.apply(message);
        }
    }

    private final Rpc rpc;
    private final String callId;
    private final @Nullable Supplier<Source<?>> start;
    private final OutputMode output;
    private final Backoff backoff;
    private final CountDownLatch closed = new CountDownLatch(1);
    private volatile @Nullable Source<?> source;
    private volatile boolean begun;
    private volatile boolean abandoned;
    private boolean watching;
    private boolean mayStart;
    private long lastSequence;
    private volatile @Nullable CallResult result;
    private @Nullable ToolgateException failure;

    /** {@code start} is null for a call that is only watched, from the event after {@code after} on. */
    CallFollower(Rpc rpc, String callId, @Nullable Supplier<Source<?>> start, long after, OutputMode output) {
        this.rpc = rpc;
        this.callId = callId;
        this.start = start;
        this.mayStart = start != null;
        this.lastSequence = after;
        this.output = output;
        this.backoff = new Backoff(rpc.settings().reconnectTimeout());
    }

    /** Opens the first stream at once, so that the call begins before anybody waits for it. */
    Source<?> open() {
        Source<?> opened;
        if (mayStart && start != null) {
            mayStart = false;
            opened = start.get();
        } else {
            watching = true;
            WatchCallRequest request = WatchCallRequest.newBuilder()
                    .setCallId(callId)
                    .setAfterSequence(lastSequence)
                    .setOutput(output)
                    .build();
            opened = new Source<>(rpc.open(ToolServiceGrpc.getWatchCallMethod(), request), WatchCallResponse::getEvent);
        }
        source = opened;
        return opened;
    }

    /** Whether an event has shown that the service knows the call. */
    boolean begun() {
        return begun;
    }

    /** From now on the call is not started any more if it turns out that it never was. */
    void abandonStart() {
        abandoned = true;
    }

    /** How the call ended; null while it goes on. */
    @Nullable
    CallResult result() {
        return result;
    }

    /** Returns the next event, or null after the last one. */
    @Nullable
    CallEvent next() throws InterruptedException {
        if (failure != null) {
            throw failure;
        }
        try {
            while (result == null) {
                CallEvent event = step();
                if (event != null) {
                    result = Typed.result(event);
                    return event;
                }
            }
            return null;
        } catch (ToolgateException last) {
            failure = last;
            throw last;
        }
    }

    private @Nullable CallEvent step() throws InterruptedException {
        try {
            io.toolgate.v1.CallEvent proto = receive();
            if (proto != null) {
                CallEvent event = accept(proto);
                backoff.succeeded();
                return event;
            }
            result = recorded();
            if (result == null) {
                throw ToolgateException.of(
                        Status.Code.UNAVAILABLE, "the stream of call " + callId + " ended without its result");
            }
        } catch (ToolgateException broken) {
            lost(broken);
        }
        return null;
    }

    private io.toolgate.v1.@Nullable CallEvent receive() throws InterruptedException {
        Source<?> current = source;
        if (current == null) {
            rpc.reconnect();
            current = open();
        }
        if (closed.getCount() == 0) {
            current.stream().cancel("closed");
            throw closed();
        }
        return current.next(rpc.settings().silence());
    }

    /** Returns the event if it is the next one; null if it is none, or was delivered before. */
    private @Nullable CallEvent accept(io.toolgate.v1.CallEvent proto) {
        begun = true;
        long due = lastSequence + 1;
        if (proto.hasHeartbeat() || proto.getSequence() < due) {
            return null;
        }
        long first = proto.hasGap() ? proto.getGap().getFirstSequence() : proto.getSequence();
        if (first > due) {
            throw ToolgateException.of(
                    Status.Code.UNAVAILABLE, "call " + callId + ": event " + first + " came instead of " + due);
        }
        lastSequence = proto.getSequence();
        return Typed.event(first < due ? trimmed(proto, due) : proto);
    }

    /** A gap that overlaps with what was delivered stands only for the rest. */
    private static io.toolgate.v1.CallEvent trimmed(io.toolgate.v1.CallEvent proto, long first) {
        CallGap.Builder gap = proto.getGap().toBuilder().setFirstSequence(first);
        return proto.toBuilder().setGap(gap).build();
    }

    /** Returns the result from the call's record if the stream began behind the terminal event, else null. */
    private @Nullable CallResult recorded() {
        if (!watching) {
            return null;
        }
        GetCallRequest request = GetCallRequest.newBuilder().setCallId(callId).build();
        Call call = rpc.call(ToolServiceGrpc.getGetCallMethod(), request).getCall();
        return call.getLastSequence() <= lastSequence ? Typed.result(call) : null;
    }

    private void lost(ToolgateException broken) throws InterruptedException {
        Source<?> current = source;
        if (current != null) {
            current.stream().cancel("lost");
        }
        source = null;
        if (closed.getCount() == 0) {
            throw closed();
        }
        boolean unknown = watching && broken.code() == Status.Code.NOT_FOUND;
        if (unknown && start != null && !begun && !abandoned) {
            mayStart = true;
            watching = false;
        } else if (!rpc.retryable(broken)) {
            throw broken;
        }
        if (closed.await(backoff.after(broken).toNanos(), TimeUnit.NANOSECONDS)) {
            throw closed();
        }
    }

    private ToolgateException closed() {
        return ToolgateException.of(Status.Code.CANCELLED, "the execution of call " + callId + " was closed");
    }

    /** Ends the streams, whoever waits for them; the call is not touched. */
    void close() {
        closed.countDown();
        Source<?> current = source;
        if (current != null) {
            current.stream().cancel("closed");
        }
    }
}
