package io.toolgate.driver;

import io.toolgate.Default;
import io.toolgate.Description;
import io.toolgate.HostOptions;
import io.toolgate.HostedTool;
import io.toolgate.Invocation;
import io.toolgate.ToolOutput;
import io.toolgate.ToolgateClient;
import java.util.Map;

/** Lends one tool in the library's native way. */
final class Greeter extends Hosting {
    record Greet(
            @Description("Who is greeted.") String name,
            @Description("How often.") @Default("1") int times) {}

    Greeter(Command command, ToolgateClient client) {
        super(command, client);
    }

    @Override
    HostOptions options(Command told) {
        return HostOptions.named("greeter")
                .tools(HostedTool.of("greet", "Greets somebody.", Greet.class, Greeter::greet));
    }

    private static ToolOutput greet(Greet input, Invocation invocation) throws InterruptedException {
        StringBuilder output = new StringBuilder();
        for (int greeted = 1; greeted <= input.times(); greeted++) {
            output.append("Hello, ").append(input.name()).append("!\n");
            invocation.progress(null, Map.of("greeted", greeted));
        }
        return ToolOutput.text(output.toString()).title("Greeting " + input.name());
    }
}
