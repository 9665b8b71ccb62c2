package io.toolgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.toolgate.testing.TestServer;
import io.toolgate.v1.CallEvaluation;
import io.toolgate.v1.FailureReason;
import io.toolgate.v1.GetSessionRequest;
import io.toolgate.v1.HostWelcome;
import io.toolgate.v1.ListCallsRequest;
import io.toolgate.v1.ModelRef;
import io.toolgate.v1.PermissionAction;
import io.toolgate.v1.PromptReplyResult;
import io.toolgate.v1.ReplyResult;
import io.toolgate.v1.SessionServiceGrpc;
import io.toolgate.v1.ToolSource;
import io.toolgate.v1.WatchEventsRequest;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/** The library against the real service. */
@EnabledIfEnvironmentVariable(named = "TOOLGATE_BIN", matches = ".+")
@Timeout(90)
class ServerTest {
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
    void listsToolsInTheFormsOfModels() {
        ToolList tools = client.tools();
        Tool bash = tools.find("bash").orElseThrow();
        assertEquals(ToolSource.TOOL_SOURCE_BUILTIN, bash.source());
        assertEquals("object", bash.inputSchema().get("type"));
        assertFalse(tools.etag().isEmpty());
        assertEquals("function", tools.openai().get(0).get("type"));
        assertTrue(tools.anthropic().stream().anyMatch(tool -> "bash".equals(tool.get("name"))));
        List<?> declarations = (List<?>) tools.gemini().get(0).get("functionDeclarations");
        assertTrue(declarations.size() > 5);
    }

    @Test
    void executesAndTellsWhatHappens() {
        try (Execution execution = client.execute("bash", bash("echo hello"))) {
            StringBuilder output = new StringBuilder();
            List<Long> sequences = new ArrayList<>();
            for (CallEvent event : execution) {
                sequences.add(event.sequence());
                if (event instanceof CallEvent.Output piece) {
                    output.append(piece.text());
                }
            }
            assertEquals("hello\n", output.toString());
            assertEquals(
                    IntStream.rangeClosed(1, sequences.size())
                            .mapToObj(Long::valueOf)
                            .toList(),
                    sequences);
            assertEquals("hello\n", execution.result().orElseThrow().output());
            assertEquals(0L, execution.result().metadata().get("exit"));
        }
    }

    @Test
    void malformedInputIsAResult() {
        try (Execution execution = client.execute("bash", "{not json")) {
            assertTrue(execution.result().text().contains("invalid"));
        }
    }

    @Test
    void whatIsDeniedFails() {
        CallResult result = client.run("bash", bash("rm -rf nothing"));
        CallResult.Failed failed = assertInstanceOf(CallResult.Failed.class, result);
        assertEquals(FailureReason.FAILURE_REASON_DENIED, failed.reason());
        assertThrows(CallFailedException.class, result::orElseThrow);
    }

    @Test
    void anUnknownCallIsAnError() {
        ToolgateException failure = assertThrows(ToolgateException.class, () -> client.get("nobody"));
        assertEquals(Status.Code.NOT_FOUND, failure.code());
        assertEquals("NOT_FOUND", failure.reason());
    }

    @Test
    void handlersDecide() throws Exception {
        BlockingQueue<ReplyResult> results = new LinkedBlockingQueue<>();
        ApprovalListener listener = new ApprovalListener() {
            @Override
            public void replied(Prompt prompt, PromptReplyResult result) {
                results.add(result.getResult());
            }
        };
        ApprovalOptions options = ApprovalOptions.named("ann").session("decide").listener(listener);
        try (Approvals approvals = client.approvals(options, ServerTest::decide)) {
            assertTrue(run("decide", "touch approved").ok());
            assertTrue(Files.exists(server.work().resolve("approved")));
            CallResult.Failed refused = assertInstanceOf(CallResult.Failed.class, run("decide", "touch refused"));
            assertEquals(FailureReason.FAILURE_REASON_REJECTED, refused.reason());
            assertTrue(refused.error().contains("not that one"));
            assertTrue(run("decide", "touch replaced").ok());
            assertFalse(Files.exists(server.work().resolve("replaced")));
            for (int reply = 0; reply < 3; reply++) {
                assertEquals(ReplyResult.REPLY_RESULT_ACCEPTED, results.poll(10, TimeUnit.SECONDS));
            }
            assertFalse(approvals.done().isDone());
        }
    }

    private static Decision decide(Prompt prompt) {
        PermissionPrompt permission = (PermissionPrompt) prompt;
        return switch (permission.patterns().get(0)) {
            case "touch approved" -> Decision.once();
            case "touch replaced" -> Decision.instead(bash("echo replaced"));
            default -> Decision.reject("not that one");
        };
    }

    private static CallResult run(String session, String command) {
        return client.run(ToolCall.of("bash", bash(command)).session(session));
    }

    @Test
    void anInputThatDoesNotFitIsAskedAboutAgain() {
        BlockingQueue<String> problems = new LinkedBlockingQueue<>();
        ApprovalOptions options = ApprovalOptions.named("ann").session("misfit");
        PromptHandler handler = prompt -> {
            problems.add(prompt.problem().orElse(""));
            return prompt.problem().isPresent() ? Decision.once() : Decision.instead(Map.of("command", 7));
        };
        try (Approvals approvals = client.approvals(options, handler)) {
            assertTrue(run("misfit", "touch misfit").ok());
            assertEquals("", problems.remove());
            assertTrue(problems.remove().contains("command"));
            assertFalse(approvals.done().isDone());
        }
    }

    @Test
    void aHandlerThatDecidesOverACutConnectionIsHeardOnce() throws Exception {
        AtomicInteger handled = new AtomicInteger();
        CompletableFuture<Void> asked = new CompletableFuture<>();
        CompletableFuture<Decision> decision = new CompletableFuture<>();
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        ApprovalListener listener = new ApprovalListener() {
            @Override
            public void ready() {
                told.add("ready");
            }

            @Override
            public void replied(Prompt prompt, PromptReplyResult result) {
                told.add(result.getResult().name());
            }
        };
        ApprovalOptions options = ApprovalOptions.named("ann").session("cut").listener(listener);
        try (CuttingProxy proxy = new CuttingProxy(server.socket(), Long.MAX_VALUE);
                ToolgateClient cut = ToolgateClient.connect(proxy.target());
                Approvals approvals = cut.approvals(options, prompt -> {
                    handled.incrementAndGet();
                    asked.complete(null);
                    return decision.get();
                });
                Execution execution =
                        client.execute(ToolCall.of("bash", bash("touch cut")).session("cut"))) {
            asked.get(30, TimeUnit.SECONDS);
            proxy.cut();
            decision.complete(Decision.once());
            assertTrue(execution.result().ok());
            assertEquals("ready", told.poll(30, TimeUnit.SECONDS));
            assertEquals("ready", told.poll(30, TimeUnit.SECONDS));
            assertEquals("REPLY_RESULT_ACCEPTED", told.poll(30, TimeUnit.SECONDS));
            assertEquals(1, handled.get());
            assertFalse(approvals.done().isDone());
        }
    }

    @Test
    void questionsAreAnswered() {
        ApprovalOptions options = ApprovalOptions.named("ann").session("questions");
        try (Approvals approvals = client.approvals(options, prompt -> Decision.answer("tabs"))) {
            Map<String, Object> question =
                    Map.of("question", "Tabs or spaces?", "header", "Indent", "options", List.of());
            ToolCall call = ToolCall.of("question", Map.of("questions", List.of(question)));
            assertTrue(client.run(call.session("questions")).text().contains("=\"tabs\""));
            assertFalse(approvals.done().isDone());
        }
    }

    @Test
    void anInterruptedThreadLeavesNoProgramBehind() throws Exception {
        CompletableFuture<String> began = new CompletableFuture<>();
        CompletableFuture<Boolean> ended = new CompletableFuture<>();
        Thread waiting = new Thread(() -> {
            try (Execution execution = client.execute("bash", bash("echo $$; exec sleep 1000"))) {
                for (CallEvent event : execution) {
                    if (event instanceof CallEvent.Output output) {
                        began.complete(execution.callId() + " " + output.text().strip());
                    }
                }
            } catch (ToolgateException interrupted) {
                ended.complete(Thread.currentThread().isInterrupted());
            }
        });
        waiting.start();
        String[] call = began.get(30, TimeUnit.SECONDS).split(" ");
        waiting.interrupt();
        assertTrue(ended.get(30, TimeUnit.SECONDS));
        try (Execution watched = client.watch(call[0])) {
            CallResult.Failed failed = assertInstanceOf(CallResult.Failed.class, watched.result());
            assertEquals(FailureReason.FAILURE_REASON_CANCELLED, failed.reason());
        }
        assertFalse(ProcessHandle.of(Long.parseLong(call[1])).isPresent());
    }

    @Test
    void closingAnExecutionEndsItsProgram() throws Exception {
        Execution execution = client.execute("bash", bash("echo $$; exec sleep 1000"));
        long pid = 0;
        for (CallEvent event : execution) {
            if (event instanceof CallEvent.Output output) {
                pid = Long.parseLong(output.text().strip());
                break;
            }
        }
        execution.close();
        assertFalse(ProcessHandle.of(pid).isPresent());
    }

    @Test
    void whatACallWouldAskIsToldWithoutMakingIt() {
        CallEvaluation allowed = client.evaluate("bash", bash("echo hello"));
        assertEquals(PermissionAction.PERMISSION_ACTION_ALLOW, allowed.getAction());
        assertTrue(allowed.getComplete());
        CallEvaluation asked = client.evaluate("bash", bash("touch evaluated"));
        assertEquals(PermissionAction.PERMISSION_ACTION_ASK, asked.getAction());
        assertEquals("bash", asked.getRequests(0).getPermission().getPermission());
        assertFalse(Files.exists(server.work().resolve("evaluated")));
        CallEvaluation denied = client.evaluate(
                ToolCall.ofJson("bash", Json.text(bash("rm it"))).agent("plan"));
        assertEquals(PermissionAction.PERMISSION_ACTION_DENY, denied.getAction());
        assertEquals("invalid", client.evaluate("nothing", Map.of()).getTool());
        var struct = io.toolgate.v1.ExecuteToolRequest.newBuilder()
                .setTool("bash")
                .setInput(Protos.struct(bash("touch evaluated")))
                .build();
        assertEquals(
                asked.getInputDigest(), client.evaluate(ToolCall.of(struct)).getInputDigest());
        ToolCall nobodys = ToolCall.of("bash", bash("true")).agent("nobody");
        ToolgateException refused = assertThrows(ToolgateException.class, () -> client.evaluate(nobodys));
        assertEquals("INVALID_FIELD", refused.reason());
    }

    @Test
    void callsAreListedAndFound() {
        for (int call = 0; call < 3; call++) {
            run("listed", "echo " + call);
        }
        ListCallsRequest request = ListCallsRequest.newBuilder()
                .setSessionId("listed")
                .setPageSize(2)
                .build();
        List<String> ids =
                client.calls(request).map(io.toolgate.v1.Call::getCallId).toList();
        assertEquals(3, ids.size());
        assertTrue(client.get(ids.get(0)).getInputJson().contains("echo 2"));
    }

    @Test
    void outputsAreReadSearchedAndSaved(@TempDir Path folder) throws Exception {
        CallResult result = client.run("bash", bash("seq 1 40000"));
        StoredOutput output = client.output(result.truncation().getOutputId());
        byte[] whole = output.read().readAllBytes();
        assertTrue(whole.length > 200_000);
        assertEquals("2\n3\n", text(output.lines(2, 2).readAllBytes()));
        assertEquals("40000\n", text(output.tail(1).readAllBytes()));
        assertEquals("3\n4\n5", text(output.read(4, 5).readAllBytes()));
        assertEquals(1, output.search("^39999$").getMatches());
        Path file = folder.resolve("saved");
        List<Long> progress = new ArrayList<>();
        try (CuttingProxy proxy = new CuttingProxy(server.socket(), 100_000);
                ToolgateClient cut = ToolgateClient.connect(proxy.target())) {
            assertEquals(whole.length, cut.output(output.id()).saveTo(file, (bytes, total) -> progress.add(bytes)));
            assertTrue(proxy.cuts() > 1, "the connection was cut");
        }
        assertEquals(text(whole), Files.readString(file));
        assertEquals(whole.length, progress.get(progress.size() - 1));
        try (Stream<Path> files = Files.list(folder)) {
            assertEquals(1, files.count(), "nothing is left beside");
        }
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    @Test
    void followsACallOverCutConnections() throws Exception {
        try (CuttingProxy proxy = new CuttingProxy(server.socket(), 150_000);
                ToolgateClient cut = ToolgateClient.connect(proxy.target())) {
            StringBuilder output = new StringBuilder();
            try (Execution execution = cut.execute("bash", bash("seq 1 100000"))) {
                for (CallEvent event : execution) {
                    if (event instanceof CallEvent.Output piece) {
                        output.append(piece.text());
                    }
                }
                assertTrue(execution.result().ok());
            }
            StringBuilder expected = new StringBuilder();
            IntStream.rangeClosed(1, 100_000)
                    .forEach(line -> expected.append(line).append('\n'));
            assertEquals(expected.toString(), output.toString());
            assertTrue(proxy.cuts() > 1, "the connection was cut");
        }
    }

    record Add(
            @Description("One number.") int a,
            @Description("Another one.") @Default("40") int b) {}

    @Test
    void lendsAToolOverCutConnections() throws Exception {
        AtomicInteger calls = new AtomicInteger();
        CompletableFuture<Void> entered = new CompletableFuture<>();
        CompletableFuture<Void> goOn = new CompletableFuture<>();
        BlockingQueue<HostWelcome> welcomes = new LinkedBlockingQueue<>();
        HostedTool add = HostedTool.text("add", "Adds two numbers.", Add.class, (input, invocation) -> {
            calls.incrementAndGet();
            invocation.progress("Adding", Map.of("step", 1));
            entered.complete(null);
            goOn.get();
            return String.valueOf(input.a() + input.b());
        });
        HostOptions options = HostOptions.named("sums").tools(add).listener(new HostListener() {
            @Override
            public void ready(HostWelcome welcome) {
                welcomes.add(welcome);
            }
        });
        try (CuttingProxy proxy = new CuttingProxy(server.socket(), Long.MAX_VALUE);
                ToolgateClient lender = ToolgateClient.connect(proxy.target());
                ToolHost host = lender.host(options)) {
            assertEquals(0, host.ready().get(30, TimeUnit.SECONDS).getRefusedCount());
            assertEquals(Map.of("type", "integer", "default", 40, "description", "Another one."), schemaOfB());
            try (Execution execution = client.execute("add", Map.of("a", 2))) {
                entered.get(30, TimeUnit.SECONDS);
                welcomes.clear();
                proxy.cut();
                assertTrue(welcomes.poll(30, TimeUnit.SECONDS).getResumed());
                goOn.complete(null);
                assertEquals("42", execution.result().text());
                assertEquals("Adding", execution.result().title());
            }
            assertEquals(1, calls.get());
        }
    }

    private static Object schemaOfB() {
        Map<String, Object> schema = client.tools().find("add").orElseThrow().inputSchema();
        return ((Map<?, ?>) schema.get("properties")).get("b");
    }

    record Nothing() {}

    @Test
    void aLentToolAsksFailsAndIsCancelled() throws Exception {
        CompletableFuture<Boolean> interrupted = new CompletableFuture<>();
        CompletableFuture<Void> entered = new CompletableFuture<>();
        HostedTool asks = HostedTool.text("asks", "Asks.", Nothing.class, (input, invocation) -> {
            boolean allowed = invocation.ask("bash", "rm it").getAllowed();
            throw new IllegalStateException("allowed: " + allowed);
        });
        HostedTool waits = HostedTool.text("waits", "Waits.", Nothing.class, (input, invocation) -> {
            entered.complete(null);
            try {
                return new CompletableFuture<String>().get();
            } catch (InterruptedException cancelled) {
                interrupted.complete(invocation.isCancelled());
                throw cancelled;
            }
        });
        try (ToolHost host = client.host(asks, waits)) {
            host.ready().get(30, TimeUnit.SECONDS);
            assertTrue(client.run("asks", Map.of()).text().contains("allowed: false"));
            Execution execution = client.execute("waits", Map.of());
            entered.get(30, TimeUnit.SECONDS);
            execution.close();
            assertTrue(interrupted.get(30, TimeUnit.SECONDS));
        }
        assertTrue(client.tools().find("waits").isEmpty(), "what was lent is gone with its host");
    }

    @Test
    void eventsAreWatched() throws Exception {
        WatchEventsRequest request =
                WatchEventsRequest.newBuilder().setSessionId("watched").build();
        try (EventStream events = client.events(request)) {
            events.opened().get(30, TimeUnit.SECONDS);
            run("watched", "echo seen");
            assertEquals("bash", events.iterator().next().getCallStateChanged().getTool());
        }
    }

    @Test
    void stubsUseTheSameConnection() {
        GetSessionRequest request =
                GetSessionRequest.newBuilder().setSessionId("anyone").build();
        var session = SessionServiceGrpc.newBlockingStub(client.channel())
                .getSession(request)
                .getSession();
        assertEquals("anyone", session.getSessionId());
        assertEquals("default", client.serverInfo().getWorkspaces(0).getName());
    }

    @Test
    void aCallWhoseServiceWasKilledIsLost() throws Exception {
        try (TestServer mortal = new TestServer(Rules.JSON);
                ToolgateClient survivor = mortal.client();
                Execution execution = survivor.execute("bash", bash("echo up; exec sleep 1000"))) {
            for (CallEvent event : execution) {
                if (event instanceof CallEvent.Output) {
                    break;
                }
            }
            mortal.kill();
            mortal.start();
            CallResult.Failed lost = assertInstanceOf(CallResult.Failed.class, execution.result());
            assertEquals(FailureReason.FAILURE_REASON_LOST, lost.reason());
        }
    }

    @Test
    void nobodyThereIsAnError() {
        ToolgateClient nobody = ToolgateClient.builder()
                .target("unix:" + server.work().resolve("nothing"))
                .reconnectTimeout(Duration.ofMillis(200))
                .build();
        try (nobody;
                Execution execution = nobody.execute(ToolCall.of("bash", bash("true")))) {
            execution.detach();
            ToolgateException failure = assertThrows(ToolgateException.class, execution::result);
            assertEquals(Status.Code.UNAVAILABLE, failure.code());
            assertTrue(failure.getMessage().contains("cannot be reached"), failure.getMessage());
        }
    }

    @Test
    void revertTakesBackWhatACallDid() throws Exception {
        ApprovalOptions options = ApprovalOptions.named("ann").session("revert");
        try (Approvals approvals = client.approvals(options, prompt -> Decision.once())) {
            Path file = server.work().resolve("written.txt");
            ToolCall write = ToolCall.of("write", Map.of("filePath", file.toString(), "content", "new\n"));
            CallResult written = client.run(write.session("revert").model("anthropic", "claude"));
            assertTrue(written.ok(), written.text());
            assertTrue(Files.exists(file));
            var request = io.toolgate.v1.RevertCallRequest.newBuilder().setCallId(written.callId());
            request.getContextBuilder().setSessionId("revert").setModel(ModelRef.getDefaultInstance());
            try (Execution execution = client.revert(request.build())) {
                assertTrue(execution.result().ok(), execution.result().text());
            }
            assertFalse(Files.exists(file));
            assertFalse(approvals.done().isDone());
        }
    }
}
