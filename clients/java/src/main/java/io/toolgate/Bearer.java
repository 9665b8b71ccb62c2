package io.toolgate;

import io.grpc.CallCredentials;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import java.util.concurrent.Executor;
import java.util.function.Supplier;

/** Shows a token with each RPC, fresh from its supplier. */
final class Bearer extends CallCredentials implements ClientInterceptor {
    private static final Metadata.Key<String> AUTHORIZATION =
            Metadata.Key.of("authorization", Metadata.ASCII_STRING_MARSHALLER);

    private final Supplier<String> token;

    Bearer(Supplier<String> token) {
        this.token = token;
    }

    @Override
    public <Q, R> ClientCall<Q, R> interceptCall(MethodDescriptor<Q, R> method, CallOptions options, Channel next) {
        return next.newCall(method, options.withCallCredentials(this));
    }

    @Override
    public void applyRequestMetadata(RequestInfo request, Executor executor, MetadataApplier applier) {
        // A supplier may have to ask somebody for a token: not on a thread of the transport.
        executor.execute(() -> apply(applier));
    }

    private void apply(MetadataApplier applier) {
        try {
            Metadata metadata = new Metadata();
            metadata.put(AUTHORIZATION, "Bearer " + token.get());
            applier.apply(metadata);
        } catch (RuntimeException failure) {
            applier.fail(Status.UNAUTHENTICATED
                    .withDescription("the supplier gave no token: " + failure.getMessage())
                    .withCause(failure));
        }
    }
}
