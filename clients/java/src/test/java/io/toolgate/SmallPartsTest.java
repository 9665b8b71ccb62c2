package io.toolgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.Any;
import com.google.rpc.Code;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import org.junit.jupiter.api.Test;

class SmallPartsTest {
    record Place(@Description("Where.") String city) {}

    enum Unit {
        METRIC,
        IMPERIAL
    }

    @Description("What to say of the weather.")
    record Weather(
            @Description("Where.") Place place,
            @Default("3") int days,
            @Default("\"METRIC\"") Unit unit,
            Optional<String> note,
            List<String> tags) {}

    @Test
    void derivesASchemaFromARecord() {
        Map<String, Object> schema = Json.map(InputSchema.of(Weather.class).json());
        Map<String, Object> expected = Json.map("""
                {"type": "object", "description": "What to say of the weather.", "properties": {
                  "place": {"type": "object", "description": "Where.", "required": ["city"],
                    "properties": {"city": {"type": "string", "description": "Where."}}},
                  "days": {"type": "integer", "default": 3},
                  "unit": {"type": "string", "enum": ["METRIC", "IMPERIAL"], "default": "METRIC"},
                  "note": {"type": ["string", "null"]},
                  "tags": {"type": "array", "items": {"type": "string"}}},
                  "required": ["place", "tags"]}
                """);
        assertEquals(expected, schema);
        assertEquals(
                List.of("place", "days", "unit", "note", "tags"),
                List.copyOf(((Map<?, ?>) schema.get("properties")).keySet()));
    }

    @Test
    void readsArgumentsAndFillsInDefaults() {
        Weather weather = InputSchema.of(Weather.class)
                .parse("{\"place\": {\"city\": \"Bern\"}, \"tags\": [\"a\"], \"unknown\": 1}");
        assertEquals(new Weather(new Place("Bern"), 3, Unit.METRIC, Optional.empty(), List.of("a")), weather);
    }

    @Test
    void convertsMetadataBothWays() {
        Map<String, Object> plain = new LinkedHashMap<>();
        plain.put("text", "a");
        plain.put("whole", 3L);
        plain.put("part", 0.5);
        plain.put("none", null);
        plain.put("list", new ArrayList<>(Arrays.asList(true, null, Map.of("deep", 1L))));
        assertEquals(plain, Protos.map(Protos.struct(plain)));
        assertEquals(
                Map.of("place", Map.of("city", "Bern")), Protos.map(Protos.struct(Map.of("place", new Place("Bern")))));
    }

    @Test
    void readsWhatTheServiceSaysOfAnError() {
        com.google.rpc.Status status = com.google.rpc.Status.newBuilder()
                .setCode(Code.RESOURCE_EXHAUSTED_VALUE)
                .setMessage("too many calls run")
                .addDetails(Any.pack(ErrorInfo.newBuilder()
                        .setReason("TOO_MANY_CALLS")
                        .putMetadata("limit", "8")
                        .build()))
                .addDetails(Any.pack(RetryInfo.newBuilder()
                        .setRetryDelay(Protos.duration(Duration.ofSeconds(2)))
                        .build()))
                .build();
        ToolgateException failure = ToolgateException.of(StatusProto.toStatusRuntimeException(status));
        assertEquals(Status.Code.RESOURCE_EXHAUSTED, failure.code());
        assertEquals("TOO_MANY_CALLS", failure.reason());
        assertEquals(Map.of("limit", "8"), failure.metadata());
        assertEquals(Optional.of(Duration.ofSeconds(2)), failure.retryDelay());
        assertEquals("too many calls run", failure.getMessage());
        assertTrue(failure.passing());
        assertFalse(ToolgateException.of(Status.NOT_FOUND.asRuntimeException()).passing());
    }

    @Test
    void waitsLongerAfterEachFailureAndGivesUp() {
        ToolgateException failure = ToolgateException.of(Status.UNAVAILABLE.asRuntimeException());
        Backoff backoff = new Backoff(null);
        for (long ceiling : new long[] {50, 100, 200, 400, 800, 1600, 3200, 5000, 5000}) {
            long delay = backoff.after(failure).toMillis();
            assertTrue(ceiling / 2 <= delay && delay <= ceiling, delay + " of " + ceiling);
        }
        backoff.succeeded();
        assertTrue(backoff.after(failure).toMillis() <= 50);
        assertThrows(ToolgateException.class, () -> new Backoff(Duration.ZERO).after(failure));
    }

    @Test
    void makesIdentifiersThatSortByTime() {
        UUID id = Uuid7.at(0x0123456789abL);
        assertTrue(id.toString().startsWith("01234567-89ab-7"), id.toString());
        assertEquals(7, id.version());
        assertEquals(2, id.variant());
    }

    @Test
    void citesTheDigestInEachReply() {
        Prompt prompt = Prompt.of(io.toolgate.v1.Prompt.newBuilder()
                .setPromptId("per_1")
                .setInputDigest("abc")
                .build());
        var reply = Replies.reply(prompt, Decision.instead(Map.of("command", "ls")));
        assertEquals("abc", reply.getInputDigest());
        assertEquals("{\"command\":\"ls\"}", reply.getInputJson());
        assertFalse(reply.getReplyId().isEmpty());
    }
}
