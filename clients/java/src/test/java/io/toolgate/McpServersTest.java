package io.toolgate;

import static io.toolgate.Refusals.refused;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.toolgate.testing.TestServer;
import io.toolgate.v1.CallContext;
import io.toolgate.v1.CallStart;
import io.toolgate.v1.CompleteMcpArgumentRequest;
import io.toolgate.v1.CompleteMcpArgumentResponse;
import io.toolgate.v1.ErrorReason;
import io.toolgate.v1.GetMcpPromptRequest;
import io.toolgate.v1.ListMcpPromptsRequest;
import io.toolgate.v1.ListMcpResourceTemplatesRequest;
import io.toolgate.v1.ListMcpResourcesRequest;
import io.toolgate.v1.McpOmission;
import io.toolgate.v1.McpPrompt;
import io.toolgate.v1.McpPromptMessage;
import io.toolgate.v1.McpResource;
import io.toolgate.v1.McpRole;
import io.toolgate.v1.ReadMcpResourceRequest;
import io.toolgate.v1.ReadMcpResourceResponse;
import io.toolgate.v1.Unattended;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** What an MCP server of the real service has beside tools; another one does not start. */
@EnabledIfEnvironmentVariable(named = "TOOLGATE_BIN", matches = ".+")
@Timeout(90)
class McpServersTest {
    private static final String CONFIG = """
            {"mcp": {
               "notes": {"type": "local", "command": ["python3", "%s"]},
               "gone": {"type": "local", "command": ["false"]}},
             "permission": {"read": {
               "*": "allow", "mcp:notes:notes://7": "deny", "mcp:notes:notes://8": "ask",
               "mcp:notes:prompt:private": "ask"}}}
            """;
    private static final CallStart WAITING =
            CallStart.newBuilder().setUnattended(Unattended.UNATTENDED_WAIT).build();

    private static TestServer server;
    private static ToolgateClient client;

    @BeforeAll
    static void start() throws Exception {
        server = new TestServer(
                CONFIG.formatted(Path.of("../mcp-server.py").toAbsolutePath().normalize()));
        client = server.client();
        ListMcpResourceTemplatesRequest request =
                ListMcpResourceTemplatesRequest.newBuilder().setServer("notes").build();
        while (true) {
            try {
                client.mcp().templates(request, omission -> {}).toList();
                return;
            } catch (ToolgateException failure) {
                // Only right after its start the service waits for it.
                assertEquals("MCP_SERVER_NOT_READY", failure.reason(), failure.getMessage());
                Thread.sleep(50);
            }
        }
    }

    @AfterAll
    static void stop() {
        client.close();
        server.close();
    }

    @Test
    void listsHaveAllPagesAndSayWhatIsLeftOut() {
        McpServers mcp = client.mcp();
        List<McpOmission> omitted = new ArrayList<>();
        ListMcpResourcesRequest small =
                ListMcpResourcesRequest.newBuilder().setPageSize(50).build();
        // What a rule denies is not there.
        assertEquals(
                LongStream.range(0, 120).filter(day -> day != 7).boxed().toList(),
                mcp.resources(small, omitted::add)
                        .map(McpResource::getSizeBytes)
                        .toList());
        assertEquals(1, omitted.size());
        assertEquals("gone", omitted.get(0).getServer());
        assertEquals(
                ErrorReason.ERROR_REASON_MCP_SERVER_NOT_READY, omitted.get(0).getReason());
        assertEquals(119, mcp.resources().count());
        assertEquals("notes://{day}", mcp.templates().findFirst().orElseThrow().getUriTemplate());
        List<McpPrompt> prompts = mcp.prompts().toList();
        assertEquals("plan", prompts.get(0).getName());
        assertEquals("day", prompts.get(0).getArguments(0).getName());
        ListMcpPromptsRequest gone =
                ListMcpPromptsRequest.newBuilder().setServer("gone").build();
        refused(Status.Code.FAILED_PRECONDITION, "MCP_SERVER_NOT_READY", () -> mcp.prompts(gone, omission -> {}));
    }

    @Test
    void whatAServerHasIsRead() {
        McpServers mcp = client.mcp();
        ReadMcpResourceResponse read = mcp.read("notes", "notes://new");
        assertEquals("This is notes://new.", read.getContents(0).getText());
        assertEquals(
                ByteString.copyFrom(new byte[] {0, 1, 2}), read.getContents(1).getBlob());
        assertEquals("mcp-read_notes", client.get(read.getCallId()).getTool());
        CallContext context = CallContext.newBuilder().setSessionId("mcp").build();
        ReadMcpResourceRequest named = ReadMcpResourceRequest.newBuilder()
                .setCall(CallStart.newBuilder().setCallId("reading").setContext(context))
                .setServer("notes")
                .setUri("notes://new")
                .build();
        assertEquals("reading", mcp.read(named).getCallId());
        assertEquals("mcp", client.get("reading").getContext().getSessionId());
        McpPromptMessage message =
                mcp.prompt("notes", "plan", Map.of("day", "today")).getMessages(0);
        assertEquals(McpRole.MCP_ROLE_USER, message.getRole());
        assertEquals("{\"day\": \"today\"}", message.getText());
        CompleteMcpArgumentRequest typed = CompleteMcpArgumentRequest.newBuilder()
                .setServer("notes")
                .setPrompt("plan")
                .setArgument("day")
                .setValue("to")
                .putArguments("week", "48")
                .build();
        CompleteMcpArgumentResponse hints = mcp.complete(typed);
        assertEquals(List.of("today", "plan", "48"), hints.getValuesList());
        assertEquals(7, hints.getTotal());
    }

    @Test
    void whatIsNotReadSaysWhy() {
        McpServers mcp = client.mcp();
        ToolgateException denied =
                refused(Status.Code.PERMISSION_DENIED, "DENIED_BY_RULE", () -> mcp.read("notes", "notes://7"));
        assertEquals(
                "mcp-read_notes", client.get(denied.metadata().get("call_id")).getTool());
        // Nobody is there to ask.
        refused(Status.Code.PERMISSION_DENIED, "PERMISSION_NEEDED", () -> mcp.read("notes", "notes://8"));
        refused(Status.Code.NOT_FOUND, "NOT_FOUND", () -> mcp.read("nobody", "notes://1"));
        ToolgateException missing = refused(
                Status.Code.INVALID_ARGUMENT, "MCP_ARGUMENT_MISSING", () -> mcp.prompt("notes", "plan", Map.of()));
        assertEquals("day", missing.metadata().get("argument"));
    }

    @Test
    void peopleAreWaitedForAsLongAsTheyThink() {
        PromptHandler handler = prompt -> {
            // Longer than other RPCs may take.
            Thread.sleep(1500);
            String pattern = prompt.proto().getPermission().getPatterns(0);
            return pattern.equals("mcp:notes:notes://8") ? Decision.once() : Decision.reject("not that");
        };
        ReadMcpResourceRequest read = ReadMcpResourceRequest.newBuilder()
                .setCall(WAITING)
                .setServer("notes")
                .setUri("notes://8")
                .build();
        GetMcpPromptRequest prompt = GetMcpPromptRequest.newBuilder()
                .setCall(WAITING)
                .setServer("notes")
                .setName("private")
                .build();
        try (ToolgateClient hasty = ToolgateClient.builder()
                        .target(server.target())
                        .deadline(Duration.ofSeconds(1))
                        .build();
                Approvals approvals = hasty.approvals(handler)) {
            assertEquals(
                    "This is notes://8.", hasty.mcp().read(read).getContents(0).getText());
            refused(Status.Code.PERMISSION_DENIED, "REJECTED", () -> hasty.mcp().prompt(prompt));
            assertFalse(approvals.done().isDone());
        }
    }
}
