package io.toolgate;

import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import org.jspecify.annotations.Nullable;

/** Says how long to wait before the next attempt, and when to give up. */
final class Backoff {
    private static final long FIRST_MILLIS = 50;
    private static final long MOST_MILLIS = 5_000;

    private final @Nullable Duration limit;
    private int failures;
    private long lastSuccess = System.nanoTime();

    /** {@code limit}: how long to go on without any success; null for ever. */
    Backoff(@Nullable Duration limit) {
        this.limit = limit;
    }

    void succeeded() {
        failures = 0;
        lastSuccess = System.nanoTime();
    }

    /** Returns the delay before the next attempt, or throws the failure if it was the last. */
    Duration after(ToolgateException failure) {
        Duration since = Duration.ofNanos(System.nanoTime() - lastSuccess);
        if (limit != null && since.compareTo(limit) >= 0) {
            throw failure;
        }
        long ceiling = Math.min(MOST_MILLIS, FIRST_MILLIS << Math.min(failures++, 10));
        // Half of it is random, so that the clients of a service that was away do not come back all at once.
        Duration delay =
                Duration.ofMillis(ceiling / 2 + ThreadLocalRandom.current().nextLong(ceiling / 2 + 1));
        return failure.retryDelay().filter(asked -> asked.compareTo(delay) > 0).orElse(delay);
    }
}
