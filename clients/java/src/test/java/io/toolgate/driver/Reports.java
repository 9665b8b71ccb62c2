package io.toolgate.driver;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import tools.jackson.databind.json.JsonMapper;

/** Writes reports, one per line. */
final class Reports {
    private static final JsonMapper JSON = JsonMapper.builder().build();

    private final PrintStream out;

    Reports(PrintStream out) {
        this.out = out;
    }

    void write(Map<String, Object> report) {
        byte[] line = (JSON.writeValueAsString(report) + "\n").getBytes(StandardCharsets.UTF_8);
        synchronized (this) {
            out.write(line, 0, line.length);
            out.flush();
        }
    }
}
