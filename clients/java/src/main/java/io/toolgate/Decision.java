package io.toolgate;

import io.toolgate.v1.GrantScope;
import java.util.List;

/** What a person decides about a prompt. */
public sealed interface Decision {
    /**
     * Allows this call only.
     *
     * @return the decision
     */
    static Decision once() {
        return new Once();
    }

    /**
     * Allows this call and, in its workspace while the service runs, all that the prompt's patterns match.
     *
     * @return the decision
     */
    static Decision always() {
        return new Always(GrantScope.getDefaultInstance(), List.of());
    }

    /**
     * Allows this call and what some of the prompt's patterns match, as far as the scope reaches.
     *
     * @param scope how far the approval reaches, and what ends it
     * @param patterns which of {@link PermissionPrompt#alwaysPatterns()}, word for word; none for all
     * @return the decision
     */
    static Decision always(GrantScope scope, String... patterns) {
        return new Always(scope, List.of(patterns));
    }

    /**
     * Refuses the call; dismisses questions.
     *
     * @param message feedback for the model, possibly empty
     * @return the decision
     */
    static Decision reject(String message) {
        return new Reject(message);
    }

    /**
     * Answers the only question with these labels or own words.
     *
     * @param values what is chosen
     * @return the decision
     */
    static Decision answer(String... values) {
        return new Answer(List.of(List.of(values)));
    }

    /**
     * Answers questions.
     *
     * @param answers one list of labels or own words for each question, in their order
     * @return the decision
     */
    static Decision answers(List<List<String>> answers) {
        return new Answer(answers);
    }

    /**
     * Lets the call run with another input.
     *
     * @param input the whole input: a map, a record or a bean, or JSON text
     * @return the decision
     */
    static Decision instead(Object input) {
        return new Instead(input instanceof String json ? json : Json.text(input));
    }

    /**
     * Decides nothing: the prompt stays open for others.
     *
     * @return the decision
     */
    static Decision leave() {
        return new Leave();
    }

    /** See {@link Decision#once()}. */
    record Once() implements Decision {}

    /**
     * See {@link Decision#always(GrantScope, String...)}.
     *
     * @param scope how far the approval reaches
     * @param patterns what it allows; none for all that the prompt offers
     */
    record Always(GrantScope scope, List<String> patterns) implements Decision {}

    /**
     * See {@link Decision#reject(String)}.
     *
     * @param message feedback for the model
     */
    record Reject(String message) implements Decision {}

    /**
     * See {@link Decision#answers(List)}.
     *
     * @param answers one list for each question
     */
    record Answer(List<List<String>> answers) implements Decision {}

    /**
     * See {@link Decision#instead(Object)}.
     *
     * @param inputJson the input to run
     */
    record Instead(String inputJson) implements Decision {}

    /** See {@link Decision#leave()}. */
    record Leave() implements Decision {}
}
