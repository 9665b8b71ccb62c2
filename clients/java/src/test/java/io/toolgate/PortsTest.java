package io.toolgate;

import static io.toolgate.Refusals.refused;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.toolgate.testing.TestServer;
import io.toolgate.v1.CallContext;
import io.toolgate.v1.CallStart;
import io.toolgate.v1.CallState;
import io.toolgate.v1.Event;
import io.toolgate.v1.ListeningPort;
import io.toolgate.v1.OpenPortRequest;
import io.toolgate.v1.Unattended;
import io.toolgate.v1.WatchEventsRequest;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;

/** Ports of the real service, on which a program of a command in the background listens. */
@EnabledIfEnvironmentVariable(named = "TOOLGATE_BIN", matches = ".+")
@Timeout(90)
class PortsTest {
    private static TestServer server;
    private static ToolgateClient client;
    private static String call;
    private static int port;

    @BeforeAll
    static void start() throws Exception {
        server = new TestServer(Rules.JSON);
        client = server.client();
        call = EchoProgram.begin(server, client);
        port = EchoProgram.listening(client, call).getPort();
    }

    @AfterAll
    static void stop() {
        client.cancel(call);
        client.close();
        server.close();
    }

    private static OpenPortRequest as(String agent, String session) {
        CallContext.Builder context = CallContext.newBuilder().setAgent(agent).setSessionId(session);
        return OpenPortRequest.newBuilder()
                .setCall(CallStart.newBuilder().setContext(context))
                .setCallId(call)
                .setPort(port)
                .build();
    }

    private static OpenPortRequest waiting(OpenPortRequest request) {
        OpenPortRequest.Builder waiting = request.toBuilder();
        waiting.getCallBuilder().setUnattended(Unattended.UNATTENDED_WAIT);
        return waiting.build();
    }

    @Test
    void bytesGoBothWaysAndEachSideEndsByItself() throws Exception {
        byte[] much = new byte[3_000_000];
        new Random(3).nextBytes(much);
        much[0] = 'x';
        try (OpenedPort opened = client.openPort(call, port)) {
            assertTrue(opened.httpPath().matches("/ports/[^/]+/"), opened.httpPath());
            assertEquals("port", client.get(opened.callId()).getTool());
            try (PortConnection one = opened.connect();
                    PortConnection two = opened.connect()) {
                two.output().write('t');
                try (OutputStream output = one.output()) {
                    output.write(much);
                }
                assertArrayEquals(much, one.input().readAllBytes());
                assertEquals(-1, one.input().read());
                two.output().write("wo".getBytes(StandardCharsets.UTF_8));
                two.halfClose();
                two.halfClose();
                assertThrows(ToolgateException.class, () -> two.output().write('t'));
                assertEquals("two", new String(two.input().readAllBytes(), StandardCharsets.UTF_8));
            }
        }
    }

    @Test
    void aPortThatIsClosedIsClosed() throws Exception {
        OpenedPort opened = client.openPort(call, port);
        try (PortConnection open = opened.connect()) {
            opened.close();
            refused(
                    Status.Code.FAILED_PRECONDITION,
                    "PORT_CLOSED",
                    () -> open.input().read());
            refused(Status.Code.FAILED_PRECONDITION, "PORT_CLOSED", opened::connect);
        }
        assertEquals(CallState.CALL_STATE_COMPLETED, client.get(opened.callId()).getState());
        opened.close();
    }

    @Test
    void aConnectionThatTheProgramBreaksIsLost() throws Exception {
        try (OpenedPort opened = client.openPort(call, port);
                PortConnection broken = opened.connect()) {
            broken.output().write('!');
            refused(Status.Code.ABORTED, "CONNECTION_LOST", () -> broken.input().read());
            refused(
                    Status.Code.ABORTED,
                    "CONNECTION_LOST",
                    () -> broken.output().write('x'));
        }
    }

    @Test
    void closingAConnectionEndsWhoReads() throws Exception {
        try (OpenedPort opened = client.openPort(call, port);
                PortConnection connection = opened.connect()) {
            CompletableFuture.delayedExecutor(200, TimeUnit.MILLISECONDS).execute(connection::close);
            refused(Status.Code.CANCELLED, "", () -> connection.input().read());
        }
    }

    @Test
    void aClientThatIsClosedClosesItsPorts() throws Exception {
        OpenedPort opened;
        try (ToolgateClient closing = server.client()) {
            opened = closing.openPort(call, port);
        }
        assertEquals(CallState.CALL_STATE_COMPLETED, client.get(opened.callId()).getState());
    }

    @Test
    void rulesAndPeopleDecide() throws Exception {
        refused(Status.Code.PERMISSION_DENIED, "DENIED_BY_RULE", () -> client.openPort(as("reader", "denied")));
        refused(Status.Code.PERMISSION_DENIED, "PERMISSION_NEEDED", () -> client.openPort(as("careful", "alone")));
        ApprovalOptions options =
                ApprovalOptions.named("ann").session("allowed").session("rejected");
        PromptHandler handler = prompt ->
                prompt.proto().getSessionId().equals("allowed") ? Decision.once() : Decision.reject("not that port");
        try (Approvals approvals = client.approvals(options, handler);
                OpenedPort opened = client.openPort(waiting(as("careful", "allowed")));
                PortConnection connection = opened.connect()) {
            connection.output().write('x');
            connection.halfClose();
            assertEquals('x', connection.input().read());
            refused(
                    Status.Code.PERMISSION_DENIED,
                    "REJECTED",
                    () -> client.openPort(waiting(as("careful", "rejected"))));
            assertFalse(approvals.done().isDone());
        }
    }

    @Test
    void theSameRequestOpensOnePort() throws Exception {
        OpenPortRequest once = OpenPortRequest.newBuilder()
                .setCall(CallStart.newBuilder().setCallId("port-once"))
                .setCallId(call)
                .setPort(port)
                .build();
        try (OpenedPort first = client.openPort(once);
                OpenedPort again = client.openPort(once)) {
            assertEquals("port-once", first.callId());
            assertEquals(first.httpPath(), again.httpPath());
            OpenPortRequest other = once.toBuilder().setPort(port == 1 ? 2 : 1).build();
            refused(Status.Code.ALREADY_EXISTS, "CALL_ID_TAKEN", () -> client.openPort(other));
        }
    }

    @Test
    void whatCannotBeOpenedIsRefused() {
        refused(Status.Code.INVALID_ARGUMENT, "INVALID_FIELD", () -> client.openPort(call, 0));
        refused(Status.Code.NOT_FOUND, "NOT_FOUND", () -> client.openPort("nobody", port));
        refused(Status.Code.FAILED_PRECONDITION, "NOT_LISTENING", () -> client.openPort(call, 1));
    }

    @Test
    void whatIsListenedOnIsTold() throws Exception {
        WatchEventsRequest request = WatchEventsRequest.getDefaultInstance();
        try (EventStream events = client.events(request)) {
            events.opened().get(30, TimeUnit.SECONDS);
            String other = EchoProgram.begin(server, client);
            ListeningPort told = null;
            for (Event event : events) {
                if (event.hasListeningChanged()
                        && event.getListeningChanged().getCallId().equals(other)) {
                    told = event.getListeningChanged().getPorts(0);
                    break;
                }
            }
            assertEquals(told.getPort(), client.get(other).getListening(0).getPort());
            assertEquals("127.0.0.1", told.getAddress());
            client.cancel(other);
            try (Execution ended = client.watch(other)) {
                assertInstanceOf(CallResult.Failed.class, ended.result());
            }
        }
    }
}
