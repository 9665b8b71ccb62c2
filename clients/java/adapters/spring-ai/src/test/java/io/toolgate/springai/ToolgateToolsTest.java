package io.toolgate.springai;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.toolgate.CallResult;
import io.toolgate.Decision;
import io.toolgate.Tool;
import io.toolgate.adapters.AdapterCase;
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
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.messages.AssistantMessage;
import org.springframework.ai.chat.messages.ToolResponseMessage;
import org.springframework.ai.chat.model.ChatModel;
import org.springframework.ai.chat.model.ChatResponse;
import org.springframework.ai.chat.model.Generation;
import org.springframework.ai.chat.prompt.ChatOptions;
import org.springframework.ai.chat.prompt.Prompt;
import org.springframework.ai.content.Media;
import org.springframework.ai.model.tool.ToolCallingChatOptions;
import org.springframework.ai.tool.ToolCallback;
import org.springframework.ai.tool.execution.ToolExecutionException;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;

/** The tools with the real Spring AI and a model that follows a script. */
@Timeout(120)
class ToolgateToolsTest extends AdapterCase {
    /** Asks for the tools of its script, one after another, and then says that it is done. */
    private static final class Scripted implements ChatModel {
        private final List<AssistantMessage.ToolCall> script;
        private final List<Prompt> prompts = new CopyOnWriteArrayList<>();

        Scripted(AssistantMessage.ToolCall... script) {
            this.script = List.of(script);
        }

        @Override
        public ChatResponse call(Prompt prompt) {
            int turn = prompts.size();
            prompts.add(prompt);
            AssistantMessage message = turn < script.size()
                    ? AssistantMessage.builder()
                            .content("")
                            .toolCalls(List.of(script.get(turn)))
                            .build()
                    : new AssistantMessage("done");
            return new ChatResponse(List.of(new Generation(message)));
        }

        @Override
        public Flux<ChatResponse> stream(Prompt prompt) {
            return Flux.defer(() -> Flux.just(call(prompt)));
        }

        @Override
        public ChatOptions getOptions() {
            return ToolCallingChatOptions.builder().build();
        }

        /** Returns what the model was given after a turn, counted from 0. */
        String answer(int turn) {
            var messages = prompts.get(turn + 1).getInstructions();
            var last = (ToolResponseMessage) messages.get(messages.size() - 1);
            return last.getResponses().get(0).responseData();
        }
    }

    private static AssistantMessage.ToolCall call(String tool, String arguments) {
        return new AssistantMessage.ToolCall("call_" + tool, "function", tool, arguments);
    }

    private static AssistantMessage.ToolCall bash(String command) {
        return call("bash", "{\"command\": \"" + command + "\", \"description\": \"Tests\"}");
    }

    private static String chat(ChatModel model, ToolgateTools tools) {
        return ChatClient.create(model).prompt("Work.").tools(tools).call().content();
    }

    @Test
    void modelsAreToldOfTheToolsAndGetTheirResults() {
        Scripted model = new Scripted(bash("echo one"));
        try (ToolgateTools tools = ToolgateTools.builder(client).build()) {
            assertEquals("done", chat(model, tools));
        }
        assertEquals("one", model.answer(0).strip());
        ToolCallingChatOptions options =
                (ToolCallingChatOptions) model.prompts.get(0).getOptions();
        List<ToolCallback> told = options.getToolCallbacks();
        assertEquals(client.tools().size(), told.size());
        for (ToolCallback callback : told) {
            Tool listed =
                    client.tools().find(callback.getToolDefinition().name()).orElseThrow();
            assertEquals(
                    listed.proto().getInputSchemaJson(),
                    callback.getToolDefinition().inputSchema());
            assertEquals(listed.description(), callback.getToolDefinition().description());
        }
    }

    @Test
    void whatFailsIsAnErrorForTheModel() {
        Scripted model = new Scripted(bash("rm -r precious"), call("bash", "{\"command\": "));
        List<CallResult> results = new ArrayList<>();
        try (ToolgateTools tools =
                ToolgateTools.builder(client).onResult(results::add).build()) {
            assertEquals("done", chat(model, tools));
            assertTrue(model.answer(0).contains("rule"), model.answer(0));
            assertTrue(model.answer(1).contains("JSON"), model.answer(1));
            assertEquals(results.get(0).text(), model.answer(0));
            ToolCallback callback = tools.getToolCallbacks()[0];
            for (ToolCallback each : tools.getToolCallbacks()) {
                callback = each.getToolDefinition().name().equals("bash") ? each : callback;
            }
            ToolCallback bash = callback;
            ToolExecutionException thrown =
                    assertThrows(ToolExecutionException.class, () -> bash.call("{\"command\": "));
            CallFailure failure = assertInstanceOf(CallFailure.class, thrown.getCause());
            assertEquals(
                    FailureReason.FAILURE_REASON_INVALID_ARGUMENTS,
                    failure.result().reason());
        }
    }

    @Test
    void aHandlerDecides() {
        Scripted model = new Scripted(bash("touch made"), bash("touch secret"));
        List<String> asked = new CopyOnWriteArrayList<>();
        String answer = Example.ask(
                model,
                client,
                patterns -> {
                    asked.addAll(patterns);
                    return patterns.contains("touch made");
                },
                "Make files.");
        assertEquals("done", answer);
        assertEquals(List.of("touch made", "touch secret"), asked);
        assertTrue(Files.exists(service.work().resolve("made")));
        assertFalse(Files.exists(service.work().resolve("secret")));
        assertTrue(model.answer(1).contains("The user does not want that."));
    }

    @Test
    void picturesAreMediaForTheNextMessage() throws IOException {
        byte[] pixel = Base64.getDecoder().decode(PIXEL);
        Files.write(service.work().resolve("pixel.png"), pixel);
        Scripted model = new Scripted(call("read", "{\"filePath\": \"pixel.png\"}"));
        List<Media> media = new ArrayList<>();
        try (ToolgateTools tools = ToolgateTools.builder(client)
                .onResult(result -> media.addAll(ToolgateTools.media(result)))
                .build()) {
            assertEquals("done", chat(model, tools));
        }
        assertEquals(1, media.size());
        assertEquals("image/png", media.get(0).getMimeType().toString());
        assertArrayEquals(pixel, media.get(0).getDataAsByteArray());
    }

    @Test
    void callsAreMadeInTheNameOfTheConversation() {
        Scripted model = new Scripted(bash("echo one"));
        try (ToolgateTools tools = ToolgateTools.builder(client)
                .only(tool -> tool.name().equals("bash"))
                .inName((call, context) ->
                        call.session((String) context.getContext().get("session")))
                .build()) {
            ChatClient.create(model)
                    .prompt("Work.")
                    .tools(tools)
                    .toolContext(Map.of("session", "ses_spring"))
                    .call()
                    .content();
        }
        Call only =
                client.calls(ListCallsRequest.getDefaultInstance()).findFirst().orElseThrow();
        assertEquals("ses_spring", only.getContext().getSessionId());
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
    void cancellingTheStreamCancelsTheCall() throws InterruptedException {
        Scripted model = new Scripted(bash("sleep 600"));
        try (ToolgateTools tools = ToolgateTools.builder(client).build()) {
            Disposable conversation = ChatClient.create(model).prompt("Work.").tools(tools).stream()
                    .content()
                    .subscribe(text -> {}, failure -> {});
            awaitState(CallState.CALL_STATE_RUNNING);
            conversation.dispose();
            assertCancelled();
        }
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
        assertShownInReadme(Path.of("src/test/java/io/toolgate/springai/Example.java"));
    }
}
