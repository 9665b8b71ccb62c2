package io.toolgate;

import io.grpc.Status;
import io.toolgate.v1.FileServiceGrpc;
import io.toolgate.v1.WatchFilesRequest;
import io.toolgate.v1.WatchFilesResponse;
import java.util.Iterator;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * What happens to the files of a folder, as it happens, until it is closed.
 *
 * <p>After a lost connection the watch goes on behind the last cursor, and nothing is missed. Where that is not known any
 * more, iterating throws {@link CursorTooOldException}: list the folder, and watch it without a cursor.
 */
public final class FileWatch implements AutoCloseable, Iterable<FileEvent> {
    private final Rpc rpc;
    private final WatchFilesRequest request;
    private final Consumer<FileWatch> onEnd;
    private final Backoff backoff;
    private final CountDownLatch closed = new CountDownLatch(1);
    private volatile RpcStream<WatchFilesRequest, WatchFilesResponse> stream;
    private String cursor;
    private boolean watched;

    FileWatch(Rpc rpc, WatchFilesRequest request, Consumer<FileWatch> onEnd) {
        this.rpc = rpc;
        this.request = request;
        this.onEnd = onEnd;
        this.backoff = new Backoff(rpc.settings().reconnectTimeout());
        this.cursor = request.getCursor();
        this.stream = open();
    }

    private RpcStream<WatchFilesRequest, WatchFilesResponse> open() {
        WatchFilesRequest rest = request.toBuilder().setCursor(cursor).build();
        return rpc.open(FileServiceGrpc.getWatchFilesMethod(), rest);
    }

    /**
     * Iterates over what happens, without heartbeats. Ends when the watch is closed.
     *
     * @return the iterator
     */
    @Override
    public Iterator<FileEvent> iterator() {
        return new Pulled<>(this::receive, "the watch was closed");
    }

    /** Ends the watch, also for a thread that waits for the next event. */
    @Override
    public void close() {
        closed.countDown();
        stream.cancel("closed");
        onEnd.accept(this);
    }

    private @Nullable FileEvent receive() {
        try {
            while (closed.getCount() > 0) {
                FileEvent event = step();
                if (event != null) {
                    return event;
                }
            }
            return null;
        } catch (InterruptedException interrupted) {
            throw Rpc.interrupted("interrupted while watching files");
        }
    }

    /** Returns what a message tells; null for none, and when the connection was lost. */
    private @Nullable FileEvent step() throws InterruptedException {
        try {
            WatchFilesResponse response = stream.next(rpc.settings().silence());
            if (response == null) {
                throw ToolgateException.of(Status.Code.UNAVAILABLE, "the service ended the watch");
            }
            cursor = response.getCursor();
            backoff.succeeded();
            return event(response);
        } catch (ToolgateException failure) {
            lost(failure);
            return null;
        }
    }

    private @Nullable FileEvent event(WatchFilesResponse response) {
        return switch (response.getNewsCase()) {
            case WATCHED -> {
                // A stream that goes on where another one was begins as any; nothing was missed.
                boolean first = !watched;
                watched = true;
                yield first ? new FileEvent.Watched(response) : null;
            }
            case CHANGED -> new FileEvent.Changed(response);
            case MISSED -> new FileEvent.Missed(response);
            case HEARTBEAT, NEWS_NOT_SET -> null;
        };
    }

    private void lost(ToolgateException failure) throws InterruptedException {
        stream.cancel("lost");
        if (closed.getCount() == 0) {
            return;
        }
        if (!rpc.retryable(failure)) {
            onEnd.accept(this);
            throw failure;
        }
        if (closed.await(backoff.after(failure).toNanos(), TimeUnit.NANOSECONDS)) {
            return;
        }
        rpc.reconnect();
        stream = open();
        if (closed.getCount() == 0) {
            stream.cancel("closed");
        }
    }
}
