package io.toolgate;

import io.toolgate.v1.Attachment;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Predicate;
import org.jspecify.annotations.Nullable;

/**
 * Results in the forms that model APIs take.
 *
 * <p><i>Invariant:</i> a failed call is told as one where the API has a way to, and what a form cannot carry is named in the
 * text.
 */
final class Forms {
    private static final Set<String> IMAGES = Set.of("image/png", "image/jpeg", "image/gif", "image/webp");

    private Forms() {}

    static Map<String, Object> openai(CallResult result, String toolCallId) {
        return object("role", "tool", "tool_call_id", toolCallId, "content", text(result, file -> false));
    }

    static Map<String, Object> openaiResponses(CallResult result, String callId) {
        Predicate<Attachment> carried = file -> isImage(file) || (isPdf(file) && base64(file) != null);
        String text = text(result, carried);
        List<Map<String, Object>> output = new ArrayList<>();
        if (!text.isEmpty()) {
            output.add(object("type", "input_text", "text", text));
        }
        List<Attachment> files = files(result, carried);
        for (Attachment file : files) {
            String name = file.getFilename().isEmpty() ? "file.pdf" : file.getFilename();
            output.add(
                    isImage(file)
                            ? object("type", "input_image", "detail", "auto", "image_url", link(file))
                            : object("type", "input_file", "filename", name, "file_data", link(file)));
        }
        Object whole = files.isEmpty() ? text : output;
        return object("type", "function_call_output", "call_id", callId, "output", whole);
    }

    static Map<String, Object> anthropic(CallResult result, String toolUseId) {
        Predicate<Attachment> carried = file -> isImage(file) || isPdf(file);
        String text = text(result, carried);
        List<Map<String, Object>> content = new ArrayList<>();
        // An empty text is refused.
        content.add(object("type", "text", "text", text.isEmpty() ? "(no output)" : text));
        for (Attachment file : files(result, carried)) {
            String data = base64(file);
            Map<String, Object> source = data == null
                    ? object("type", "url", "url", file.getUrl())
                    : object("type", "base64", "media_type", file.getMime(), "data", data);
            content.add(object("type", isImage(file) ? "image" : "document", "source", source));
        }
        return object("type", "tool_result", "tool_use_id", toolUseId, "content", content, "is_error", !result.ok());
    }

    static Map<String, Object> gemini(CallResult result, String name, String callId) {
        Predicate<Attachment> carried = file -> (isImage(file) || isPdf(file)) && base64(file) != null;
        Map<String, Object> answer = object(result.ok() ? "output" : "error", text(result, carried));
        Map<String, Object> response = object("name", name, "response", answer);
        if (!callId.isEmpty()) {
            response.put("id", callId);
        }
        List<Map<String, Object>> parts = new ArrayList<>();
        for (Attachment file : files(result, carried)) {
            String data = base64(file);
            if (data != null) {
                Map<String, Object> blob = object("mimeType", file.getMime(), "data", data, "displayName", name(file));
                parts.add(object("inlineData", blob));
            }
        }
        if (!parts.isEmpty()) {
            response.put("parts", parts);
        }
        return object("functionResponse", response);
    }

    /** Makes an object of keys and values. */
    static Map<String, Object> object(Object... pairs) {
        Map<String, Object> object = new LinkedHashMap<>();
        for (int index = 0; index < pairs.length; index += 2) {
            object.put((String) pairs[index], pairs[index + 1]);
        }
        return object;
    }

    private static String text(CallResult result, Predicate<Attachment> carried) {
        StringBuilder text = new StringBuilder(result.text());
        for (Attachment file : result.attachments()) {
            if (!carried.test(file)) {
                text.append("\n[" + name(file) + " (" + file.getMime() + ") is not shown here]");
            }
        }
        return text.toString();
    }

    private static List<Attachment> files(CallResult result, Predicate<Attachment> carried) {
        return result.attachments().stream().filter(carried).toList();
    }

    /** Returns a name for the model. */
    private static String name(Attachment file) {
        return file.getFilename().isEmpty() ? file.getMime() : file.getFilename();
    }

    /** Says whether it is a picture that models can look at. One without content would have the whole request refused. */
    private static boolean isImage(Attachment file) {
        return IMAGES.contains(file.getMime()) && !isEmpty(file);
    }

    private static boolean isPdf(Attachment file) {
        return file.getMime().equals("application/pdf") && !isEmpty(file);
    }

    private static boolean isEmpty(Attachment file) {
        return file.getUrl().isEmpty() && file.getData().isEmpty();
    }

    /** Returns where its content is: a URL, or the content itself as a data URL. */
    private static String link(Attachment file) {
        return file.hasUrl() ? file.getUrl() : "data:" + file.getMime() + ";base64," + base64(file);
    }

    /** Returns its content in Base64; null where that has to be fetched. */
    private static @Nullable String base64(Attachment file) {
        if (!file.hasUrl()) {
            return Base64.getEncoder().encodeToString(file.getData().toByteArray());
        }
        String[] parts = file.getUrl().split(";base64,", 2);
        return parts.length == 2 && parts[0].startsWith("data:") && !parts[1].isEmpty() ? parts[1] : null;
    }
}
