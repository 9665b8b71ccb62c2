package io.toolgate;

import io.toolgate.v1.Event;
import io.toolgate.v1.SessionServiceGrpc;
import io.toolgate.v1.WatchEventsRequest;
import io.toolgate.v1.WatchEventsResponse;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;

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
        return new Events();
    }

    /** Ends the stream, also for a thread that waits for the next event. */
    @Override
    public void close() {
        closed = true;
        stream.cancel("closed");
    }

    private Event receive() {
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

    private final class Events implements Iterator<Event> {
        private Event next;

        @Override
        public boolean hasNext() {
            if (next == null) {
                next = receive();
            }
            return next != null;
        }

        @Override
        public Event next() {
            if (!hasNext()) {
                throw new NoSuchElementException("the stream was closed");
            }
            Event event = next;
            next = null;
            return event;
        }
    }
}
