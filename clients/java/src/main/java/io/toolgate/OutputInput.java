package io.toolgate;

import com.google.protobuf.ByteString;
import io.toolgate.v1.OutputServiceGrpc;
import io.toolgate.v1.ReadOutputRequest;
import io.toolgate.v1.ReadOutputResponse;

/**
 * The bytes of a stored output.
 *
 * <p>After a lost connection the same range is asked for again, from the offset reached where it is a range of bytes, and
 * what was read before is skipped.
 */
final class OutputInput extends ResumedInput<ReadOutputResponse> {
    private final ReadOutputRequest request;

    OutputInput(Rpc rpc, ReadOutputRequest request) {
        super(rpc, "output " + request.getOutputId());
        this.request = request;
    }

    @Override
    RpcStream<?, ReadOutputResponse> open(Rpc rpc) {
        boolean byLines = request.hasLines() || request.hasTail();
        ReadOutputRequest rest = byLines || !begun()
                ? request
                : request.toBuilder().setBytes(rest(request.getBytes())).build();
        return rpc.open(OutputServiceGrpc.getReadOutputMethod(), rest);
    }

    @Override
    ByteString accept(ReadOutputResponse response) {
        return fresh(response.getOffset(), response.getData());
    }
}
