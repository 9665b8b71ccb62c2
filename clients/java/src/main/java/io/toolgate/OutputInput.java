package io.toolgate;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.toolgate.v1.OutputServiceGrpc;
import io.toolgate.v1.ReadOutputRequest;
import io.toolgate.v1.ReadOutputResponse;
import java.io.InputStream;
import java.util.Objects;

/**
 * The bytes of a stored output.
 *
 * <p>After a lost connection the same range is asked for again, from the offset reached where it is a range of bytes, and
 * what was read before is skipped.
 */
final class OutputInput extends InputStream {
    private static final long UNKNOWN = -1;

    private final Rpc rpc;
    private final ReadOutputRequest request;
    private final Backoff backoff;
    private RpcStream<ReadOutputRequest, ReadOutputResponse> stream;
    private ByteString piece = ByteString.EMPTY;
    private int taken;
    /** The absolute offset behind the last byte received. */
    private long reached = UNKNOWN;

    private boolean ended;

    OutputInput(Rpc rpc, ReadOutputRequest request) {
        this.rpc = rpc;
        this.request = request;
        this.backoff = new Backoff(rpc.settings().reconnectTimeout());
    }

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
            if (ended || !receive()) {
                return -1;
            }
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

    @Override
    public void close() {
        ended = true;
        drop();
    }

    /** Receives the next piece; false at the end. */
    private boolean receive() {
        try {
            if (stream == null) {
                stream = rpc.open(OutputServiceGrpc.getReadOutputMethod(), rest());
            }
            ReadOutputResponse response = stream.next(rpc.settings().silence());
            if (response == null) {
                close();
                return false;
            }
            accept(response);
            backoff.succeeded();
        } catch (ToolgateException failure) {
            drop();
            if (!rpc.retryable(failure)) {
                throw failure;
            }
            Rpc.pause(backoff.after(failure));
            rpc.reconnect();
        } catch (InterruptedException interrupted) {
            drop();
            throw Rpc.interrupted("interrupted while reading output " + request.getOutputId());
        }
        return true;
    }

    private ReadOutputRequest rest() {
        boolean byLines = request.hasLines() || request.hasTail();
        if (byLines || reached == UNKNOWN) {
            return request;
        }
        long read = reached - request.getBytes().getOffset();
        ReadOutputRequest.Builder rest = request.toBuilder();
        rest.getBytesBuilder().setOffset(reached);
        if (request.getBytes().getLimit() > 0) {
            rest.getBytesBuilder().setLimit(request.getBytes().getLimit() - read);
        }
        return rest.build();
    }

    private void accept(ReadOutputResponse response) {
        long first = reached == UNKNOWN ? response.getOffset() : reached;
        long known = first - response.getOffset();
        if (known < 0) {
            throw ToolgateException.of(
                    Status.Code.ABORTED,
                    "output " + request.getOutputId() + " has grown while it was read; read it again");
        }
        int size = response.getData().size();
        piece = response.getData();
        taken = (int) Math.min(known, size);
        reached = Math.max(first, response.getOffset() + size);
    }

    private void drop() {
        if (stream != null) {
            stream.cancel("not read any further");
            stream = null;
        }
    }
}
