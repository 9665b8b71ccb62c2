package io.toolgate;

import java.util.Map;
import org.jspecify.annotations.Nullable;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.DeserializationFeature;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.json.JsonMapper;
import tools.jackson.databind.node.ObjectNode;

/** Reads and writes JSON text. */
final class Json {
    static final JsonMapper MAPPER = JsonMapper.builder()
            .disable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
            .build();

    private Json() {}

    static String text(Object value) {
        try {
            return MAPPER.writeValueAsString(value);
        } catch (JacksonException unwritable) {
            throw new IllegalArgumentException("cannot be written as JSON: " + unwritable.getMessage(), unwritable);
        }
    }

    /** Turns a record or a bean into maps, lists and scalars. */
    static Object plain(Object value) {
        return MAPPER.convertValue(value, Object.class);
    }

    @SuppressWarnings("unchecked") // Jackson makes maps with text keys of JSON objects.
    static Map<String, @Nullable Object> map(String json) {
        return MAPPER.readValue(json, Map.class);
    }

    /** Parses an object and fills in the defaults of absent properties. */
    static <T> T input(String json, ObjectNode defaults, Class<T> type) {
        JsonNode input = MAPPER.readTree(json);
        if (input instanceof ObjectNode object) {
            defaults.properties().forEach(entry -> {
                if (!object.has(entry.getKey())) {
                    object.set(entry.getKey(), entry.getValue());
                }
            });
        }
        return MAPPER.treeToValue(input, type);
    }
}
