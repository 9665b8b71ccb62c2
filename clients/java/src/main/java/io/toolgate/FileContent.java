package io.toolgate;

import com.google.protobuf.ByteString;
import io.toolgate.v1.FileInfo;

/**
 * What a file holds.
 *
 * @param info the file; with its SHA-256 if all of it was read, for {@link WriteOptions#ifSha256}
 * @param bytes what was read of it
 */
public record FileContent(FileInfo info, ByteString bytes) {
    /**
     * Returns the bytes as text.
     *
     * @return the text; what is not UTF-8 is replaced
     */
    public String text() {
        return bytes.toStringUtf8();
    }
}
