package io.toolgate;

import java.security.SecureRandom;
import java.util.UUID;

/** Makes identifiers that sort by the time of their making (RFC 9562, version 7). */
final class Uuid7 {
    private static final SecureRandom RANDOM = new SecureRandom();

    private Uuid7() {}

    static String next() {
        return at(System.currentTimeMillis()).toString();
    }

    static UUID at(long millis) {
        long high = millis << 16 | 0x7000 | RANDOM.nextInt(1 << 12);
        long low = RANDOM.nextLong() >>> 2 | 1L << 63;
        return new UUID(high, low);
    }
}
