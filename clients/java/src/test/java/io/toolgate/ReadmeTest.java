package io.toolgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.toolgate.testing.TestServer;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/** Compiles and runs what the README shows. */
@EnabledIfEnvironmentVariable(named = "TOOLGATE_BIN", matches = ".+")
@Timeout(120)
class ReadmeTest {
    private static final Pattern BLOCK = Pattern.compile("```java\n(.*?)```", Pattern.DOTALL);
    private static final int FIRST_PROGRAM_LINES = 20;

    private final List<String> classes = new ArrayList<>();

    @Test
    void whatIsShownWorks(@TempDir Path folder) throws Exception {
        List<String> blocks = blocks();
        assertTrue(blocks.get(0).lines().count() <= FIRST_PROGRAM_LINES, "the first program is short");
        try (TestServer server = new TestServer(Rules.JSON);
                CuttingProxy proxy = new CuttingProxy(server.socket(), Long.MAX_VALUE);
                ToolgateClient client = server.client()) {
            String call = EchoProgram.begin(server, client);
            int port = EchoProgram.listening(client, call).getPort();
            Files.createDirectories(server.roots().resolve("shop"));
            List<Path> sources = new ArrayList<>();
            for (int index = 0; index < blocks.size(); index++) {
                String block = blocks.get(index)
                        .replace("http://127.0.0.1:50551", proxy.target())
                        .replace("/srv/checkouts", server.roots().toRealPath().toString())
                        .replace("\"CALL\", 8000", "\"" + call + "\", " + port);
                sources.add(write(folder, index, block));
            }
            compile(folder, sources);
            for (String name : classes) {
                run(folder, name, proxy.target());
            }
            assertTrue(Files.exists(server.work().resolve("made")), "the first program's command ran");
            client.cancel(call);
        }
    }

    private static List<String> blocks() throws IOException {
        Matcher matcher = BLOCK.matcher(Files.readString(Path.of("README.md")));
        return matcher.results().map(block -> block.group(1)).toList();
    }

    private Path write(Path folder, int index, String block) throws IOException {
        boolean whole = block.contains("public class First");
        String name = whole ? "First" : "Shown" + index;
        classes.add(name);
        return Files.writeString(folder.resolve(name + ".java"), whole ? block : wrapped(name, block));
    }

    private static String wrapped(String name, String block) {
        String imports = lines(block, true);
        String statements = lines(block, false);
        return """
                import io.toolgate.*;
                import java.util.Map;
                %s
                public class %s {
                    public static void main(String[] args) throws Exception {
                        try (ToolgateClient client = ToolgateClient.connect(args[0])) {
                            %s
                        }
                    }
                }
                """.formatted(imports, name, statements);
    }

    private static String lines(String block, boolean imports) {
        return block.lines()
                .filter(line -> line.startsWith("import ") == imports)
                .collect(Collectors.joining("\n"));
    }

    static void compile(Path folder, List<Path> sources) {
        List<String> arguments = new ArrayList<>(
                List.of("-proc:none", "-cp", System.getProperty("java.class.path"), "-d", folder.toString()));
        sources.forEach(source -> arguments.add(source.toString()));
        int status = ToolProvider.getSystemJavaCompiler().run(null, null, null, arguments.toArray(String[]::new));
        assertEquals(0, status, "what the README shows compiles");
    }

    /** Runs a program, for the service at the target, and returns what it prints. */
    static String run(Path folder, String name, String target) throws IOException, InterruptedException {
        String classPath = folder + File.pathSeparator + System.getProperty("java.class.path");
        Path printed = folder.resolve(name + ".out");
        Path log = folder.resolve(name + ".log");
        ProcessBuilder program = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-XX:TieredStopAtLevel=1",
                        "-cp",
                        classPath,
                        name,
                        target)
                .directory(folder.toFile())
                .redirectOutput(printed.toFile())
                .redirectError(log.toFile());
        program.environment().put("TOOLGATE_SERVER", target);
        Process running = program.start();
        try {
            assertEquals(0, running.waitFor(), () -> name + ": " + read(printed) + read(log));
            return read(printed);
        } finally {
            running.destroyForcibly();
        }
    }

    private static String read(Path log) {
        try {
            return Files.readString(log);
        } catch (IOException failure) {
            return failure.toString();
        }
    }
}
