package io.toolgate;

import com.github.victools.jsonschema.generator.FieldScope;
import com.github.victools.jsonschema.generator.Option;
import com.github.victools.jsonschema.generator.OptionPreset;
import com.github.victools.jsonschema.generator.SchemaGenerator;
import com.github.victools.jsonschema.generator.SchemaGeneratorConfigBuilder;
import com.github.victools.jsonschema.generator.SchemaVersion;
import com.github.victools.jsonschema.module.jackson.JacksonSchemaModule;
import java.util.Optional;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.node.ObjectNode;

/**
 * The JSON Schema of a type of arguments, and how to read arguments of that type.
 *
 * @param <I> the type
 */
final class InputSchema<I> {
    private static final SchemaGenerator GENERATOR = generator();

    private final Class<I> type;
    private final ObjectNode schema;
    private final ObjectNode defaults = Json.MAPPER.createObjectNode();

    private InputSchema(Class<I> type, ObjectNode schema) {
        this.type = type;
        this.schema = schema;
        schema.path("properties").properties().forEach(property -> {
            JsonNode value = property.getValue().get("default");
            if (value != null) {
                defaults.set(property.getKey(), value);
            }
        });
    }

    static <I> InputSchema<I> of(Class<I> type) {
        // The generator leaves defaults as objects of Java: read again, they are JSON.
        String schema = GENERATOR.generateSchema(type).toString();
        return new InputSchema<>(type, (ObjectNode) Json.MAPPER.readTree(schema));
    }

    String json() {
        return schema.toString();
    }

    I parse(String json) {
        return Json.input(json, defaults, type);
    }

    private static SchemaGenerator generator() {
        SchemaGeneratorConfigBuilder config = new SchemaGeneratorConfigBuilder(
                        Json.MAPPER, SchemaVersion.DRAFT_2020_12, OptionPreset.PLAIN_JSON)
                .with(new JacksonSchemaModule())
                .without(Option.SCHEMA_VERSION_INDICATOR);
        // In the order in which they are declared, which is the one in which they are best read.
        config.forTypesInGeneral().withPropertySorter((one, other) -> 0);
        config.forTypesInGeneral().withDescriptionResolver(scope -> {
            Description description = scope.getType().getErasedType().getAnnotation(Description.class);
            return description == null ? null : description.value();
        });
        config.forFields()
                .withRequiredCheck(InputSchema::required)
                .withDescriptionResolver(field -> {
                    Description description = field.getAnnotationConsideringFieldAndGetter(Description.class);
                    return description == null ? null : description.value();
                })
                .withDefaultResolver(field -> {
                    Default value = field.getAnnotationConsideringFieldAndGetter(Default.class);
                    return value == null ? null : Json.MAPPER.readTree(value.value());
                });
        return new SchemaGenerator(config.build());
    }

    private static boolean required(FieldScope field) {
        return field.getAnnotationConsideringFieldAndGetter(Default.class) == null
                && !field.getDeclaredType().isInstanceOf(Optional.class);
    }
}
