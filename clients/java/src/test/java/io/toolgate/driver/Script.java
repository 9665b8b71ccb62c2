package io.toolgate.driver;

import io.toolgate.Invocation;
import io.toolgate.ToolOutput;
import io.toolgate.v1.HostReport;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

/** A lent function that does what it is told, in that order. */
final class Script {
    private record Line(Command told, HostReport report) {}

    private final Invocation invocation;
    private final BlockingQueue<Line> lines = new LinkedBlockingQueue<>();

    Script(Invocation invocation) {
        this.invocation = invocation;
    }

    void tell(Command told, HostReport report) {
        lines.add(new Line(told, report));
    }

    ToolOutput play() throws Exception {
        while (true) {
            Line line = lines.take();
            HostReport report = line.report();
            switch (report.getReportCase()) {
                case COMPLETED -> {
                    line.told().done();
                    return new ToolOutput(report.getCompleted());
                }
                case FAILED -> {
                    line.told().done();
                    throw new IllegalStateException(report.getFailed().getError());
                }
                case PROGRESS -> {
                    invocation.progress(report.getProgress());
                    line.told().done();
                }
                case OUTPUT -> {
                    invocation.output(report.getOutput().getData());
                    line.told().done();
                }
                case ASK -> ask(line);
                case HOOK_RESULT, LEAVE, REPORT_NOT_SET ->
                    line.told()
                            .failed(new IllegalArgumentException(
                                    "a function does not report " + report.getReportCase()));
            }
        }
    }

    private void ask(Line line) throws InterruptedException {
        try {
            boolean allowed = invocation.ask(line.report().getAsk()).getAllowed();
            line.told().done(Map.of("allowed", allowed));
        } catch (InterruptedException cancelled) {
            line.told().failed(cancelled);
            throw cancelled;
        }
    }
}
