package io.toolgate;

import com.google.protobuf.ByteString;
import java.io.InputStream;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/** Bytes that come in pieces. */
abstract class PieceInput extends InputStream {
    private ByteString piece = ByteString.EMPTY;
    private int taken;

    /** Waits for the next piece, which may be empty; null at the end. */
    abstract @Nullable ByteString receive();

    @Override
    public int read() {
        byte[] single = new byte[1];
        return read(single, 0, 1) == -1 ? -1 : single[0] & 0xff;
    }

    @Override
    public int read(byte[] target, int offset, int length) {
        Objects.checkFromIndexSize(offset, length, target.length);
        if (length == 0) {
            return 0;
        }
        while (taken == piece.size()) {
            ByteString next = receive();
            if (next == null) {
                return -1;
            }
            piece = next;
            taken = 0;
        }
        int count = Math.min(length, piece.size() - taken);
        piece.substring(taken, taken + count).copyTo(target, offset);
        taken += count;
        return count;
    }

    @Override
    public int available() {
        return piece.size() - taken;
    }
}
