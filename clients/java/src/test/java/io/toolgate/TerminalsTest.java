package io.toolgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.toolgate.testing.TestServer;
import io.toolgate.v1.GetTerminalResponse;
import io.toolgate.v1.SendInputResponse;
import io.toolgate.v1.Signal;
import io.toolgate.v1.TerminalSize;
import java.nio.charset.StandardCharsets;
import java.util.Iterator;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.function.Executable;

/** Commands in the background of the real service: their terminals, input and signals. */
@EnabledIfEnvironmentVariable(named = "TOOLGATE_BIN", matches = ".+")
@Timeout(90)
class TerminalsTest {
    private static TestServer server;
    private static ToolgateClient client;

    @BeforeAll
    static void start() throws Exception {
        server = new TestServer(Rules.JSON);
        client = server.client();
    }

    @AfterAll
    static void stop() {
        client.close();
        server.close();
    }

    private static void refused(Status.Code code, String reason, Executable action) {
        ToolgateException refused = assertThrows(ToolgateException.class, action);
        assertEquals(code, refused.code(), refused.getMessage());
        assertEquals(reason, refused.reason(), refused.getMessage());
    }

    /** Starts a command in the background, and returns its call. */
    private static String begin(Map<String, Object> input) {
        return client.run("bash", input).orElseThrow().proto().getCommand().getBackgroundCallId();
    }

    private static Map<String, Object> terminal(String command) {
        return Map.of(
                "command",
                command,
                "description",
                "Tests",
                "background",
                true,
                "terminal",
                Map.of("columns", 80, "rows", 24));
    }

    /** Reads the output of a call until it has this text. */
    private static void shows(StringBuilder shown, Iterator<CallEvent> events, String text) {
        while (shown.indexOf(text) == -1) {
            if (events.next() instanceof CallEvent.Output output) {
                shown.append(output.text());
            }
        }
    }

    private static SendInputResponse type(String callId, String keys) {
        return client.sendInput(callId, keys.getBytes(StandardCharsets.UTF_8));
    }

    @Test
    void aTerminalIsTypedToResizedShownAndSignalled() {
        String call = begin(terminal("echo ready; while read line; do echo \"got $line at\" $(stty size); done"));
        StringBuilder shown = new StringBuilder();
        try (Execution watched = client.watch(call)) {
            Iterator<CallEvent> events = watched.iterator();
            shows(shown, events, "ready");
            assertEquals(4, type(call, "one\r").getNextOffset());
            assertEquals(8, type(call, "two\r").getNextOffset());
            shows(shown, events, "got two at 24 80");
            assertTrue(shown.indexOf("got one at") != -1, shown.toString());
            client.resizeTerminal(call, 100, 30);
            GetTerminalResponse picture = client.terminal(call);
            assertEquals(TerminalSize.newBuilder().setColumns(100).setRows(30).build(), picture.getSize());
            assertTrue(picture.getContents().toStringUtf8().contains("got two"));
            assertTrue(picture.getLastSequence() > 0);
            type(call, "three\r");
            shows(shown, events, "got three at 30 100");
            client.signal(call, Signal.SIGNAL_TERM);
            CallResult.Completed end = watched.result().orElseThrow();
            assertEquals(15, end.proto().getCommand().getSignal());
        }
        refused(Status.Code.FAILED_PRECONDITION, "CALL_ENDED", () -> client.terminal(call));
        refused(Status.Code.FAILED_PRECONDITION, "CALL_ENDED", () -> client.resizeTerminal(call, 80, 24));
        refused(Status.Code.FAILED_PRECONDITION, "CALL_ENDED", () -> client.signal(call, Signal.SIGNAL_INT));
        refused(Status.Code.FAILED_PRECONDITION, "CALL_ENDED", () -> type(call, "late"));
    }

    @Test
    void whatHasNoTerminalHasNone() {
        String call = begin(Map.of("command", "cat", "description", "Tests", "background", true));
        refused(Status.Code.FAILED_PRECONDITION, "NO_TERMINAL", () -> client.terminal(call));
        refused(Status.Code.FAILED_PRECONDITION, "NO_TERMINAL", () -> client.resizeTerminal(call, 80, 24));
        refused(Status.Code.INVALID_ARGUMENT, "INVALID_FIELD", () -> client.signal(call, Signal.SIGNAL_UNSPECIFIED));
        refused(Status.Code.NOT_FOUND, "NOT_FOUND", () -> client.signal("nobody", Signal.SIGNAL_INT));
        assertEquals(5, type(call, "input").getNextOffset());
        client.sendInput(call, 5, new byte[0], true);
        try (Execution watched = client.watch(call)) {
            assertTrue(
                    watched.result().text().contains("input"), watched.result().text());
        }
    }
}
