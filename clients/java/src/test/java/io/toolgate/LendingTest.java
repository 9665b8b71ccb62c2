package io.toolgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.toolgate.testing.TestServer;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Hooks and subagents, lent to the real service. */
@EnabledIfEnvironmentVariable(named = "TOOLGATE_BIN", matches = ".+")
@Timeout(90)
class LendingTest {
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

    private static Map<String, Object> bash(String command) {
        return Map.of("command", command, "description", "Tests");
    }

    @Test
    void hooksChangeAndRefuseCalls() throws Exception {
        HostOptions options = HostOptions.named("hooks").hook("tool.execute.before", (input, output) -> {
            if (output.contains("forbidden")) {
                throw new IllegalStateException("not today");
            }
            return output.replace("echo plain", "echo hooked");
        });
        try (ToolHost host = client.host(options)) {
            assertEquals(0, host.ready().get(30, TimeUnit.SECONDS).getRefusedCount());
            assertEquals("hooked\n", client.run("bash", bash("echo plain")).text());
            CallResult refused = client.run("bash", bash("echo forbidden"));
            assertFalse(refused.ok());
            assertTrue(refused.text().contains("not today"), refused.text());
        }
        assertEquals("plain\n", client.run("bash", bash("echo plain")).text());
    }

    @Test
    void aSubagentWorksInASessionOfItsOwn() throws Exception {
        BlockingQueue<String> prompts = new LinkedBlockingQueue<>();
        SubagentRunner runner = (task, invocation) -> {
            prompts.add(task.getPrompt());
            invocation.progress("Looking", Map.of());
            ToolCall call = ToolCall.of("bash", bash("echo found"))
                    .session(task.getSessionId())
                    .agent(task.getAgent())
                    .parent(task.getCallId());
            return ToolOutput.text("It says: " + client.run(call).text());
        };
        try (ToolHost host = client.host(HostOptions.named("agents").subagents(runner, "general"))) {
            host.ready().get(30, TimeUnit.SECONDS);
            Map<String, Object> input =
                    Map.of("description", "Looks", "prompt", "Look for it.", "subagent_type", "general");
            CallResult result = client.run(ToolCall.of("task", input).session("parent"));
            assertTrue(result.ok(), result.text());
            assertTrue(result.text().contains("It says: found"), result.text());
            assertEquals("Look for it.", prompts.poll(10, TimeUnit.SECONDS));
        }
    }
}
