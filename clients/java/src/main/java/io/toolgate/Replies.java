package io.toolgate;

import io.toolgate.v1.PromptDecision;
import io.toolgate.v1.PromptReply;
import io.toolgate.v1.QuestionAnswer;

/** Makes replies of decisions. */
final class Replies {
    private Replies() {}

    static PromptReply reply(Prompt prompt, Decision decision) {
        PromptReply.Builder reply = PromptReply.newBuilder()
                .setPromptId(prompt.id())
                .setReplyId(Uuid7.next())
                .setInputDigest(prompt.inputDigest());
        if (decision instanceof Decision.Once) {
            reply.setDecision(PromptDecision.PROMPT_DECISION_ONCE);
        } else if (decision instanceof Decision.Always always) {
            reply.setDecision(PromptDecision.PROMPT_DECISION_ALWAYS)
                    .setScope(always.scope())
                    .addAllAlwaysPatterns(
                            always.patterns().isEmpty() && prompt instanceof PermissionPrompt permission
                                    ? permission.alwaysPatterns()
                                    : always.patterns());
        } else if (decision instanceof Decision.Reject reject) {
            reply.setDecision(PromptDecision.PROMPT_DECISION_REJECT).setMessage(reject.message());
        } else if (decision instanceof Decision.Answer answer) {
            reply.setDecision(PromptDecision.PROMPT_DECISION_ANSWER);
            answer.answers()
                    .forEach(values ->
                            reply.addAnswers(QuestionAnswer.newBuilder().addAllValues(values)));
        } else if (decision instanceof Decision.Instead instead) {
            reply.setDecision(PromptDecision.PROMPT_DECISION_INSTEAD).setInputJson(instead.inputJson());
        }
        return reply.build();
    }
}
