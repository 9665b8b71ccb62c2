package io.toolgate.driver;

import io.toolgate.ClientBuilder;
import io.toolgate.ToolgateClient;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.ConcurrentHashMap;

/** The clients by their names. */
final class Clients {
    private final Map<String, ToolgateClient> clients = new ConcurrentHashMap<>();

    void connect(Command command) {
        ClientBuilder builder = ToolgateClient.builder().target(command.text("target"));
        if (command.has("token")) {
            builder.token(command.text("token"));
        }
        clients.put(command.text("client"), builder.build());
    }

    ToolgateClient of(Command command) {
        ToolgateClient client = clients.get(command.text("client"));
        if (client == null) {
            throw new NoSuchElementException("there is no client " + command.text("client"));
        }
        return client;
    }

    void close(Command command) {
        of(command).close();
        clients.remove(command.text("client"));
    }

    void closeAll() {
        clients.values().forEach(ToolgateClient::close);
    }
}
