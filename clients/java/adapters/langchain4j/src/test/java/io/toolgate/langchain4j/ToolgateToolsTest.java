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
import io.toolgate.adapters.AdapterCase;
import io.toolgate.v1.CallState;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** The tools with the real LangChain4j and a model that follows a script. */
@Timeout(120)
class ToolgateToolsTest extends AdapterCase {
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
        assertCancelled();
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
        assertShownInReadme(Path.of("src/test/java/io/toolgate/langchain4j/Example.java"));
    }
}
