package io.toolgate.springai;

import io.toolgate.ToolgateClient;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** The real program ({@code TOOLGATE_BIN}) in folders of its own, with rules that ask for {@code touch}. */
final class TestService implements AutoCloseable {
    private static final String RULES =
            "{\"permission\": {\"bash\": {\"*\": \"allow\", \"touch *\": \"ask\", \"rm *\": \"deny\"}}}";

    private final Path folder;
    private final Process process;

    TestService() throws IOException, InterruptedException {
        folder = Files.createTempDirectory("toolgate-java");
        Files.writeString(Files.createDirectories(work()).resolve("opencode.json"), RULES);
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
        builder.environment().put("HOME", folder.toString());
        builder.environment().remove("XDG_CONFIG_HOME");
        builder.redirectErrorStream(true).redirectOutput(folder.resolve("log").toFile());
        process = builder.start();
        awaitListening();
    }

    private static String program() {
        String program = System.getenv("TOOLGATE_BIN");
        if (program == null) {
            throw new IllegalStateException("set TOOLGATE_BIN to the program of the service");
        }
        return program;
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

    private Path socket() {
        return folder.resolve("s");
    }

    Path work() {
        return folder.resolve("work");
    }

    ToolgateClient client() {
        return ToolgateClient.connect("unix:" + socket());
    }

    @Override
    public void close() throws IOException {
        process.destroy();
        try {
            if (!process.waitFor(10, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException interrupted) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
        List<Path> all;
        try (var files = Files.walk(folder)) {
            all = files.sorted(Comparator.reverseOrder()).toList();
        }
        for (Path each : all) {
            Files.deleteIfExists(each);
        }
    }
}
