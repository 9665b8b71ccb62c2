package io.toolgate;

import com.google.protobuf.Any;
import com.google.protobuf.InvalidProtocolBufferException;
import com.google.protobuf.Message;
import com.google.rpc.ErrorInfo;
import com.google.rpc.RetryInfo;
import io.grpc.Metadata;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.EnumSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/**
 * An RPC failed, or no call came of it.
 *
 * <p>A call that failed is not an error: its {@link CallResult} says why, for the model to read.
 */
public sealed class ToolgateException extends RuntimeException permits CursorTooOldException {
    private static final long serialVersionUID = 1L;

    private static final Set<Status.Code> BROKEN_CONNECTION =
            EnumSet.of(Status.Code.UNAVAILABLE, Status.Code.INTERNAL, Status.Code.UNKNOWN, Status.Code.CANCELLED);
    private static final Set<Status.Code> PASSING = EnumSet.of(Status.Code.RESOURCE_EXHAUSTED, Status.Code.ABORTED);

    private final Status.Code code;
    private final String reason;
    private final transient Map<String, String> metadata;
    private final @Nullable Duration retryDelay;

    ToolgateException(Status status, String message, ErrorInfo info, @Nullable Duration retryDelay) {
        super(message, status.getCause());
        this.code = status.getCode();
        this.reason = info.getReason();
        this.metadata = info.getMetadataMap();
        this.retryDelay = retryDelay;
    }

    static ToolgateException of(Status.Code code, String message) {
        return of(code, "", message);
    }

    /** Makes an error of this library's that has a reason as those of the service have. */
    static ToolgateException of(Status.Code code, String reason, String message) {
        ErrorInfo info = ErrorInfo.newBuilder().setReason(reason).build();
        return new ToolgateException(code.toStatus(), message, info, null);
    }

    /**
     * Makes a typed error of what a generated stub throws.
     *
     * @param failure the error of gRPC
     * @return the same, with what the service says of it
     */
    public static ToolgateException of(StatusRuntimeException failure) {
        return of(failure.getStatus(), failure.getTrailers());
    }

    static ToolgateException of(Status status, Metadata trailers) {
        com.google.rpc.Status details = StatusProto.fromStatusAndTrailers(status, trailers);
        ErrorInfo info = detail(details, ErrorInfo.class).orElse(ErrorInfo.getDefaultInstance());
        Duration delay = detail(details, RetryInfo.class)
                .filter(RetryInfo::hasRetryDelay)
                .map(retry -> Protos.duration(retry.getRetryDelay()))
                .orElse(null);
        String message = message(status, info);
        return info.getReason().equals(CursorTooOldException.REASON)
                ? new CursorTooOldException(status, message, info, delay)
                : new ToolgateException(status, message, info, delay);
    }

    private static <M extends Message> Optional<M> detail(com.google.rpc.Status status, Class<M> type) {
        try {
            for (Any detail : status.getDetailsList()) {
                if (detail.is(type)) {
                    return Optional.of(detail.unpack(type));
                }
            }
        } catch (InvalidProtocolBufferException malformed) {
            return Optional.empty();
        }
        return Optional.empty();
    }

    private static String message(Status status, ErrorInfo info) {
        String text = status.getDescription() == null ? status.getCode().name() : status.getDescription();
        if (!info.getReason().isEmpty()) {
            return text;
        }
        return switch (status.getCode()) {
            case UNAVAILABLE -> "the service cannot be reached (" + text + "); check the target and that it runs";
            case DEADLINE_EXCEEDED -> "the service did not answer in time (" + text + ")";
            case UNIMPLEMENTED -> "the service does not know this RPC (" + text + "); is it of an earlier version?";
            case RESOURCE_EXHAUSTED -> text + "; maxMessageBytes of the client bounds what it takes";
            default -> text;
        };
    }

    /**
     * Returns the gRPC status code.
     *
     * @return the code
     */
    public Status.Code code() {
        return code;
    }

    /**
     * Returns the stable word for what is wrong, from {@code google.rpc.ErrorInfo}.
     *
     * @return the reason, or an empty text if the service gave none: then the connection failed
     */
    public String reason() {
        return reason;
    }

    /**
     * Returns what {@code google.rpc.ErrorInfo} says beside the reason.
     *
     * @return the metadata, possibly empty
     */
    public Map<String, String> metadata() {
        return metadata == null ? Map.of() : metadata;
    }

    /**
     * Returns how long to wait before the same request may succeed.
     *
     * @return the delay, if the service named one
     */
    public Optional<Duration> retryDelay() {
        return Optional.ofNullable(retryDelay);
    }

    /** Whether the same request may succeed later: the connection broke, or the service says so. */
    boolean passing() {
        if (code == Status.Code.UNAVAILABLE) {
            return true;
        }
        return reason.isEmpty() ? BROKEN_CONNECTION.contains(code) : retryDelay != null && PASSING.contains(code);
    }

    /** Whether a token that was good has expired, so that a fresh one may do. */
    boolean expiredToken() {
        return reason.equals("CREDENTIALS_EXPIRED");
    }
}
