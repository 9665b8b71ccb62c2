package io.toolgate;

import com.google.protobuf.ListValue;
import com.google.protobuf.NullValue;
import com.google.protobuf.Struct;
import com.google.protobuf.Timestamp;
import com.google.protobuf.Value;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** Conversions between the well-known types of protobuf and those of Java. */
final class Protos {
    private static final double LARGEST_EXACT_INTEGER = 9_007_199_254_740_992.0;

    private Protos() {}

    static Duration duration(com.google.protobuf.Duration duration) {
        return Duration.ofSeconds(duration.getSeconds(), duration.getNanos());
    }

    static com.google.protobuf.Duration duration(Duration duration) {
        return com.google.protobuf.Duration.newBuilder()
                .setSeconds(duration.getSeconds())
                .setNanos(duration.getNano())
                .build();
    }

    static Instant instant(Timestamp timestamp) {
        return Instant.ofEpochSecond(timestamp.getSeconds(), timestamp.getNanos());
    }

    static Map<String, @Nullable Object> map(Struct struct) {
        Map<String, @Nullable Object> map = new LinkedHashMap<>();
        struct.getFieldsMap().forEach((key, value) -> map.put(key, plain(value)));
        return Collections.unmodifiableMap(map);
    }

    private static @Nullable Object plain(Value value) {
        return switch (value.getKindCase()) {
            case STRING_VALUE -> value.getStringValue();
            case BOOL_VALUE -> value.getBoolValue();
            case NUMBER_VALUE -> number(value.getNumberValue());
            case STRUCT_VALUE -> map(value.getStructValue());
            case LIST_VALUE -> {
                List<@Nullable Object> list = new ArrayList<>();
                value.getListValue().getValuesList().forEach(item -> list.add(plain(item)));
                yield Collections.unmodifiableList(list);
            }
            case NULL_VALUE, KIND_NOT_SET -> null;
        };
    }

    private static Object number(double number) {
        boolean whole = number == Math.rint(number) && Math.abs(number) < LARGEST_EXACT_INTEGER;
        if (whole) {
            return (long) number;
        }
        return number;
    }

    static Struct struct(Map<String, ? extends @Nullable Object> map) {
        Struct.Builder struct = Struct.newBuilder();
        map.forEach((key, value) -> struct.putFields(key, value(value)));
        return struct.build();
    }

    private static Value value(Object plain) {
        Value.Builder value = Value.newBuilder();
        if (plain == null) {
            value.setNullValue(NullValue.NULL_VALUE);
        } else if (plain instanceof String text) {
            value.setStringValue(text);
        } else if (plain instanceof Boolean truth) {
            value.setBoolValue(truth);
        } else if (plain instanceof Number number) {
            value.setNumberValue(number.doubleValue());
        } else if (plain instanceof Map<?, ?> map) {
            Struct.Builder struct = Struct.newBuilder();
            map.forEach((key, item) -> struct.putFields(String.valueOf(key), value(item)));
            value.setStructValue(struct);
        } else if (plain instanceof Iterable<?> items) {
            ListValue.Builder list = ListValue.newBuilder();
            items.forEach(item -> list.addValues(value(item)));
            value.setListValue(list);
        } else {
            return value(Json.plain(plain));
        }
        return value.build();
    }
}
