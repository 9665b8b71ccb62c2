package io.toolgate;

import java.util.function.Function;
import java.util.stream.Stream;

/** Goes through the pages of a list. */
final class Pages {
    private Pages() {}

    static <P, T> Stream<T> stream(
            Function<String, P> fetch, Function<P, Stream<T>> items, Function<P, String> nextPageToken) {
        P first = fetch.apply("");
        return Stream.iterate(
                        first,
                        page -> page != null,
                        page -> nextPageToken.apply(page).isEmpty() ? null : fetch.apply(nextPageToken.apply(page)))
                .flatMap(items);
    }
}
