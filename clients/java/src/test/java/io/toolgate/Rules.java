package io.toolgate;

/** What the service of most tests asks, allows and denies. */
final class Rules {
    static final String JSON = """
            {"permission": {
              "bash": {"*": "allow", "touch *": "ask", "* Echo.java": "ask", "rm *": "deny"},
              "edit": {"*": "ask", "notes/*": "allow", "sealed/*": "deny"},
              "read": {"*": "allow", "sealed/*": "deny", "asked/*": "ask"}},
             "agent": {
               "reader": {"permission": {"edit": "deny", "port": "deny"}},
               "careful": {"permission": {"port": "ask"}}}}
            """;

    private Rules() {}
}
