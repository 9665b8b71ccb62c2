package io.toolgate.testing;

import io.toolgate.ToolgateClient;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;

/** The real program ({@code TOOLGATE_BIN}) in folders of its own, for the tests of the library and of its adapters. */
public final class TestServer implements AutoCloseable {
    private final Path folder;
    private Process process;

    /**
     * Starts it.
     *
     * @param rules an {@code opencode.json}
     */
    public TestServer(String rules) throws IOException, InterruptedException {
        folder = Files.createTempDirectory("toolgate-java");
        Files.createDirectories(work());
        Files.createDirectories(roots());
        Path config = Files.createDirectories(folder.resolve("home/.config/opencode"));
        Files.writeString(config.resolve("opencode.json"), rules);
        start();
    }

    /** Names the program. */
    public static String program() {
        String program = System.getenv("TOOLGATE_BIN");
        if (program == null) {
            throw new IllegalStateException("set TOOLGATE_BIN to the program of the service");
        }
        return program;
    }

    /** Starts it again after {@link #kill}. */
    public void start() throws IOException, InterruptedException {
        ProcessBuilder builder = new ProcessBuilder(
                program(),
                "serve",
                "--no-tcp",
                "--socket",
                socket().toString(),
                "--data-dir",
                folder.resolve("data").toString(),
                "--workspace",
                "default=" + work());
        builder.environment().put("HOME", folder.resolve("home").toString());
        builder.environment().put("TOOLGATE_WORKSPACE_ROOTS", roots().toString());
        builder.environment().remove("XDG_CONFIG_HOME");
        builder.redirectErrorStream(true)
                .redirectOutput(
                        ProcessBuilder.Redirect.appendTo(folder.resolve("log").toFile()));
        process = builder.start();
        awaitListening();
    }

    private void awaitListening() throws IOException, InterruptedException {
        for (long left = 60_000 / 20; left > 0 && process.isAlive(); left--) {
            try (SocketChannel probe = SocketChannel.open(StandardProtocolFamily.UNIX)) {
                probe.connect(UnixDomainSocketAddress.of(socket()));
                return;
            } catch (IOException notYet) {
                Thread.sleep(20);
            }
        }
        throw new IOException("the service does not listen:\n" + Files.readString(folder.resolve("log")));
    }

    /** Ends the service as a crash would. */
    public void kill() throws InterruptedException {
        process.destroyForcibly().waitFor(10, TimeUnit.SECONDS);
    }

    /** The folder of the workspace {@code default}. */
    public Path work() {
        return folder.resolve("work");
    }

    /** The folder below which workspaces may be opened. */
    public Path roots() {
        return folder.resolve("roots");
    }

    /** Where it listens. */
    public Path socket() {
        return folder.resolve("s");
    }

    /** Where a client finds it. */
    public String target() {
        return "unix:" + socket();
    }

    /** Makes a client; close it. */
    public ToolgateClient client() {
        return ToolgateClient.connect(target());
    }

    @Override
    public void close() {
        process.destroy();
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
            delete();
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }

    private void delete() {
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted(Comparator.reverseOrder())
                    .forEach(file -> file.toFile().delete());
        } catch (IOException failure) {
            throw new UncheckedIOException(failure);
        }
    }
}
