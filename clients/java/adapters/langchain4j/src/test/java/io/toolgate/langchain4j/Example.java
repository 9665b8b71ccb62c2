package io.toolgate.langchain4j;

import dev.langchain4j.model.chat.ChatModel;
import dev.langchain4j.service.AiServices;
import io.toolgate.Decision;
import io.toolgate.PermissionPrompt;
import io.toolgate.ToolgateClient;
import java.util.List;
import java.util.function.Predicate;

/** What the README shows. */
final class Example {
    private Example() {}

    // The README begins here.
    interface Assistant {
        String chat(String message);
    }

    static String ask(ChatModel model, ToolgateClient client, Predicate<List<String>> mayRun, String question) {
        try (ToolgateTools tools = ToolgateTools.builder(client)
                .prompts(prompt -> {
                    if (!(prompt instanceof PermissionPrompt permission)) {
                        return Decision.leave(); // a question of the model: somebody else may answer it
                    }
                    return mayRun.test(permission.patterns())
                            ? Decision.once()
                            : Decision.reject("The user does not want that.");
                })
                .build()) {
            Assistant assistant = AiServices.builder(Assistant.class)
                    .chatModel(model)
                    .toolProvider(tools)
                    .build();
            return assistant.chat(question);
        }
    }
    // The README ends here.
}
