package io.toolgate;

import io.grpc.ChannelCredentials;
import io.grpc.Grpc;
import io.grpc.InsecureChannelCredentials;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.TlsChannelCredentials;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.netty.shaded.io.netty.channel.ChannelOption;
import io.toolgate.v1.CallContext;
import io.toolgate.v1.ModelRef;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.jspecify.annotations.Nullable;

/**
 * Says how to reach a service, and in whose name.
 *
 * <p>What is left out comes from the variables that the command line uses as well: {@code TOOLGATE_SERVER}, {@code
 * TOOLGATE_TOKEN}, {@code TOOLGATE_TOKEN_FILE}, {@code TOOLGATE_TLS_CA}, {@code TOOLGATE_TLS_CERT} and {@code
 * TOOLGATE_TLS_KEY}.
 */
public final class ClientBuilder {
    private static final String DEFAULT_TARGET = "http://127.0.0.1:50551";
    private static final Duration KEEPALIVE_TIME = Duration.ofSeconds(20);
    private static final Duration KEEPALIVE_TIMEOUT = Duration.ofSeconds(10);
    private static final String CLIENT_NAME = "toolgate-java/0.1.0";

    private final CallContext.Builder context = CallContext.newBuilder().setClientName(CLIENT_NAME);
    private String target;
    private @Nullable Supplier<String> token;
    private boolean freshTokens;
    private @Nullable Path roots;
    private @Nullable Path certificate;
    private @Nullable Path key;
    private @Nullable String serverName;
    private Duration deadline = Duration.ofSeconds(60);
    private Duration reconnectTimeout = Duration.ofMinutes(2);
    private Duration silence = Duration.ofSeconds(45);
    private int maxMessageBytes = 64 << 20;
    private @Nullable Executor executor;

    ClientBuilder(Map<String, String> environment) {
        target = environment.getOrDefault("TOOLGATE_SERVER", DEFAULT_TARGET);
        if (environment.containsKey("TOOLGATE_TOKEN")) {
            token(environment.get("TOOLGATE_TOKEN"));
        } else if (environment.containsKey("TOOLGATE_TOKEN_FILE")) {
            tokenFile(Path.of(environment.get("TOOLGATE_TOKEN_FILE")));
        }
        roots = path(environment.get("TOOLGATE_TLS_CA"));
        certificate = path(environment.get("TOOLGATE_TLS_CERT"));
        key = path(environment.get("TOOLGATE_TLS_KEY"));
    }

    private static @Nullable Path path(@Nullable String text) {
        return text == null ? null : Path.of(text);
    }

    /**
     * Names the service.
     *
     * @param target {@code unix:/path}, {@code http://host:port} (not encrypted), {@code https://host:port}, or {@code
     *     host:port}, which is encrypted unless the host is this machine
     * @return this
     */
    public ClientBuilder target(String target) {
        this.target = target;
        return this;
    }

    /**
     * Shows a token with each RPC.
     *
     * @param token the bearer token; null for none
     * @return this
     */
    public ClientBuilder token(@Nullable String token) {
        this.token = token == null ? null : () -> token;
        this.freshTokens = false;
        return this;
    }

    /**
     * Shows a token with each RPC, from a supplier that is asked each time. When the service says that a token has expired,
     * streams are opened again with the next one.
     *
     * @param token gives a token that is good now; may block
     * @return this
     */
    public ClientBuilder token(Supplier<String> token) {
        this.token = token;
        this.freshTokens = true;
        return this;
    }

    /**
     * Shows the token in a file with each RPC; the file is read each time, so it may be replaced.
     *
     * @param file the file
     * @return this
     */
    public ClientBuilder tokenFile(Path file) {
        return token(() -> {
            try {
                return Files.readString(file).strip();
            } catch (IOException failure) {
                throw new UncheckedIOException(failure);
            }
        });
    }

    /**
     * Trusts these authorities instead of those that Java trusts.
     *
     * @param roots a file of certificates, PEM
     * @return this
     */
    public ClientBuilder trustedRoots(Path roots) {
        this.roots = roots;
        return this;
    }

    /**
     * Shows a certificate to the service.
     *
     * @param certificate a file with the certificate and those that signed it, PEM
     * @param key a file with its private key, PEM (PKCS#8)
     * @return this
     */
    public ClientBuilder clientCertificate(Path certificate, Path key) {
        this.certificate = certificate;
        this.key = key;
        return this;
    }

    /**
     * Names the service as its certificate does, where that is not the target's host.
     *
     * @param serverName the name
     * @return this
     */
    public ClientBuilder serverName(String serverName) {
        this.serverName = serverName;
        return this;
    }

    /**
     * Names the workspace of requests that name none.
     *
     * @param workspace its name; empty for the service's default
     * @return this
     */
    public ClientBuilder workspace(String workspace) {
        context.setWorkspace(workspace);
        return this;
    }

    /**
     * Names the agent of requests that name none.
     *
     * @param agent its name; empty for {@code build}
     * @return this
     */
    public ClientBuilder agent(String agent) {
        context.setAgent(agent);
        return this;
    }

    /**
     * Names the model of requests that name none.
     *
     * @param provider the provider's id, for instance {@code anthropic}
     * @param model the provider's name for the model
     * @return this
     */
    public ClientBuilder model(String provider, String model) {
        context.setModel(ModelRef.newBuilder().setProviderId(provider).setModelId(model));
        return this;
    }

    /**
     * Names the session of calls that name none. Without it each call has a session of its own.
     *
     * @param session its id
     * @return this
     */
    public ClientBuilder session(String session) {
        context.setSessionId(session);
        return this;
    }

    /**
     * Says what kind of client this is.
     *
     * @param kind {@code cli}, {@code app}, {@code desktop}, or a name of your own
     * @return this
     */
    public ClientBuilder clientKind(String kind) {
        context.setClientKind(kind);
        return this;
    }

    /**
     * Says which program makes the calls, for people.
     *
     * @param name its name and its version; by default those of this library
     * @return this
     */
    public ClientBuilder clientName(String name) {
        context.setClientName(name);
        return this;
    }

    /**
     * Bounds RPCs that give one answer; streams have no bound.
     *
     * @param deadline of each attempt; 60 seconds unless given
     * @return this
     */
    public ClientBuilder deadline(Duration deadline) {
        this.deadline = deadline;
        return this;
    }

    /**
     * Says for how long a call is gone after while the service cannot be reached.
     *
     * @param timeout since the last sign of the service; 2 minutes unless given
     * @return this
     */
    public ClientBuilder reconnectTimeout(Duration timeout) {
        this.reconnectTimeout = timeout;
        return this;
    }

    /**
     * Says when a silent stream counts as lost. Services give a sign every 15 seconds.
     *
     * @param silence the longest silence; 45 seconds unless given
     * @return this
     */
    public ClientBuilder silenceTimeout(Duration silence) {
        this.silence = silence;
        return this;
    }

    /**
     * Bounds the messages that are taken.
     *
     * @param bytes at least the service's {@code max_message_bytes}; 64 MiB unless given
     * @return this
     */
    public ClientBuilder maxMessageBytes(int bytes) {
        this.maxMessageBytes = bytes;
        return this;
    }

    /**
     * Runs handlers, lent functions and futures elsewhere than on threads of the client's own.
     *
     * @param executor starts as many tasks at once as it is given; interrupts reach them
     * @return this
     */
    public ClientBuilder executor(Executor executor) {
        this.executor = executor;
        return this;
    }

    /**
     * Makes the client. It connects with the first RPC.
     *
     * @return the client
     * @throws IllegalArgumentException if the target cannot be understood, or a certificate not be read
     */
    public ToolgateClient build() {
        Rpc.Settings settings = new Rpc.Settings(deadline, reconnectTimeout, silence, freshTokens);
        Bearer bearer = token == null ? null : new Bearer(token);
        return new ToolgateClient(channel(Target.parse(target)), bearer, settings, context.build(), executor);
    }

    private ManagedChannel channel(Target target) {
        ManagedChannelBuilder<?> channel = Grpc.newChannelBuilder(target.address(), credentials(target))
                .keepAliveTime(KEEPALIVE_TIME.toSeconds(), TimeUnit.SECONDS)
                .keepAliveTimeout(KEEPALIVE_TIMEOUT.toSeconds(), TimeUnit.SECONDS)
                .keepAliveWithoutCalls(true)
                .maxInboundMessageSize(maxMessageBytes)
                // This library retries by itself: it knows which requests may be repeated, and for how long.
                .disableRetry();
        if (target.isSocket() && channel instanceof NettyChannelBuilder netty) {
            // Netty warns that a Unix socket has no such option, each time that it connects; null leaves it out.
            netty.withOption(ChannelOption.SO_KEEPALIVE, null);
        }
        String authority = serverName == null ? target.authority() : serverName;
        return (authority == null ? channel : channel.overrideAuthority(authority)).build();
    }

    private ChannelCredentials credentials(Target target) {
        if (!target.encrypted()) {
            return InsecureChannelCredentials.create();
        }
        try {
            TlsChannelCredentials.Builder tls = TlsChannelCredentials.newBuilder();
            if (roots != null) {
                tls.trustManager(roots.toFile());
            }
            if (certificate != null) {
                File privateKey = (key == null ? certificate : key).toFile();
                tls.keyManager(certificate.toFile(), privateKey);
            }
            return tls.build();
        } catch (IOException unreadable) {
            throw new IllegalArgumentException("a certificate cannot be read: " + unreadable.getMessage(), unreadable);
        }
    }
}
