package io.toolgate.driver;

import io.toolgate.ApprovalListener;
import io.toolgate.ApprovalOptions;
import io.toolgate.Approvals;
import io.toolgate.Decision;
import io.toolgate.Prompt;
import io.toolgate.ToolgateClient;
import io.toolgate.v1.PromptFilter;
import io.toolgate.v1.PromptReply;
import io.toolgate.v1.PromptReplyResult;
import io.toolgate.v1.QuestionAnswer;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;

/** Answers prompts with what it is told. */
final class Approving implements Driver.Running, ApprovalListener {
    private final Command command;
    private final Map<String, CompletableFuture<Decision>> waiting = new ConcurrentHashMap<>();
    private final Approvals approvals;

    Approving(Command command, ToolgateClient client) {
        this.command = command;
        ApprovalOptions options = ApprovalOptions.named(command.text("name"))
                .filter(command.message("filter", PromptFilter.parser()))
                .listener(this);
        options = command.flag("everybody") ? options.everybody() : options;
        this.approvals = client.approvals(options, this::decide);
    }

    @Override
    public void perform() throws Exception {
        approvals.done().get();
        command.done();
    }

    private Decision decide(Prompt prompt) throws Exception {
        CompletableFuture<Decision> decision = new CompletableFuture<>();
        waiting.put(prompt.id(), decision);
        command.report("prompt", Command.encoded(prompt.proto()));
        try {
            return decision.get();
        } finally {
            waiting.remove(prompt.id());
        }
    }

    void reply(Command told) {
        PromptReply reply = told.message("reply", PromptReply.parser());
        CompletableFuture<Decision> decision = waiting.remove(reply.getPromptId());
        if (decision == null) {
            throw new NoSuchElementException("no handler waits for " + reply.getPromptId());
        }
        decision.complete(decision(reply));
    }

    private static Decision decision(PromptReply reply) {
        return switch (reply.getDecision()) {
            case PROMPT_DECISION_ONCE -> Decision.once();
            case PROMPT_DECISION_ALWAYS ->
                Decision.always(reply.getScope(), reply.getAlwaysPatternsList().toArray(String[]::new));
            case PROMPT_DECISION_REJECT -> Decision.reject(reply.getMessage());
            case PROMPT_DECISION_ANSWER ->
                Decision.answers(reply.getAnswersList().stream()
                        .map(QuestionAnswer::getValuesList)
                        .map(List::<String>copyOf)
                        .toList());
            case PROMPT_DECISION_INSTEAD -> Decision.instead(reply.getInputJson());
            case PROMPT_DECISION_UNSPECIFIED, UNRECOGNIZED -> Decision.leave();
        };
    }

    @Override
    public void stop() {
        approvals.close();
    }

    @Override
    public void ready() {
        command.report("ready", true);
    }

    @Override
    public void gone(Prompt prompt) {
        command.report("gone", prompt.id());
    }

    @Override
    public void replied(Prompt prompt, PromptReplyResult result) {
        String name = result.getResult().name().substring("REPLY_RESULT_".length());
        command.report("result", Map.of("prompt_id", prompt.id(), "result", name));
    }
}
