package io.toolgate;

import io.toolgate.v1.HostWelcome;

/** Is told what becomes of a host. Unless overridden, its methods log what a person should know. */
public interface HostListener {
    /**
     * What is lent can be called. Called again after each reconnection.
     *
     * @param welcome what the service says: what it refused, and why
     */
    default void ready(HostWelcome welcome) {
        welcome.getRefusedList()
                .forEach(refused -> Log.LOG.log(
                        System.Logger.Level.WARNING, "{0} is not lent: {1}", refused.getName(), refused.getReason()));
    }

    /**
     * A function was interrupted, because nobody waits for its result any more.
     *
     * @param invocation what it was called for
     */
    default void cancelled(Invocation invocation) {}

    /**
     * The connection is lost and will be made again.
     *
     * @param failure how it was lost
     */
    default void lost(ToolgateException failure) {
        Log.LOG.log(System.Logger.Level.INFO, "connecting again: {0}", failure.getMessage());
    }
}
