package io.toolgate;

import com.google.rpc.ErrorInfo;
import io.grpc.Status;
import java.time.Duration;
import org.jspecify.annotations.Nullable;

/**
 * What happened to files since a cursor is not known any more: too much has happened, nobody has watched for five minutes, or
 * the service has started anew. List the folder, and watch it without a cursor.
 */
public final class CursorTooOldException extends ToolgateException {
    static final String REASON = "CURSOR_TOO_OLD";

    private static final long serialVersionUID = 1L;

    CursorTooOldException(Status status, String message, ErrorInfo info, @Nullable Duration retryDelay) {
        super(status, message, info, retryDelay);
    }
}
