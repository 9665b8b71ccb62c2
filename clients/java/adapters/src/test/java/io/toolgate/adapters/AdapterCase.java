package io.toolgate.adapters;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.toolgate.ToolgateClient;
import io.toolgate.testing.TestServer;
import io.toolgate.v1.Call;
import io.toolgate.v1.CallState;
import io.toolgate.v1.FailureReason;
import io.toolgate.v1.ListCallsRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;

/** What the tests of every adapter need: a service of their own, with rules that ask for {@code touch}, and a client. */
public abstract class AdapterCase {
    /** A picture of one pixel. */
    protected static final String PIXEL =
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    private static final String RULES =
            "{\"permission\": {\"bash\": {\"*\": \"allow\", \"touch *\": \"ask\", \"rm *\": \"deny\"}}}";

    /** The service. */
    protected TestServer service;

    /** A client of it. */
    protected ToolgateClient client;

    @BeforeEach
    protected void startService() throws IOException, InterruptedException {
        service = new TestServer(RULES);
        client = service.client();
    }

    @AfterEach
    protected void stopService() {
        client.close();
        service.close();
    }

    /** Waits until the latest call is in a state. */
    protected Call awaitState(CallState state) throws InterruptedException {
        for (int left = 30_000 / 20; left > 0; left--) {
            List<Call> calls = calls();
            if (!calls.isEmpty() && calls.get(0).getState() == state) {
                return calls.get(0);
            }
            Thread.sleep(20);
        }
        throw new AssertionError("no call is " + state);
    }

    /** Waits for the end of the latest call, which has to be that it was cancelled. */
    protected void assertCancelled() throws InterruptedException {
        Call cancelled = client.get(awaitState(CallState.CALL_STATE_FAILED).getCallId());
        assertEquals(
                FailureReason.FAILURE_REASON_CANCELLED, cancelled.getFailed().getReason());
    }

    /** Returns the only call that was made. */
    protected Call only() {
        assertEquals(1, calls().size());
        return calls().get(0);
    }

    private List<Call> calls() {
        return client.calls(ListCallsRequest.getDefaultInstance()).toList();
    }

    /** Says whether the README of an adapter shows what is compiled and tested. */
    protected static void assertShownInReadme(Path source) throws IOException {
        String example = Files.readString(source);
        String shown = example.substring(
                example.indexOf("begins here.\n") + 13, example.indexOf("    // The README ends here."));
        assertTrue(Files.readString(Path.of("README.md"))
                .contains("```java\n" + shown.stripTrailing().stripIndent() + "\n```"));
    }
}
