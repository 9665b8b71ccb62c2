package io.toolgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.grpc.Status;
import org.junit.jupiter.api.function.Executable;

/** What the service refuses. */
final class Refusals {
    private Refusals() {}

    /** Expects a refusal with a code and a reason, and returns it. */
    static ToolgateException refused(Status.Code code, String reason, Executable action) {
        ToolgateException refused = assertThrows(ToolgateException.class, action);
        assertEquals(code, refused.code(), refused.getMessage());
        assertEquals(reason, refused.reason(), refused.getMessage());
        return refused;
    }
}
