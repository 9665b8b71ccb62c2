package io.toolgate;

/** Where this library logs: what it does by itself and nobody waits for. */
final class Log {
    static final System.Logger LOG = System.getLogger("io.toolgate");

    private Log() {}
}
