package io.toolgate;

import io.toolgate.v1.CancelCallRequest;
import io.toolgate.v1.OpenPortResponse;
import io.toolgate.v1.ToolServiceGrpc;
import java.util.function.Consumer;

/**
 * A port that a program of a call listens on, opened for this client until it is closed.
 *
 * <p>It is closed, too, when the call has ended that it belongs to and what that left running, and with its session, its
 * workspace and the service.
 */
public final class OpenedPort implements AutoCloseable {
    private final Rpc rpc;
    private final OpenPortResponse proto;
    private final Consumer<OpenedPort> onEnd;

    OpenedPort(Rpc rpc, OpenPortResponse proto, Consumer<OpenedPort> onEnd) {
        this.rpc = rpc;
        this.proto = proto;
        this.onEnd = onEnd;
    }

    /**
     * Returns the call that keeps the port open.
     *
     * @return its id
     */
    public String callId() {
        return proto.getCallId();
    }

    /**
     * Returns the path under which the service hands HTTP requests to the port, WebSockets included. Whoever knows it needs
     * no other credentials.
     *
     * @return {@code /ports/SECRET/}, at the address of the service
     */
    public String httpPath() {
        return proto.getHttpPath();
    }

    /**
     * Connects to the port, as often as it is needed. A connection that is lost is not made again.
     *
     * @return the connection, which is made; close it
     * @throws ToolgateException if nobody listens at the moment ({@code NOT_LISTENING}), the port is closed ({@code
     *     PORT_CLOSED}), or too many connections are open ({@code TOO_MANY_CONNECTIONS})
     */
    public PortConnection connect() {
        return PortConnection.open(rpc, callId());
    }

    /** Closes the port and its connections. */
    @Override
    public void close() {
        CancelCallRequest request =
                CancelCallRequest.newBuilder().setCallId(callId()).build();
        try {
            rpc.call(ToolServiceGrpc.getCancelCallMethod(), request);
        } catch (ToolgateException untold) {
            Log.LOG.log(System.Logger.Level.WARNING, "the port of call {0} may still be open: {1}", callId(), untold);
        }
        onEnd.accept(this);
    }
}
