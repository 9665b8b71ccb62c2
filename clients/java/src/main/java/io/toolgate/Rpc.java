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
        Backoff backoff = new Backoff(settings.deadline());
        for (int attempt = 1; ; attempt++) {
            try {
                return once(method, request);
            } catch (ToolgateException failure) {
                if (attempt == MOST_ATTEMPTS
                        || !retryable(failure)
                        || Thread.currentThread().isInterrupted()) {
                    throw failure;
                }
                pause(backoff.after(failure));
                reconnect();
            }
        }
    }

    private <Q, R> R once(MethodDescriptor<Q, R> method, Q request) {
        CallOptions options =
                CallOptions.DEFAULT.withDeadlineAfter(settings.deadline().toMillis(), TimeUnit.MILLISECONDS);
        try {
            return ClientCalls.blockingUnaryCall(channel, method, options, request);
        } catch (StatusRuntimeException failure) {
            throw ToolgateException.of(failure);
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
