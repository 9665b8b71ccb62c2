package io.toolgate;

import io.toolgate.v1.Event;
import io.toolgate.v1.SessionServiceGrpc;
import io.toolgate.v1.WatchEventsRequest;
import io.toolgate.v1.WatchEventsResponse;
import java.util.Iterator;
import java.util.concurrent.CompletableFuture;
import org.jspecify.annotations.Nullable;

/**
 * What happens in a workspace, as it happens.
 *
 * <p>The stream is not taken up again after a lost connection: iterating throws {@link ToolgateException} then. Watch again,
 * after the sequence of the last event seen.
 */
public final class EventStream implements AutoCloseable, Iterable<Event> {
    private final Rpc rpc;
    private final RpcStream<WatchEventsRequest, WatchEventsResponse> stream;
    private volatile boolean closed;

    EventStream(Rpc rpc, WatchEventsRequest request) {
        this.rpc = rpc;
        this.stream = rpc.open(SessionServiceGrpc.getWatchEventsMethod(), request);
    }

    /**
     * Tells when the service watches for this stream: what happens from then on is not missed.
     *
     * @return completes with the beginning of the stream
     */
    public CompletableFuture<Void> opened() {
        return stream.opened();
    }

    /**
     * Iterates over what happens, without heartbeats. Ends when the stream is closed.
     *
     * @return the iterator
     */
    @Override
    public Iterator<Event> iterator() {
        return new Pulled<>(this::receive, "the stream was closed");
    }

    /** Ends the stream, also for a thread that waits for the next event. */
    @Override
    public void close() {
        closed = true;
        stream.cancel("closed");
    }

    private @Nullable Event receive() {
        try {
            WatchEventsResponse response = stream.next(rpc.settings().silence());
            while (response != null && response.getEvent().hasHeartbeat()) {
                response = stream.next(rpc.settings().silence());
            }
            return response == null ? null : response.getEvent();
        } catch (ToolgateException failure) {
            if (closed) {
                return null;
            }
            throw failure;
        } catch (InterruptedException interrupted) {
            throw Rpc.interrupted("interrupted while watching events");
        }
    }
}
