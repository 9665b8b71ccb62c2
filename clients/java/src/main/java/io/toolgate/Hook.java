package io.toolgate;

/** Takes part in every call of a workspace at one point. */
@FunctionalInterface
public interface Hook {
    /**
     * Runs the hook. It has 25 seconds, 5 for {@code tool.definition}.
     *
     * @param inputJson what it is about: an object, as plugins know it
     * @param outputJson what it may change: an object
     * @return {@code outputJson}, changed or not
     * @throws Exception to refuse: its message is the reason
     */
    String run(String inputJson, String outputJson) throws Exception;
}
