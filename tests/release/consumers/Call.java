import io.toolgate.ToolgateClient;
import io.toolgate.langchain4j.ToolgateTools;
import java.util.Map;

/** Makes a call by the artifacts as they are deployed. */
public class Call {
    public static void main(String[] arguments) {
        try (ToolgateClient client = ToolgateClient.connect();
                ToolgateTools langchain4j = ToolgateTools.builder(client).build();
                var spring = io.toolgate.springai.ToolgateTools.builder(client).build()) {
            if (langchain4j.provideTools(null).tools().size() != spring.getToolCallbacks().length) {
                throw new IllegalStateException("the adapters list different tools");
            }
            System.out.println(client.run("bash", Map.of("command", "echo hello from a call", "description", "Greets")).text());
        }
    }
}
