package io.toolgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.toolgate.testing.TestServer;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/** Compiles and runs the programs of the guides in {@code docs/guides/}, which print what their page says. */
@EnabledIfEnvironmentVariable(named = "TOOLGATE_BIN", matches = ".+")
@Timeout(300)
class GuidesTest {
    /** A program, and what the page says that it prints. */
    private static final Pattern PROGRAM =
            Pattern.compile("^```java\n(.*?)^```$.*?^```text\n(.*?)^```$", Pattern.DOTALL | Pattern.MULTILINE);

    private static final Pattern NAME = Pattern.compile("public class (\\w+)");

    @Test
    void whatIsShownWorks(@TempDir Path folder) throws Exception {
        Map<String, String> printed = new LinkedHashMap<>();
        List<Path> sources = new ArrayList<>();
        for (MatchResult program : programs()) {
            Matcher name = NAME.matcher(program.group(1));
            assertTrue(name.find(), "a program has a public class");
            printed.put(name.group(1), program.group(2));
            sources.add(Files.writeString(folder.resolve(name.group(1) + ".java"), program.group(1)));
        }
        assertTrue(printed.size() >= 8, "there are programs");
        ReadmeTest.compile(folder, sources);
        try (TestServer server = new TestServer(Rules.JSON)) {
            for (Map.Entry<String, String> each : printed.entrySet()) {
                assertEquals(each.getValue(), ReadmeTest.run(folder, each.getKey(), server.target()), each.getKey());
            }
        }
    }

    private static List<MatchResult> programs() throws IOException {
        List<MatchResult> programs = new ArrayList<>();
        try (Stream<Path> files = Files.list(Path.of("../../docs/guides"))) {
            for (Path guide :
                    files.filter(file -> file.toString().endsWith(".md")).toList()) {
                programs.addAll(
                        PROGRAM.matcher(Files.readString(guide)).results().toList());
            }
        }
        return programs;
    }
}
