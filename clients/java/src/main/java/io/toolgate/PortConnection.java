package io.toolgate;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.toolgate.v1.ConnectPortRequest;
import io.toolgate.v1.ConnectPortResponse;
import io.toolgate.v1.PortServiceGrpc;
import java.io.InputStream;
import java.io.OutputStream;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * One connection to a port. Bytes wait at the sender while the other side does not read.
 *
 * <p>Its streams throw {@link ToolgateException} when the connection breaks; the reason is {@code CONNECTION_LOST} if the
 * program broke it.
 */
public final class PortConnection implements AutoCloseable {
    private static final int PIECE_BYTES = 64 << 10;

    private final RpcStream<ConnectPortRequest, ConnectPortResponse> stream;
    private final InputStream input = new Input();
    private final OutputStream output = new Output();

    private PortConnection(RpcStream<ConnectPortRequest, ConnectPortResponse> stream) {
        this.stream = stream;
    }

    /** Connects, and waits until the connection is made. */
    static PortConnection open(Rpc rpc, String callId) {
        PortConnection connection = new PortConnection(rpc.open(PortServiceGrpc.getConnectPortMethod()));
        ConnectPortRequest first =
                ConnectPortRequest.newBuilder().setCallId(callId).build();
        try {
            connection.stream.send(first);
            // The first message is empty.
            connection.receive();
            return connection;
        } catch (InterruptedException interrupted) {
            connection.close();
            throw Rpc.interrupted("interrupted while connecting to a port");
        }
    }

    /**
     * Returns what the program sends.
     *
     * @return the bytes, until the program closes its side; closing it closes the connection
     */
    public InputStream input() {
        return input;
    }

    /**
     * Returns what takes the bytes for the program. Each write is sent at once; closing it is {@link #halfClose}.
     *
     * @return the stream
     */
    public OutputStream output() {
        return output;
    }

    /** Says that nothing follows: the program reads the end, and may go on sending. */
    public void halfClose() {
        stream.halfClose();
    }

    /** Ends the connection in both directions, also for threads that read or write. */
    @Override
    public void close() {
        stream.cancel("closed");
    }

    private @Nullable ByteString receive() {
        try {
            ConnectPortResponse response = stream.next(Rpc.ANY_SILENCE);
            return response == null ? null : response.getData();
        } catch (InterruptedException interrupted) {
            close();
            throw Rpc.interrupted("interrupted while reading from a port");
        }
    }

    private void send(ByteString data) {
        try {
            ConnectPortRequest request =
                    ConnectPortRequest.newBuilder().setData(data).build();
            if (!stream.send(request)) {
                ToolgateException failure = stream.failure();
                throw failure == null
                        ? ToolgateException.of(Status.Code.CANCELLED, "the connection is closed")
                        : failure;
            }
        } catch (InterruptedException interrupted) {
            close();
            throw Rpc.interrupted("interrupted while writing to a port");
        }
    }

    private final class Input extends PieceInput {
        @Override
        @Nullable
        ByteString receive() {
            return PortConnection.this.receive();
        }

        @Override
        public void close() {
            PortConnection.this.close();
        }
    }

    private final class Output extends OutputStream {
        @Override
        public void write(int single) {
            write(new byte[] {(byte) single}, 0, 1);
        }

        @Override
        public void write(byte[] bytes, int offset, int length) {
            Objects.checkFromIndexSize(offset, length, bytes.length);
            for (int sent = 0; sent < length; sent += PIECE_BYTES) {
                send(ByteString.copyFrom(bytes, offset + sent, Math.min(PIECE_BYTES, length - sent)));
            }
        }

        @Override
        public void close() {
            halfClose();
        }
    }
}
