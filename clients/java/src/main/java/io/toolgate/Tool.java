package io.toolgate;

import io.toolgate.v1.ToolDefinition;
import io.toolgate.v1.ToolEffect;
import io.toolgate.v1.ToolSource;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * What a model and a front end are told about a tool.
 *
 * @param proto the message
 * @param inputSchema the JSON Schema of the input, parsed
 */
public record Tool(ToolDefinition proto, Map<String, @Nullable Object> inputSchema) {
    Tool(ToolDefinition proto) {
        this(proto, Json.map(proto.getInputSchemaJson()));
    }

    /**
     * Returns the name that a call uses.
     *
     * @return the name
     */
    public String name() {
        return proto.getName();
    }

    /**
     * Returns the text for the model.
     *
     * @return the description
     */
    public String description() {
        return proto.getDescription();
    }

    /**
     * Returns where the tool comes from.
     *
     * @return the source
     */
    public ToolSource source() {
        return proto.getSource();
    }

    /**
     * Returns what the tool may do to the world.
     *
     * @return the effects
     */
    public List<ToolEffect> effects() {
        return proto.getEffectsList();
    }

    /**
     * Returns the permissions that the tool may ask for.
     *
     * @return their names
     */
    public List<String> permissions() {
        return proto.getPermissionsList();
    }

    /**
     * Returns whether the tool may change or vanish without notice.
     *
     * @return whether it is experimental
     */
    public boolean experimental() {
        return proto.getExperimental();
    }
}
