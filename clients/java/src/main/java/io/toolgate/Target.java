package io.toolgate;

import java.net.URI;
import java.util.Locale;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * Where a service listens.
 *
 * @param address as gRPC names it
 * @param authority what requests name as the host; null for that of the address
 * @param encrypted whether TLS is spoken
 */
record Target(String address, @Nullable String authority, boolean encrypted) {
    private static final Set<String> LOOPBACK = Set.of("localhost", "::1", "[::1]");

    static Target parse(String text) {
        if (text.startsWith("unix:")) {
            String path = text.substring("unix:".length()).replaceFirst("^//(?=/)", "");
            if (!path.startsWith("/")) {
                throw unusable(text);
            }
            // The path of a socket is no host name, and services refuse it as one.
            return new Target("unix://" + path, "localhost", false);
        }
        boolean named = text.contains("://");
        URI uri = uri(named ? text : "//" + text, text);
        String scheme = named ? uri.getScheme().toLowerCase(Locale.ROOT) : "";
        if (uri.getHost() == null || !uri.getPath().isEmpty() && !uri.getPath().equals("/")) {
            throw unusable(text);
        }
        return switch (scheme) {
            case "http" -> tcp(uri, 80, false);
            case "https" -> tcp(uri, 443, true);
            case "" -> tcp(uri, -1, !isLoopback(uri.getHost()));
            default -> throw unusable(text);
        };
    }

    boolean isSocket() {
        return address.startsWith("unix:");
    }

    private static Target tcp(URI uri, int defaultPort, boolean encrypted) {
        int port = uri.getPort() == -1 ? defaultPort : uri.getPort();
        if (port == -1) {
            throw unusable(uri.getHost());
        }
        return new Target("dns:///" + uri.getHost() + ":" + port, null, encrypted);
    }

    private static boolean isLoopback(String host) {
        return LOOPBACK.contains(host) || host.startsWith("127.");
    }

    private static URI uri(String uri, String text) {
        try {
            return URI.create(uri);
        } catch (IllegalArgumentException malformed) {
            throw unusable(text);
        }
    }

    private static IllegalArgumentException unusable(String text) {
        return new IllegalArgumentException("not a target: \"" + text
                + "\"; use unix:/path, http://host:port, https://host:port, or host:port"
                + " (encrypted unless the host is this machine)");
    }
}
