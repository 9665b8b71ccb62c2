package io.toolgate.springai;

import io.toolgate.Decision;
import io.toolgate.PermissionPrompt;
import io.toolgate.ToolgateClient;
import java.util.List;
import java.util.function.Predicate;
import org.springframework.ai.chat.client.ChatClient;
import org.springframework.ai.chat.model.ChatModel;

/** What the README shows. */
final class Example {
    private Example() {}

    // The README begins here.
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
            return ChatClient.create(model).prompt(question).tools(tools).call().content();
        }
    }
    // The README ends here.
}
