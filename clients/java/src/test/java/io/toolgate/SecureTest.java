package io.toolgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.toolgate.testing.TestServer;
import java.io.BufferedReader;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/** Tokens and certificates, shown to the real service over TLS. */
@EnabledIfEnvironmentVariable(named = "TOOLGATE_BIN", matches = ".+")
@Timeout(90)
class SecureTest {
    private static final Pattern ADDRESS = Pattern.compile("https://127\\.0\\.0\\.1:\\d+");

    @TempDir
    private static Path folder;

    private static Process process;
    private static String target;

    @BeforeAll
    static void start() throws Exception {
        certify("server", "/CN=localhost", "subjectAltName=DNS:localhost,IP:127.0.0.1");
        certify("client", "/CN=ci", "subjectAltName=DNS:ci.example");
        Path tokens = Files.writeString(
                folder.resolve("tokens"), "ann the-secret-of-ann *\neve the-secret-of-eve calls.read\n");
        Files.setPosixFilePermissions(tokens, PosixFilePermissions.fromString("rw-------"));
        Path config = Files.writeString(folder.resolve("toolgate.toml"), """
                [listen.tls]
                certificate = "%1$s/server.pem"
                key = "%1$s/server.key"
                client_ca = "%1$s/client.pem"
                client_auth = "optional"
                [auth]
                tokens_file = "%1$s/tokens"
                [[auth.certificates]]
                subject = "ci"
                name = "ci"
                scopes = ["calls.execute", "calls.read"]
                """.formatted(folder));
        target = serve(config);
    }

    @AfterAll
    static void stop() throws InterruptedException {
        process.destroy();
        if (!process.waitFor(10, TimeUnit.SECONDS)) {
            process.destroyForcibly().waitFor(10, TimeUnit.SECONDS);
        }
    }

    /** Makes a certificate that signs itself. */
    private static void certify(String name, String subject, String names) throws IOException, InterruptedException {
        List<String> kind = List.of("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes");
        ProcessBuilder openssl = new ProcessBuilder("openssl", "req");
        openssl.command().addAll(kind);
        openssl.command().addAll(List.of("-days", "2", "-subj", subject, "-addext", names));
        openssl.command().addAll(List.of("-addext", "basicConstraints=critical,CA:FALSE"));
        openssl.command().addAll(List.of("-keyout", file(name + ".key"), "-out", file(name + ".pem")));
        Path log = folder.resolve("openssl.log");
        openssl.redirectErrorStream(true).redirectOutput(log.toFile());
        assertEquals(0, openssl.start().waitFor(), () -> "openssl failed, see " + log);
    }

    private static String file(String name) {
        return folder.resolve(name).toString();
    }

    private static String serve(Path config) throws IOException {
        Path work = Files.createDirectories(folder.resolve("work"));
        ProcessBuilder builder =
                new ProcessBuilder(TestServer.program(), "--config", config.toString(), "serve", "--json");
        builder.command().addAll(List.of("--listen", "127.0.0.1:0", "--socket", file("s")));
        builder.command().addAll(List.of("--data-dir", file("data"), "--workspace", "default=" + work));
        builder.environment().put("HOME", file("home"));
        builder.environment().remove("XDG_CONFIG_HOME");
        process = builder.redirectError(folder.resolve("log").toFile()).start();
        BufferedReader output = process.inputReader();
        Matcher address = ADDRESS.matcher(String.valueOf(output.readLine()));
        assertTrue(address.find(), () -> "nothing listens, see " + folder.resolve("log"));
        return address.group();
    }

    private static ClientBuilder builder() {
        return ToolgateClient.builder()
                .target(target)
                .trustedRoots(folder.resolve("server.pem"))
                .reconnectTimeout(Duration.ofMillis(200))
                .deadline(Duration.ofSeconds(20));
    }

    private static CallResult greet(ToolgateClient client) {
        return client.run("bash", Map.of("command", "echo hello", "description", "Greets"));
    }

    private static void refused(ClientBuilder builder, Status.Code code) {
        try (ToolgateClient client = builder.build()) {
            assertEquals(
                    code,
                    assertThrows(ToolgateException.class, () -> greet(client)).code());
        }
    }

    @Test
    void aTokenIsShown() {
        try (ToolgateClient client = builder().token(() -> "the-secret-of-ann").build()) {
            assertEquals("hello\n", greet(client).text());
        }
        refused(builder().token("the-secret-of-eve"), Status.Code.PERMISSION_DENIED);
        refused(builder(), Status.Code.UNAUTHENTICATED);
    }

    @Test
    void aCertificateIsShown() {
        Path certificate = folder.resolve("client.pem");
        try (ToolgateClient client = builder()
                .clientCertificate(certificate, folder.resolve("client.key"))
                .build()) {
            assertEquals("hello\n", greet(client).text());
            assertFalse(client.tools().find("bash").isEmpty());
        }
    }

    @Test
    void aServiceThatNobodyVouchesForIsNotTrusted() {
        ClientBuilder careful =
                builder().trustedRoots(folder.resolve("client.pem")).token("the-secret-of-ann");
        refused(careful, Status.Code.UNAVAILABLE);
    }
}
