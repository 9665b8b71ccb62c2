package io.toolgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class TargetTest {
    @ParameterizedTest
    @CsvSource({
        "unix:/run/s, unix:///run/s, false",
        "unix:///run/s, unix:///run/s, false",
        "http://127.0.0.1:1234, dns:///127.0.0.1:1234, false",
        "http://tools.example/, dns:///tools.example:80, false",
        "https://tools.example, dns:///tools.example:443, true",
        "HTTPS://tools.example:50551, dns:///tools.example:50551, true",
        "https://[::1]:1, dns:///[::1]:1, true",
        "127.0.0.1:50551, dns:///127.0.0.1:50551, false",
        "localhost:50551, dns:///localhost:50551, false",
        "[::1]:50551, dns:///[::1]:50551, false",
        "tools.example:50551, dns:///tools.example:50551, true",
    })
    void understands(String text, String address, boolean encrypted) {
        Target target = Target.parse(text);
        assertEquals(address, target.address());
        assertEquals(encrypted, target.encrypted());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "unix:", "unix:relative", "tools.example", "ftp://a:1", "http://a/path", "a b:1", ":1"})
    void refuses(String text) {
        assertThrows(IllegalArgumentException.class, () -> Target.parse(text));
    }
}
