package io.toolgate;

import io.toolgate.v1.PermissionPart;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.jspecify.annotations.Nullable;

/**
 * A tool needs a permission.
 *
 * @param proto the message
 * @param problem why its handler is asked again
 */
public record PermissionPrompt(io.toolgate.v1.Prompt proto, Optional<String> problem) implements Prompt {
    /**
     * Makes the prompt that a handler is asked about for the first time.
     *
     * @param proto the message
     */
    public PermissionPrompt(io.toolgate.v1.Prompt proto) {
        this(proto, Optional.empty());
    }

    /**
     * Returns the permission's name, such as {@code bash} or {@code edit}.
     *
     * @return the name
     */
    public String permission() {
        return proto.getPermission().getPermission();
    }

    /**
     * Returns what the tool is about to touch.
     *
     * @return the patterns
     */
    public List<String> patterns() {
        return proto.getPermission().getPatternsList();
    }

    /**
     * Returns what {@link Decision#always()} would allow from now on.
     *
     * @return the patterns
     */
    public List<String> alwaysPatterns() {
        return proto.getPermission().getAlwaysList();
    }

    /**
     * Returns a short line for the person.
     *
     * @return the title
     */
    public String title() {
        return proto.getPermission().getTitle();
    }

    /**
     * Returns what the person should see, such as the command of a shell call.
     *
     * @return the metadata
     */
    public Map<String, @Nullable Object> metadata() {
        return Protos.map(proto.getPermission().getMetadata());
    }

    /**
     * Returns the change that an edit would make.
     *
     * @return a unified diff, if the prompt has one
     */
    public Optional<String> diff() {
        return Optional.ofNullable(metadata().get("diff"))
                .filter(String.class::isInstance)
                .map(String.class::cast);
    }

    /**
     * Returns what a compound request consists of, such as the commands of a shell line.
     *
     * @return the parts, possibly none
     */
    public List<PermissionPart> parts() {
        return proto.getPermission().getPartsList();
    }

    /**
     * Returns whether the reply may be {@link Decision#instead(Object)}.
     *
     * @return whether the input can be replaced
     */
    public boolean editable() {
        return proto.getEditable();
    }

    /**
     * Returns the input that would run.
     *
     * @return canonical JSON if the prompt is editable, else an empty text
     */
    public String inputJson() {
        return proto.getInputJson();
    }
}
