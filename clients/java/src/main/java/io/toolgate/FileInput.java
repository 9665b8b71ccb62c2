package io.toolgate;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.toolgate.v1.FileInfo;
import io.toolgate.v1.FileServiceGrpc;
import io.toolgate.v1.ReadFileRequest;
import io.toolgate.v1.ReadFileResponse;
import org.jspecify.annotations.Nullable;

/**
 * The bytes of a file.
 *
 * <p>After a lost connection the rest is asked for, which is only the rest if the file is still what it was.
 */
final class FileInput extends ResumedInput<ReadFileResponse> {
    private final ReadFileRequest request;
    private @Nullable FileInfo info;

    FileInput(Rpc rpc, ReadFileRequest request) {
        super(rpc, request.getPath());
        this.request = request;
    }

    /** The file as it was when its first byte was read; null until something is read. */
    @Nullable
    FileInfo info() {
        return info;
    }

    @Override
    RpcStream<?, ReadFileResponse> open(Rpc rpc) {
        ReadFileRequest rest = begun()
                ? request.toBuilder()
                        .setRange(rest(request.getRange()))
                        .clearWithSha256()
                        .build()
                : request;
        return rpc.open(FileServiceGrpc.getReadFileMethod(), rest);
    }

    @Override
    ByteString accept(ReadFileResponse response) {
        if (response.hasFile()) {
            begin(response.getFile());
        }
        return fresh(response.getOffset(), response.getData());
    }

    private void begin(FileInfo now) {
        if (info == null) {
            info = now;
        } else if (now.getSizeBytes() != info.getSizeBytes()
                || !now.getModifyTime().equals(info.getModifyTime())) {
            throw ToolgateException.of(
                    Status.Code.ABORTED,
                    "FILE_CHANGED",
                    "somebody has written to " + request.getPath() + " while it was read; read it again");
        }
    }
}
