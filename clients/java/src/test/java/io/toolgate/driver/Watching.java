package io.toolgate.driver;

import io.toolgate.EventStream;
import io.toolgate.ToolgateClient;
import io.toolgate.v1.Event;
import io.toolgate.v1.WatchEventsRequest;
import io.toolgate.v1.WatchEventsResponse;

/** Watches events. */
final class Watching implements Driver.Running {
    private final Command command;
    private final EventStream events;

    Watching(Command command, ToolgateClient client) {
        this.command = command;
        this.events = client.events(command.message("request", WatchEventsRequest.parser()));
    }

    @Override
    public void perform() throws Exception {
        events.opened().get();
        command.report("ready", true);
        for (Event event : events) {
            WatchEventsResponse response =
                    WatchEventsResponse.newBuilder().setEvent(event).build();
            command.report("event", Command.encoded(response));
        }
        command.done();
    }

    @Override
    public void stop() {
        events.close();
    }
}
