package io.toolgate;

import io.toolgate.testing.TestServer;
import io.toolgate.v1.ListeningPort;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

/**
 * A program that a command in the background runs, and which listens on a port: it sends back what it was sent once it has read
 * the end of that, and breaks a connection that begins with {@code !}.
 */
final class EchoProgram {
    private static final String PROGRAM = """
            import java.io.ByteArrayOutputStream;
            import java.net.InetAddress;
            import java.net.ServerSocket;
            import java.net.Socket;

            public class Echo {
                public static void main(String[] args) throws Exception {
                    ServerSocket listener = new ServerSocket(0, 50, InetAddress.getByName("127.0.0.1"));
                    while (true) {
                        Socket connection = listener.accept();
                        new Thread(() -> serve(connection)).start();
                    }
                }

                private static void serve(Socket connection) {
                    try (connection) {
                        int first = connection.getInputStream().read();
                        if (first == '!') {
                            connection.setSoLinger(true, 0);
                            return;
                        }
                        ByteArrayOutputStream all = new ByteArrayOutputStream();
                        all.write(first);
                        connection.getInputStream().transferTo(all);
                        connection.getOutputStream().write(all.toByteArray());
                    } catch (Exception gone) {
                        System.out.println(gone);
                    }
                }
            }
            """;

    private EchoProgram() {}

    /** Starts it as a command that a person approves, since others may not listen, and returns its call. */
    static String begin(TestServer server, ToolgateClient client) throws IOException {
        Files.writeString(server.work().resolve("Echo.java"), PROGRAM);
        String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();
        Map<String, Object> input = Map.of(
                "command", java + " -XX:-UsePerfData Echo.java", "description", "Sends back", "background", true);
        Approvals approvals = client.approvals(prompt -> Decision.once());
        try {
            String call =
                    client.run("bash", input).orElseThrow().proto().getCommand().getBackgroundCallId();
            listening(client, call);
            return call;
        } finally {
            approvals.close();
        }
    }

    /** Waits until a program of the call listens. */
    static ListeningPort listening(ToolgateClient client, String callId) {
        try (Execution watched = client.watch(callId)) {
            for (CallEvent event : watched) {
                if (event instanceof CallEvent.Listening listening
                        && !listening.ports().isEmpty()) {
                    return listening.ports().get(0);
                }
            }
            throw new AssertionError(watched.result().text());
        }
    }
}
