package io.toolgate;

import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.EnumSet;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import org.jspecify.annotations.Nullable;

/** Keeps a stream in both directions open until it is closed or refused, however often its connection breaks. */
final class StreamLoop<Q, R> implements AutoCloseable {
    private static final Set<Status.Code> REFUSALS = EnumSet.of(
            Status.Code.INVALID_ARGUMENT,
            Status.Code.NOT_FOUND,
            Status.Code.FAILED_PRECONDITION,
            Status.Code.PERMISSION_DENIED,
            Status.Code.UNAUTHENTICATED,
            Status.Code.UNIMPLEMENTED);
    /** Whoever has the same token has taken the place of this stream. */
    private static final String REPLACED = "REPLACED";

    /** What is said over the stream. Everything is called by one thread. */
    interface Session<Q, R> {
        /** Says the first word on a new stream. */
        void begin(RpcStream<Q, R> stream) throws InterruptedException;

        void received(R message);

        /** The stream broke, and another one will be opened. */
        void lost(ToolgateException failure);
    }

    private final Rpc rpc;
    private final MethodDescriptor<Q, R> method;
    private final Session<Q, R> session;
    private final CountDownLatch closed = new CountDownLatch(1);
    private final CompletableFuture<Void> done = new CompletableFuture<>();
    private volatile @Nullable RpcStream<Q, R> stream;

    StreamLoop(Rpc rpc, MethodDescriptor<Q, R> method, Session<Q, R> session) {
        this.rpc = rpc;
        this.method = method;
        this.session = session;
    }

    void start(Executor executor) {
        executor.execute(this::run);
    }

    /** Completes when nothing more is received: closed, or refused with the failure. */
    CompletableFuture<Void> done() {
        return done;
    }

    private void run() {
        try {
            Backoff backoff = new Backoff(null);
            while (closed.getCount() > 0) {
                ToolgateException failure = receive(backoff);
                if (closed.getCount() == 0) {
                    break;
                }
                if (refused(failure)) {
                    throw failure;
                }
                session.lost(failure);
                if (!closed.await(backoff.after(failure).toNanos(), TimeUnit.NANOSECONDS)) {
                    rpc.reconnect();
                }
            }
            done.complete(null);
        } catch (InterruptedException clientClosed) {
            done.complete(null);
        } catch (RuntimeException failure) {
            done.completeExceptionally(failure);
        } finally {
            close();
        }
    }

    /** Receives until the stream breaks, and returns why. */
    private ToolgateException receive(Backoff backoff) throws InterruptedException {
        RpcStream<Q, R> current = rpc.open(method);
        stream = current;
        try {
            if (closed.getCount() > 0) {
                session.begin(current);
                R message = current.next(rpc.settings().silence());
                while (message != null) {
                    backoff.succeeded();
                    session.received(message);
                    message = current.next(rpc.settings().silence());
                }
            }
            return ToolgateException.of(Status.Code.UNAVAILABLE, "the service ended the stream");
        } catch (ToolgateException failure) {
            return failure;
        } finally {
            current.cancel("over");
        }
    }

    private boolean refused(ToolgateException failure) {
        if (failure.expiredToken() && rpc.settings().freshTokens()) {
            return false;
        }
        return REFUSALS.contains(failure.code()) || failure.reason().equals(REPLACED);
    }

    /** From now on an end of the stream is the end of the loop. */
    void finish() {
        closed.countDown();
    }

    @Override
    public void close() {
        finish();
        RpcStream<Q, R> current = stream;
        if (current != null) {
            current.cancel("closed");
        }
    }
}
