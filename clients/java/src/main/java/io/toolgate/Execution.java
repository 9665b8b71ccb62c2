package io.toolgate;

import io.grpc.Status;
import io.toolgate.v1.Call;
import io.toolgate.v1.CancelCallRequest;
import io.toolgate.v1.ToolServiceGrpc;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.Objects;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Executor;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * A call that is being executed, or watched.
 *
 * <p>Iterating gives its events as they come and ends with the call; {@link #result()} waits for the end, whether anybody
 * iterates or not. A lost connection is taken up again where it broke, by whoever iterates or waits: while nobody does,
 * nothing is done about it. A loop that falls behind slows nothing but itself.
 *
 * <p>Closing an execution before its end cancels the call, and so do interrupting a thread that waits for it and cancelling
 * its {@link #future()}, unless it was said that the call should go on ({@link ToolCall#onDisconnect}, {@link #detach()}),
 * or it is only watched. {@link #cancel()} cancels in any case.
 */
public final class Execution implements AutoCloseable, Iterable<CallEvent> {
    private static final Duration LONGEST_CLOSE = Duration.ofSeconds(10);
    private static final Duration LONGEST_ADMISSION = Duration.ofSeconds(5);

    private final Rpc rpc;
    private final Executor executor;
    private final String callId;
    private final CallFollower follower;
    private final Consumer<Execution> onEnd;
    private final ReentrantLock reading = new ReentrantLock();
    private final Queue<CallEvent> unread = new ArrayDeque<>();
    private final AtomicReference<CompletableFuture<Call>> cancelling = new AtomicReference<>();
    private volatile boolean iterated;
    private volatile boolean owned;

    Execution(
            Rpc rpc,
            Executor executor,
            String callId,
            CallFollower follower,
            boolean owned,
            Consumer<Execution> onEnd) {
        this.rpc = rpc;
        this.executor = executor;
        this.callId = callId;
        this.follower = follower;
        this.owned = owned;
        this.onEnd = onEnd;
    }

    /**
     * Returns the call's id.
     *
     * @return the id
     */
    public String callId() {
        return callId;
    }

    /**
     * Iterates over the events as they come. There is one sequence of events, however often this is called.
     *
     * <p>The iterator throws {@link ToolgateException} when the events cannot be had: the call was not admitted, or the
     * service was out of reach for too long.
     *
     * @return the iterator
     */
    @Override
    public Iterator<CallEvent> iterator() {
        iterate();
        return new Pulled<>(this::take, "call " + callId + " has ended");
    }

    /**
     * Publishes the events to one subscriber, on a thread of the client. Cancelling the subscription is closing.
     *
     * @return the publisher
     */
    public Flow.Publisher<CallEvent> publisher() {
        return new EventPublisher(this, executor);
    }

    /**
     * Waits for the end of the call.
     *
     * <p>Events that nobody has iterated over are kept if {@link #iterator()} was called before, and dropped otherwise.
     *
     * @return how the call ended; a failed call is a result
     * @throws ToolgateException if there is no result: the call was not admitted, the service was out of reach for too long,
     *     or the thread was interrupted (code {@code CANCELLED}; it stays interrupted)
     */
    public CallResult result() {
        while (true) {
            if (read(iterated) == null) {
                return Objects.requireNonNull(follower.result(), "a call without further events has a result");
            }
        }
    }

    /**
     * Waits for the end of the call on a thread of the client. Cancelling the future cancels the call.
     *
     * @return the result to be
     */
    public CompletableFuture<CallResult> future() {
        CompletableFuture<CallResult> future = CompletableFuture.supplyAsync(this::result, executor);
        future.whenComplete((result, failure) -> {
            if (future.isCancelled()) {
                abandon();
            }
        });
        return future;
    }

    /**
     * Asks the call to stop, and waits until it has ended and its programs are gone.
     *
     * @return the call's record, as it ended
     * @throws ToolgateException if the call could not be told
     */
    public Call cancel() {
        try {
            return cancelAsync().get();
        } catch (InterruptedException interrupted) {
            throw Rpc.interrupted("interrupted while cancelling; the call is still being told to stop");
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof ToolgateException failure
                    ? failure
                    : new IllegalStateException(failed.getCause());
        }
    }

    /** Leaves the call running when this execution is closed. */
    public void detach() {
        owned = false;
    }

    /** Cancels the call if it still runs and is this execution's own, and waits until it has ended. */
    @Override
    public void close() {
        if (owned && follower.result() == null) {
            await(cancelAsync());
        }
        follower.close();
        onEnd.accept(this);
    }

    private void await(CompletableFuture<Call> cancelled) {
        try {
            cancelled.get(LONGEST_CLOSE.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException interrupted) {
            // It goes on without this thread.
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException untold) {
            Log.LOG.log(System.Logger.Level.WARNING, "call {0} may still run: {1}", callId, untold);
        }
    }

    /** Whoever waited does not any more. */
    void abandon() {
        if (owned && follower.result() == null) {
            cancelAsync();
        }
    }

    /** Cancels on a thread of the client, once, however often it is asked for. */
    CompletableFuture<Call> cancelAsync() {
        CompletableFuture<Call> mine = new CompletableFuture<>();
        CompletableFuture<Call> earlier = cancelling.compareAndExchange(null, mine);
        if (earlier != null) {
            return earlier;
        }
        follower.abandonStart();
        executor.execute(() -> {
            try {
                mine.complete(tellToStop());
            } catch (RuntimeException failure) {
                cancelling.set(null);
                mine.completeExceptionally(failure);
            }
        });
        return mine;
    }

    /** The start may still be on its way, and the service not know the call yet. */
    private Call tellToStop() {
        CancelCallRequest request =
                CancelCallRequest.newBuilder().setCallId(callId).build();
        Backoff backoff = new Backoff(LONGEST_ADMISSION);
        while (true) {
            try {
                return rpc.call(ToolServiceGrpc.getCancelCallMethod(), request).getCall();
            } catch (ToolgateException failure) {
                if (failure.code() != Status.Code.NOT_FOUND || follower.begun()) {
                    throw failure;
                }
                Rpc.pause(backoff.after(failure));
            }
        }
    }

    /** From now on events are kept for who iterates. */
    void iterate() {
        iterated = true;
    }

    /** Returns the next event, or null after the last; {@code keep}: the event is left for who iterates. */
    private @Nullable CallEvent read(boolean keep) {
        try {
            reading.lockInterruptibly();
            try {
                if (!keep && !unread.isEmpty()) {
                    return unread.remove();
                }
                CallEvent event = follower.next();
                if (event == null || follower.result() != null) {
                    onEnd.accept(this);
                }
                if (keep && event != null) {
                    unread.add(event);
                }
                return event;
            } finally {
                reading.unlock();
            }
        } catch (InterruptedException interrupted) {
            abandon();
            throw Rpc.interrupted("interrupted while waiting for call " + callId);
        }
    }

    /** Returns the next event, or null after the last. */
    @Nullable
    CallEvent take() {
        return read(false);
    }
}
