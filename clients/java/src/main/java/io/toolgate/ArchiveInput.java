package io.toolgate;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.toolgate.v1.ArchiveEnd;
import io.toolgate.v1.DownloadArchiveRequest;
import io.toolgate.v1.DownloadArchiveResponse;
import io.toolgate.v1.FileServiceGrpc;
import org.jspecify.annotations.Nullable;

/** The bytes of an archive, which cannot be asked for from the middle on. */
final class ArchiveInput extends PieceInput {
    private final Rpc rpc;
    private final RpcStream<DownloadArchiveRequest, DownloadArchiveResponse> stream;
    private @Nullable DownloadArchiveResponse next;
    private @Nullable ArchiveEnd end;

    private ArchiveInput(Rpc rpc, DownloadArchiveRequest request) {
        this.rpc = rpc;
        this.stream = rpc.open(FileServiceGrpc.getDownloadArchiveMethod(), request);
    }

    /** Opens the stream and waits for its first message, again after a lost connection. */
    static ArchiveInput begin(Rpc rpc, DownloadArchiveRequest request) {
        return rpc.retried(() -> {
            ArchiveInput input = new ArchiveInput(rpc, request);
            input.next = input.message();
            return input;
        });
    }

    @Override
    @Nullable
    ByteString receive() {
        while (end == null) {
            DownloadArchiveResponse message = next == null ? message() : next;
            next = null;
            if (!message.hasEnd()) {
                return message.getData();
            }
            end = message.getEnd();
        }
        return null;
    }

    private DownloadArchiveResponse message() {
        try {
            DownloadArchiveResponse message = stream.next(rpc.settings().silence());
            if (message == null) {
                throw ToolgateException.of(Status.Code.UNAVAILABLE, "the archive is incomplete; begin again");
            }
            return message;
        } catch (InterruptedException interrupted) {
            close();
            throw Rpc.interrupted("interrupted while reading an archive");
        }
    }

    /** What the service said at the end; null before. */
    @Nullable
    ArchiveEnd end() {
        return end;
    }

    @Override
    public void close() {
        stream.cancel("not read any further");
    }
}
