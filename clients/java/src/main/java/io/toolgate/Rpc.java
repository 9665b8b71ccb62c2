package io.toolgate;

import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ClientCalls;
import java.time.Duration;
import java.util.concurrent.TimeUnit;

/** How this client makes RPCs: deadlines, retries, and what counts as a lost stream. */
final class Rpc {
    /** The silence of a stream that has no heartbeats; the connection's keepalive notices its loss. */
    static final Duration ANY_SILENCE = Duration.ofMillis(Long.MAX_VALUE);

    private static final int MOST_ATTEMPTS = 6;

    private final Channel channel;
    private final Runnable reconnect;
    private final Settings settings;

    /**
     * What bounds RPCs.
     *
     * @param deadline of a unary RPC
     * @param reconnectTimeout how long a call is gone after without any success
     * @param silence after which a stream counts as lost
     * @param freshTokens whether another token may be had when one has expired
     */
    record Settings(Duration deadline, Duration reconnectTimeout, Duration silence, boolean freshTokens) {}

    /** Something that may be made again when it has failed with a {@link ToolgateException}. */
    @FunctionalInterface
    interface Attempt<T, E extends Exception> {
        T make() throws E;
    }

    /** {@code reconnect} makes the channel try at once, instead of when its own pause is over. */
    Rpc(Channel channel, Runnable reconnect, Settings settings) {
        this.channel = channel;
        this.reconnect = reconnect;
        this.settings = settings;
    }

    Channel channel() {
        return channel;
    }

    Settings settings() {
        return settings;
    }

    void reconnect() {
        reconnect.run();
    }

    /** Makes a unary RPC that its contract lets be retried. */
    <Q, R> R call(MethodDescriptor<Q, R> method, Q request) {
        return retried(new Backoff(settings.deadline()), () -> once(method, request));
    }

    /** As {@link #call}, for an RPC that returns when its call has ended: a person may be asked, so it has no deadline. */
    <Q, R> R await(MethodDescriptor<Q, R> method, Q request) {
        return retried(() -> blocking(method, CallOptions.DEFAULT, request));
    }

    /** Makes a unary RPC that its contract does not let be retried. */
    <Q, R> R once(MethodDescriptor<Q, R> method, Q request) {
        CallOptions options =
                CallOptions.DEFAULT.withDeadlineAfter(settings.deadline().toMillis(), TimeUnit.MILLISECONDS);
        return blocking(method, options, request);
    }

    private <Q, R> R blocking(MethodDescriptor<Q, R> method, CallOptions options, Q request) {
        try {
            return ClientCalls.blockingUnaryCall(channel, method, options, request);
        } catch (StatusRuntimeException failure) {
            throw ToolgateException.of(failure);
        }
    }

    /** Makes what may be repeated, until it succeeds or has failed too often. */
    <T, E extends Exception> T retried(Attempt<T, E> attempt) throws E {
        return retried(new Backoff(null), attempt);
    }

    private <T, E extends Exception> T retried(Backoff backoff, Attempt<T, E> attempt) throws E {
        for (int made = 1; ; made++) {
            try {
                return attempt.make();
            } catch (ToolgateException failure) {
                if (made == MOST_ATTEMPTS
                        || !retryable(failure)
                        || Thread.currentThread().isInterrupted()) {
                    throw failure;
                }
                pause(backoff.after(failure));
                reconnect();
            }
        }
    }

    /** Whether the same RPC may succeed if it is made again. */
    boolean retryable(ToolgateException failure) {
        return failure.passing() || failure.expiredToken() && settings.freshTokens();
    }

    <Q, R> RpcStream<Q, R> open(MethodDescriptor<Q, R> method) {
        return RpcStream.open(channel, method);
    }

    <Q, R> RpcStream<Q, R> open(MethodDescriptor<Q, R> method, Q request) {
        return RpcStream.open(channel, method, request);
    }

    static void pause(Duration delay) {
        try {
            TimeUnit.NANOSECONDS.sleep(delay.toNanos());
        } catch (InterruptedException interrupted) {
            throw interrupted("interrupted while waiting to try again");
        }
    }

    /** Keeps the thread interrupted, and makes what is thrown in a method without checked exceptions. */
    static ToolgateException interrupted(String message) {
        Thread.currentThread().interrupt();
        return ToolgateException.of(Status.Code.CANCELLED, message);
    }
}
