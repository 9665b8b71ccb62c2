package io.toolgate.driver;

import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.protobuf.Parser;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.Map;
import tools.jackson.databind.JsonNode;

/** One command, and the reports about it. */
final class Command {
    private final JsonNode command;
    private final Reports reports;

    Command(JsonNode command, Reports reports) {
        this.command = command;
        this.reports = reports;
    }

    long id() {
        return command.path("id").asLong(0);
    }

    String verb() {
        return text("do");
    }

    boolean has(String key) {
        return command.hasNonNull(key);
    }

    String text(String key) {
        if (!has(key)) {
            throw new IllegalArgumentException("the command lacks " + key);
        }
        return command.get(key).asString();
    }

    long number(String key) {
        return command.path(key).asLong(0);
    }

    boolean flag(String key) {
        return command.path(key).asBoolean(false);
    }

    /** Returns a message of the contract; the empty one if there is none. */
    <M extends Message> M message(String key, Parser<M> parser) {
        try {
            return parser.parseFrom(Base64.getDecoder().decode(has(key) ? text(key) : ""));
        } catch (InvalidProtocolBufferException malformed) {
            throw new IllegalArgumentException(key + ": " + malformed.getMessage(), malformed);
        }
    }

    static String encoded(Message message) {
        return Base64.getEncoder().encodeToString(message.toByteArray());
    }

    void report(String key, Object value) {
        Map<String, Object> report = new LinkedHashMap<>();
        report.put("id", id());
        report.put(key, value);
        reports.write(report);
    }

    void done() {
        done(Map.of());
    }

    void done(Map<String, Object> result) {
        report("done", result);
    }

    void failed(Throwable failure) {
        report("error", Driver.error(failure));
    }
}
