package io.toolgate.langchain4j;

import dev.langchain4j.model.chat.request.json.JsonObjectSchema;
import dev.langchain4j.model.chat.request.json.JsonRawSchema;
import dev.langchain4j.model.chat.request.json.JsonSchemaElement;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import tools.jackson.databind.json.JsonMapper;

/**
 * Input schemas in LangChain4j's form, which has an object at the top. What stands below goes as it is.
 *
 * <p><i>Invariant:</i> a model is told every property as the service describes it.
 */
final class Schemas {
    private static final JsonMapper JSON = JsonMapper.builder().build();

    private Schemas() {}

    static JsonObjectSchema of(Map<String, Object> schema) {
        JsonObjectSchema.Builder object = JsonObjectSchema.builder().addProperties(raw(schema.get("properties")));
        if (schema.get("description") instanceof String description) {
            object.description(description);
        }
        if (schema.get("required") instanceof List<?> required) {
            object.required(required.stream().map(String::valueOf).toList());
        }
        if (schema.get("additionalProperties") instanceof Boolean additional) {
            object.additionalProperties(additional);
        }
        if (schema.get("$defs") instanceof Map<?, ?> definitions && !definitions.isEmpty()) {
            object.definitions(raw(definitions));
        }
        return object.build();
    }

    private static Map<String, JsonSchemaElement> raw(Object schemas) {
        Map<String, JsonSchemaElement> elements = new LinkedHashMap<>();
        if (schemas instanceof Map<?, ?> named) {
            named.forEach((name, schema) ->
                    elements.put(String.valueOf(name), JsonRawSchema.from(JSON.writeValueAsString(schema))));
        }
        return elements;
    }
}
