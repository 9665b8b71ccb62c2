package io.toolgate;

import com.google.protobuf.ByteString;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.function.Function;

/** Sends a content in pieces, from its beginning after each lost connection. */
final class Upload<Q, R> {
    private static final int PIECE_BYTES = 64 << 10;
    /** The most that the service takes. */
    private static final int MOST_BYTES = 64 << 20;

    /** A content that can be read more than once. */
    @FunctionalInterface
    interface Source {
        InputStream open() throws IOException;
    }

    private final Rpc rpc;
    private final MethodDescriptor<Q, R> method;
    private final Function<ByteString, Q> piece;

    /** {@code piece} makes a message of the next bytes. */
    Upload(Rpc rpc, MethodDescriptor<Q, R> method, Function<ByteString, Q> piece) {
        this.rpc = rpc;
        this.method = method;
        this.piece = piece;
    }

    /** Keeps what a stream brings; of what the service will refuse no more than it takes to be refused. */
    static Source kept(InputStream content) throws IOException {
        byte[] bytes = content.readNBytes(MOST_BYTES + 1);
        return () -> new ByteArrayInputStream(bytes);
    }

    R send(Q first, Source content) throws IOException {
        return rpc.retried(() -> once(first, content));
    }

    private R once(Q first, Source content) throws IOException {
        try (InputStream bytes = content.open()) {
            RpcStream<Q, R> stream = rpc.open(method);
            try {
                send(stream, first, bytes);
                R answer = stream.next(Rpc.ANY_SILENCE);
                if (answer == null) {
                    throw ToolgateException.of(
                            Status.Code.UNAVAILABLE, "the service ended the stream without an answer");
                }
                return answer;
            } finally {
                stream.cancel("over");
            }
        } catch (InterruptedException interrupted) {
            throw Rpc.interrupted("interrupted while sending");
        }
    }

    /** Sends until the end of the content, or until the service does not want any more: its answer says why. */
    private void send(RpcStream<Q, R> stream, Q first, InputStream content) throws IOException, InterruptedException {
        Q message = first;
        while (stream.send(message)) {
            byte[] bytes = content.readNBytes(PIECE_BYTES);
            if (bytes.length == 0) {
                stream.halfClose();
                return;
            }
            message = piece.apply(ByteString.copyFrom(bytes));
        }
    }
}
