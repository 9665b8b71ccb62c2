package io.toolgate.driver;

import com.google.protobuf.Message;
import io.toolgate.HostListener;
import io.toolgate.HostOptions;
import io.toolgate.HostedTool;
import io.toolgate.Invocation;
import io.toolgate.ToolHost;
import io.toolgate.ToolOutput;
import io.toolgate.ToolgateClient;
import io.toolgate.v1.HostHello;
import io.toolgate.v1.HostReport;
import io.toolgate.v1.HostWelcome;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.concurrent.ConcurrentHashMap;

/** Lends tools whose functions do what they are told. */
class Hosting implements Driver.Running, HostListener {
    private final Command command;
    private final Map<String, Script> scripts = new ConcurrentHashMap<>();
    private final ToolHost host;

    Hosting(Command command, ToolgateClient client) {
        this.command = command;
        this.host = client.host(options(command).listener(this));
    }

    /** What is lent. */
    HostOptions options(Command told) {
        HostHello hello = told.message("hello", HostHello.parser());
        HostOptions options = HostOptions.named(hello.getName()).workspace(hello.getWorkspace());
        hello.getToolsList()
                .forEach(tool -> options.tools(
                        HostedTool.json(tool, (input, invocation) -> play("invoke", invocation.proto(), invocation))));
        if (hello.getRunsSubagents()) {
            options.subagents(
                    (task, invocation) -> play("subagent", task, invocation),
                    hello.getSubagentsList().toArray(String[]::new));
        }
        return options;
    }

    private ToolOutput play(String kind, Message request, Invocation invocation) throws Exception {
        Script script = new Script(invocation);
        scripts.put(invocation.id(), script);
        command.report(kind, Command.encoded(request));
        try {
            return script.play();
        } finally {
            scripts.remove(invocation.id());
        }
    }

    void report(Command told) {
        HostReport report = told.message("report", HostReport.parser());
        Script script = scripts.get(report.getInvocationId());
        if (script == null) {
            throw new NoSuchElementException("no function runs for " + report.getInvocationId());
        }
        script.tell(told, report);
    }

    @Override
    public void perform() throws Exception {
        host.done().get();
        command.done();
    }

    @Override
    public void stop() {
        host.close();
    }

    @Override
    public void ready(HostWelcome welcome) {
        Map<String, Object> ready = new LinkedHashMap<>();
        ready.put(
                "refused",
                welcome.getRefusedList().stream().map(Command::encoded).toList());
        command.report("ready", ready);
    }

    @Override
    public void cancelled(Invocation invocation) {
        command.report("cancelled", invocation.id());
    }
}
