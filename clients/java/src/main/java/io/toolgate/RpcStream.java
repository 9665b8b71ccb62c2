package io.toolgate;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.time.Duration;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/**
 * One streaming RPC, read by a thread that waits for messages.
 *
 * <p>At most {@link #PREFETCH} messages are on their way at once: a slow reader slows the sender.
 */
final class RpcStream<Q, R> extends ClientCall.Listener<R> {
    private static final int PREFETCH = 16;

    private record Item<T>(@Nullable T message, @Nullable ToolgateException failure) {}

    private final ClientCall<Q, R> call;
    private final BlockingQueue<Item<R>> inbox = new LinkedBlockingQueue<>();
    private final CompletableFuture<Void> opened = new CompletableFuture<>();
    private final Object writing = new Object();
    private boolean over;
    /** Nothing more is to be sent. */
    private boolean halfClosed;

    private @Nullable ToolgateException failure;

    private RpcStream(ClientCall<Q, R> call) {
        this.call = call;
    }

    static <Q, R> RpcStream<Q, R> open(Channel channel, MethodDescriptor<Q, R> method) {
        RpcStream<Q, R> stream = new RpcStream<>(channel.newCall(method, CallOptions.DEFAULT));
        stream.call.start(stream, new Metadata());
        stream.call.request(PREFETCH);
        return stream;
    }

    /** Opens a stream with one request. */
    static <Q, R> RpcStream<Q, R> open(Channel channel, MethodDescriptor<Q, R> method, Q request) {
        RpcStream<Q, R> stream = open(channel, method);
        stream.call.sendMessage(request);
        stream.call.halfClose();
        return stream;
    }

    /** Completes when the service has accepted the stream. */
    CompletableFuture<Void> opened() {
        return opened;
    }

    /** Sends a message once there is room for it; false if the stream is over, or this side of it. */
    boolean send(Q message) throws InterruptedException {
        synchronized (writing) {
            while (!over && !halfClosed && !call.isReady()) {
                writing.wait();
            }
            if (over || halfClosed) {
                return false;
            }
            call.sendMessage(message);
            return true;
        }
    }

    /** Why the stream is over; null if it goes on, ended in order or was cancelled here. */
    @Nullable
    ToolgateException failure() {
        synchronized (writing) {
            return failure;
        }
    }

    void halfClose() {
        synchronized (writing) {
            if (!over && !halfClosed) {
                halfClosed = true;
                call.halfClose();
                writing.notifyAll();
            }
        }
    }

    /**
     * Returns the next message, or null at the end of the stream.
     *
     * @throws ToolgateException if the stream failed, or was silent for so long that its connection must be lost
     */
    @Nullable
    R next(Duration silence) throws InterruptedException {
        Item<R> item = inbox.poll(silence.toMillis(), TimeUnit.MILLISECONDS);
        if (item == null) {
            cancel("silent for too long");
            throw ToolgateException.of(
                    Status.Code.UNAVAILABLE, "the stream was silent for " + silence.toSeconds() + " s");
        }
        if (item.message() != null) {
            call.request(1);
            return item.message();
        }
        inbox.add(item);
        if (item.failure() != null) {
            throw item.failure();
        }
        return null;
    }

    void cancel(String why) {
        synchronized (writing) {
            over = true;
            writing.notifyAll();
        }
        call.cancel(why, null);
    }

    @Override
    public void onHeaders(Metadata headers) {
        opened.complete(null);
    }

    @Override
    public void onMessage(R message) {
        inbox.add(new Item<>(message, null));
    }

    @Override
    public void onReady() {
        synchronized (writing) {
            writing.notifyAll();
        }
    }

    @Override
    public void onClose(Status status, Metadata trailers) {
        ToolgateException failure = status.isOk() ? null : ToolgateException.of(status, trailers);
        synchronized (writing) {
            if (!over) {
                this.failure = failure;
            }
            over = true;
            writing.notifyAll();
        }
        inbox.add(new Item<>(null, failure));
        if (failure == null) {
            opened.complete(null);
        } else {
            opened.completeExceptionally(failure);
        }
    }
}
