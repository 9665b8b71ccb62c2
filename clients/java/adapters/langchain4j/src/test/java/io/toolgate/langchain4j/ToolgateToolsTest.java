package io.toolgate.langchain4j;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.langchain4j.agent.tool.ToolExecutionRequest;
import dev.langchain4j.agent.tool.ToolSpecification;
import dev.langchain4j.data.message.AiMessage;
import dev.langchain4j.data.message.ImageContent;
import dev.langchain4j.data.message.ToolExecutionResultMessage;
import dev.langchain4j.internal.JsonSchemaElementUtils;
import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.model.chat.request.ChatRequest;
import dev.langchain4j.model.chat.response.ChatResponse;
import dev.langchain4j.service.AiServices;
import io.toolgate.Decision;
import io.toolgate.Tool;
import io.toolgate.ToolgateClient;
import io.toolgate.v1.Call;
import io.toolgate.v1.CallState;
import io.toolgate.v1.FailureReason;
import io.toolgate.v1.ListCallsRequest;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The tools with the real LangChain4j and a model that follows a script. */
@Timeout(120)
class ToolgateToolsTest {
    /** A picture of one pixel. */
    private static final String PIXEL =
            "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

    private TestService service;
    private ToolgateClient client;

    @BeforeEach
    void start() throws IOException, InterruptedException {
        service = new TestService();
        client = service.client();
    }

    @AfterEach
    void stop() throws IOException {
        client.close();
        service.close();
    }

    /** Asks for the tools of its script, one after another, and then says that it is done. */
    private static final class Scripted implements ChatModel {
        private final List<ToolExecutionRequest> script;
        private final List<ChatRequest> requests = new CopyOnWriteArrayList<>();

        Scripted(ToolExecutionRequest... script) {
            this.script = List.of(script);
        }

        @Override
        public ChatResponse doChat(ChatRequest request) {
            int turn = requests.size();
            requests.add(request);
            AiMessage message = turn < script.size() ? AiMessage.from(script.get(turn)) : AiMessage.from("done");
            return ChatResponse.builder().aiMessage(message).build();
        }

        /** Returns what the model was given after a turn, counted from 0. */
        ToolExecutionResultMessage answer(int turn) {
            var messages = requests.get(turn + 1).messages();
            return (ToolExecutionResultMessage) messages.get(messages.size() - 1);
        }
    }

    private static ToolExecutionRequest call(String tool, String arguments) {
        return ToolExecutionRequest.builder()
                .id("call_" + tool)
                .name(tool)
                .arguments(arguments)
                .build();
    }

    private static ToolExecutionRequest bash(String command) {
        return call("bash", "{\"command\": \"" + command + "\", \"description\": \"Tests\"}");
    }

    private static String chat(ChatModel model, ToolgateTools tools) {
        return AiServices.builder(Example.Assistant.class)
                .chatModel(model)
                .toolProvider(tools)
                .build()
                .chat("Work.");
    }

    @Test
    void modelsAreToldOfTheToolsAndGetTheirResults() {
        Scripted model = new Scripted(bash("echo one"));
        try (ToolgateTools tools = ToolgateTools.builder(client).build()) {
            assertEquals("done", chat(model, tools));
        }
        assertEquals("one", model.answer(0).text().strip());
        assertFalse(model.answer(0).isError());
        assertTrue(model.answer(0).attributes().containsKey("toolgate.callId"));
        List<ToolSpecification> told = model.requests.get(0).toolSpecifications();
        assertEquals(
                client.tools().stream().map(Tool::name).toList(),
                told.stream().map(ToolSpecification::name).toList());
        for (ToolSpecification tool : told) {
            Tool listed = client.tools().find(tool.name()).orElseThrow();
            Map<String, Object> schema = JsonSchemaElementUtils.toMap(tool.parameters());
            assertEquals(listed.description(), tool.description());
            for (String key : List.of("properties", "required")) {
                Object wanted = listed.inputSchema().getOrDefault(key, key.equals("required") ? List.of() : Map.of());
                assertEquals(wanted, schema.getOrDefault(key, List.of()), tool.name() + ": " + key);
            }
        }
    }

    @Test
    void whatFailsIsAnErrorForTheModel() {
        Scripted model = new Scripted(bash("rm -r precious"), call("bash", "{\"command\": "));
        try (ToolgateTools tools = ToolgateTools.builder(client).build()) {
            assertEquals("done", chat(model, tools));
        }
        assertTrue(model.answer(0).isError());
        assertTrue(model.answer(0).text().contains("rule"), model.answer(0).text());
        assertTrue(model.answer(1).isError());
        assertTrue(model.answer(1).text().contains("JSON"), model.answer(1).text());
    }

    @Test
    void aHandlerDecides() {
        Scripted model = new Scripted(bash("touch made"), bash("touch secret"));
        List<String> asked = new ArrayList<>();
        String answer = Example.ask(
                model,
                client,
                patterns -> {
                    asked.addAll(patterns);
                    assertFalse(Files.exists(service.work().resolve("made")) && patterns.contains("touch made"));
                    return patterns.contains("touch made");
                },
                "Make files.");
        assertEquals("done", answer);
        assertEquals(List.of("touch made", "touch secret"), asked);
        assertTrue(Files.exists(service.work().resolve("made")));
        assertFalse(Files.exists(service.work().resolve("secret")));
        assertTrue(model.answer(1).text().contains("The user does not want that."));
    }

    @Test
    void picturesComeWithTheResultIfTheyAreWanted() throws IOException {
        Files.write(service.work().resolve("pixel.png"), Base64.getDecoder().decode(PIXEL));
        for (boolean files : new boolean[] {true, false}) {
            Scripted model = new Scripted(call("read", "{\"filePath\": \"pixel.png\"}"));
            try (ToolgateTools tools =
                    ToolgateTools.builder(client).files(files).build()) {
                assertEquals("done", chat(model, tools));
            }
            List<ImageContent> pictures = model.answer(0).contents().stream()
                    .filter(ImageContent.class::isInstance)
                    .map(ImageContent.class::cast)
                    .toList();
            assertEquals(files ? 1 : 0, pictures.size());
            if (files) {
                assertEquals(PIXEL, pictures.get(0).image().base64Data());
                assertEquals("image/png", pictures.get(0).image().mimeType());
            }
        }
    }

    @Test
    void callsAreMadeInTheNameOfTheConversation() {
        Scripted model = new Scripted(bash("echo one"));
        try (ToolgateTools tools = ToolgateTools.builder(client)
                .only(tool -> tool.name().equals("bash"))
                .inName((call, context) -> call.session("ses_of_" + context.chatMemoryId()))
                .build()) {
            chat(model, tools);
        }
        assertEquals(1, model.requests.get(0).toolSpecifications().size());
        assertEquals("ses_of_default", only().getContext().getSessionId());
    }

    @Test
    void interruptingTheThreadCancelsTheCall() throws InterruptedException {
        Scripted model = new Scripted(bash("sleep 600"));
        try (ToolgateTools tools = ToolgateTools.builder(client).build()) {
            Thread conversation = new Thread(() -> chat(model, tools));
            conversation.setUncaughtExceptionHandler((thread, failure) -> {});
            conversation.start();
            awaitState(CallState.CALL_STATE_RUNNING);
            conversation.interrupt();
            conversation.join();
        }
        Call cancelled = client.get(awaitState(CallState.CALL_STATE_FAILED).getCallId());
        assertEquals(
                FailureReason.FAILURE_REASON_CANCELLED, cancelled.getFailed().getReason());
    }

    @Test
    void promptsMayBeLeftToOthers() {
        Scripted model = new Scripted(bash("touch made"));
        try (ToolgateTools tools = ToolgateTools.builder(client).build();
                var approvals = client.approvals(prompt -> Decision.once())) {
            assertEquals("done", chat(model, tools));
            assertFalse(approvals.done().isDone());
        }
        assertTrue(Files.exists(service.work().resolve("made")));
    }

    @Test
    void theReadmeShowsTheExample() throws IOException {
        String example = Files.readString(Path.of("src/test/java/io/toolgate/langchain4j/Example.java"));
        String shown = example.substring(
                example.indexOf("begins here.\n") + 13, example.indexOf("    // The README ends here."));
        assertTrue(Files.readString(Path.of("README.md"))
                .contains("```java\n" + shown.stripTrailing().stripIndent() + "\n```"));
    }

    private Call only() {
        List<Call> calls = client.calls(ListCallsRequest.getDefaultInstance()).toList();
        assertEquals(1, calls.size());
        return calls.get(0);
    }

    private Call awaitState(CallState state) throws InterruptedException {
        for (int left = 30_000 / 20; left > 0; left--) {
            List<Call> calls =
                    client.calls(ListCallsRequest.getDefaultInstance()).toList();
            if (!calls.isEmpty() && calls.get(0).getState() == state) {
                return calls.get(0);
            }
            Thread.sleep(20);
        }
        throw new AssertionError("no call is " + state);
    }
}
