package io.toolgate;

import com.google.protobuf.ByteString;
import io.toolgate.v1.Attachment;
import io.toolgate.v1.HostCompleted;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/**
 * The result of a lent tool or a subagent. Immutable: each method returns another one.
 *
 * @param proto the message
 */
public record ToolOutput(HostCompleted proto) {
    /**
     * Makes a result of the text for the model.
     *
     * @param output the text; a long one is stored and cut by the service
     * @return the result
     */
    public static ToolOutput text(String output) {
        return new ToolOutput(HostCompleted.newBuilder().setOutput(output).build());
    }

    /**
     * Makes a result of what was reported by {@link Invocation#output(String)}.
     *
     * @return the result
     */
    public static ToolOutput reported() {
        return new ToolOutput(HostCompleted.getDefaultInstance());
    }

    /**
     * Adds a short text for people.
     *
     * @param title the title
     * @return the result
     */
    public ToolOutput title(String title) {
        return new ToolOutput(proto.toBuilder().setTitle(title).build());
    }

    /**
     * Adds what a front end draws, over what was reported as progress.
     *
     * @param metadata the metadata
     * @return the result
     */
    public ToolOutput metadata(Map<String, ? extends @Nullable Object> metadata) {
        return new ToolOutput(
                proto.toBuilder().setMetadata(Protos.struct(metadata)).build());
    }

    /**
     * Adds a file.
     *
     * @param filename its name
     * @param mime its media type
     * @param data its content
     * @return the result
     */
    public ToolOutput attach(String filename, String mime, byte[] data) {
        Attachment.Builder attachment =
                Attachment.newBuilder().setFilename(filename).setMime(mime).setData(ByteString.copyFrom(data));
        return new ToolOutput(proto.toBuilder().addAttachments(attachment).build());
    }
}
