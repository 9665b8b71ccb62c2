package io.toolgate;

import io.toolgate.v1.Question;
import java.util.List;
import java.util.Optional;

/**
 * The model asks questions.
 *
 * @param proto the message
 * @param problem why its handler is asked again
 */
public record QuestionPrompt(io.toolgate.v1.Prompt proto, Optional<String> problem) implements Prompt {
    /**
     * Makes the prompt that a handler is asked about for the first time.
     *
     * @param proto the message
     */
    public QuestionPrompt(io.toolgate.v1.Prompt proto) {
        this(proto, Optional.empty());
    }

    /**
     * Returns the questions.
     *
     * @return them in the order in which they are answered
     */
    public List<Question> questions() {
        return proto.getQuestions().getQuestionsList();
    }
}
