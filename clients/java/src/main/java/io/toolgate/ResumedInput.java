package io.toolgate;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.toolgate.v1.ByteRange;
import org.jspecify.annotations.Nullable;

/** Bytes of a stream that is opened again after a lost connection, for what was not received yet. */
abstract class ResumedInput<R> extends PieceInput {
    private static final long UNKNOWN = -1;

    private final Rpc rpc;
    /** What is read, for people. */
    private final String name;

    private final Backoff backoff;
    private @Nullable RpcStream<?, R> stream;
    /** The absolute offset behind the last byte received. */
    private long reached = UNKNOWN;

    private boolean ended;

    ResumedInput(Rpc rpc, String name) {
        this.rpc = rpc;
        this.name = name;
        this.backoff = new Backoff(rpc.settings().reconnectTimeout());
    }

    /** Opens a stream for what was not received yet. */
    abstract RpcStream<?, R> open(Rpc rpc);

    /** Takes a message in, and returns those of its bytes that are new. */
    abstract ByteString accept(R message);

    @Override
    @Nullable
    ByteString receive() {
        if (ended) {
            return null;
        }
        try {
            if (stream == null) {
                stream = open(rpc);
            }
            R message = stream.next(rpc.settings().silence());
            if (message == null) {
                close();
                return null;
            }
            ByteString piece = accept(message);
            backoff.succeeded();
            return piece;
        } catch (ToolgateException failure) {
            drop();
            if (!rpc.retryable(failure)) {
                throw failure;
            }
            Rpc.pause(backoff.after(failure));
            rpc.reconnect();
            return ByteString.EMPTY;
        } catch (InterruptedException interrupted) {
            drop();
            throw Rpc.interrupted("interrupted while reading " + name);
        }
    }

    /** Whether anything was received. */
    boolean begun() {
        return reached != UNKNOWN;
    }

    /** Returns what is left of a range of which a part was received. */
    ByteRange rest(ByteRange asked) {
        ByteRange.Builder rest = asked.toBuilder().setOffset(reached);
        if (asked.getLimit() > 0) {
            long left = asked.getOffset() + asked.getLimit() - reached;
            // A limit of 0 would mean all that follows, so the last byte is asked for again.
            rest.setOffset(left == 0 ? reached - 1 : reached).setLimit(Math.max(left, 1));
        }
        return rest.build();
    }

    /** Returns what is new of bytes that begin at an absolute offset. */
    ByteString fresh(long offset, ByteString data) {
        long first = begun() ? reached : offset;
        if (first < offset) {
            throw ToolgateException.of(Status.Code.ABORTED, name + " has changed while it was read; read it again");
        }
        reached = Math.max(first, offset + data.size());
        return data.substring((int) Math.min(first - offset, data.size()));
    }

    @Override
    public void close() {
        ended = true;
        drop();
    }

    private void drop() {
        if (stream != null) {
            stream.cancel("not read any further");
            stream = null;
        }
    }
}
