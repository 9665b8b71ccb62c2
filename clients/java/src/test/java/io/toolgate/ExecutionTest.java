package io.toolgate;

import static io.toolgate.FakeService.Act.breaking;
import static io.toolgate.FakeService.Act.ending;
import static io.toolgate.FakeService.Act.silent;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.toolgate.v1.Call;
import io.toolgate.v1.CallCompleted;
import io.toolgate.v1.CallGap;
import io.toolgate.v1.CallHeartbeat;
import io.toolgate.v1.CallListening;
import io.toolgate.v1.CallOutput;
import io.toolgate.v1.ListeningPort;
import io.toolgate.v1.OnDisconnect;
import io.toolgate.v1.Signal;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** How an execution follows its call over streams that break. */
@Timeout(30)
class ExecutionTest {
    private static final Duration LONG = Duration.ofSeconds(20);
    private static final Duration SHORT = Duration.ofSeconds(2);
    private static final ToolCall CALL =
            ToolCall.of("bash", Map.of("command", "true")).callId("c");

    private static io.toolgate.v1.CallEvent output(long sequence) {
        CallOutput output = CallOutput.newBuilder()
                .setData(ByteString.copyFromUtf8("line " + sequence))
                .build();
        return io.toolgate.v1.CallEvent.newBuilder()
                .setCallId("c")
                .setSequence(sequence)
                .setOutput(output)
                .build();
    }

    private static io.toolgate.v1.CallEvent end(long sequence) {
        return io.toolgate.v1.CallEvent.newBuilder()
                .setCallId("c")
                .setSequence(sequence)
                .setCompleted(CallCompleted.newBuilder().setOutput("whole"))
                .build();
    }

    private static io.toolgate.v1.CallEvent gap(long first, long last) {
        return io.toolgate.v1.CallEvent.newBuilder()
                .setSequence(last)
                .setGap(CallGap.newBuilder().setFirstSequence(first).setLastSequence(last))
                .build();
    }

    private static io.toolgate.v1.CallEvent heartbeat() {
        return io.toolgate.v1.CallEvent.newBuilder()
                .setHeartbeat(CallHeartbeat.getDefaultInstance())
                .build();
    }

    private static Arguments row(String what, List<String> rpcs, List<String> events, FakeService.Act... acts) {
        return Arguments.of(what, rpcs, events, acts);
    }

    static Stream<Arguments> streams() {
        List<String> whole = List.of("1", "2", "3");
        return Stream.of(
                row("one stream", List.of("execute c"), whole, ending(output(1), output(2), end(3))),
                row("heartbeats are used up", List.of("execute c"), List.of("1"), ending(heartbeat(), end(1))),
                row(
                        "a broken connection",
                        List.of("execute c", "watch c after 1", "watch c after 2"),
                        whole,
                        breaking(Status.UNAVAILABLE, output(1)),
                        breaking(Status.INTERNAL, output(2)),
                        ending(end(3))),
                row(
                        "an end without a result",
                        List.of("execute c", "watch c after 2"),
                        whole,
                        ending(output(1), output(2)),
                        ending(end(3))),
                row(
                        "a start that never arrived",
                        List.of("execute c", "watch c after 0", "execute c"),
                        whole,
                        breaking(Status.UNAVAILABLE),
                        breaking(Status.NOT_FOUND),
                        ending(output(1), output(2), end(3))),
                row(
                        "events that come again",
                        List.of("execute c", "watch c after 2"),
                        whole,
                        breaking(Status.UNAVAILABLE, output(1), output(2)),
                        ending(output(1), output(2), end(3))),
                row(
                        "a hole",
                        List.of("execute c", "watch c after 1"),
                        whole,
                        silent(output(1), end(3)),
                        ending(output(2), end(3))),
                row("a gap", List.of("execute c"), List.of("1", "2-4", "5"), ending(output(1), gap(2, 4), end(5))),
                row(
                        "a gap that overlaps",
                        List.of("execute c", "watch c after 2"),
                        List.of("1", "2", "3-4", "5"),
                        breaking(Status.UNAVAILABLE, output(1), output(2)),
                        ending(gap(1, 4), end(5))),
                row(
                        "a stream that fell silent",
                        List.of("execute c", "watch c after 1"),
                        whole,
                        silent(output(1)),
                        ending(output(2), end(3))));
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("streams")
    void deliversEachEventOnce(String what, List<String> rpcs, List<String> events, FakeService.Act[] acts)
            throws Exception {
        try (FakeService service = new FakeService(acts);
                ToolgateClient client = service.client(LONG, SHORT);
                Execution execution = client.execute(CALL)) {
            List<String> seen = new ArrayList<>();
            for (CallEvent event : execution) {
                seen.add(
                        event instanceof CallEvent.Gap gap
                                ? gap.firstSequence() + "-" + gap.lastSequence()
                                : String.valueOf(event.sequence()));
            }
            assertEquals(events, seen, what);
            assertEquals(rpcs, service.rpcs);
            assertEquals("whole", execution.result().text());
            assertFalse(service.cancelled.isDone(), "a call that has ended is not cancelled");
        }
    }

    @Test
    void portsThatAreListenedOnAreAnEvent() throws Exception {
        ListeningPort port =
                ListeningPort.newBuilder().setPort(8080).setAddress("127.0.0.1").build();
        io.toolgate.v1.CallEvent listening = io.toolgate.v1.CallEvent.newBuilder()
                .setSequence(1)
                .setListening(CallListening.newBuilder().addPorts(port))
                .build();
        try (FakeService service = new FakeService(ending(listening, end(2)));
                ToolgateClient client = service.client(LONG, LONG);
                Execution execution = client.execute(CALL)) {
            CallEvent event = execution.iterator().next();
            assertEquals(
                    List.of(port),
                    assertInstanceOf(CallEvent.Listening.class, event).ports());
        }
    }

    @Test
    void aSignalIsSentOnce() throws Exception {
        try (FakeService service = new FakeService();
                ToolgateClient client = service.client(LONG, LONG)) {
            assertThrows(ToolgateException.class, () -> client.signal("c", Signal.SIGNAL_INT));
            assertEquals(List.of("signal c"), service.rpcs);
        }
    }

    @Test
    void resultNeedsNobodyWhoIterates() throws Exception {
        try (FakeService service = new FakeService(breaking(Status.UNAVAILABLE, output(1)), ending(end(2)));
                ToolgateClient client = service.client(LONG, LONG)) {
            assertEquals("whole", client.run(CALL).orElseThrow().output());
        }
    }

    @Test
    void resultKeepsEventsForWhoIterates() throws Exception {
        try (FakeService service = new FakeService(ending(output(1), output(2), end(3)));
                ToolgateClient client = service.client(LONG, LONG);
                Execution execution = client.execute(CALL)) {
            var events = execution.iterator();
            execution.result();
            List<Long> seen = new ArrayList<>();
            events.forEachRemaining(event -> seen.add(event.sequence()));
            assertEquals(List.of(1L, 2L, 3L), seen);
        }
    }

    @Test
    void aCallThatVanishedIsNotStartedAgain() throws Exception {
        try (FakeService service =
                        new FakeService(breaking(Status.UNAVAILABLE, output(1)), breaking(Status.NOT_FOUND));
                ToolgateClient client = service.client(LONG, LONG);
                Execution execution = client.execute(CALL)) {
            ToolgateException failure = assertThrows(ToolgateException.class, execution::result);
            assertEquals(Status.Code.NOT_FOUND, failure.code());
            assertEquals(List.of("execute c", "watch c after 1"), service.rpcs);
        }
    }

    @Test
    void aRefusalIsNotRepeated() throws Exception {
        try (FakeService service = new FakeService(breaking(Status.INVALID_ARGUMENT.withDescription("no")));
                ToolgateClient client = service.client(LONG, LONG);
                Execution execution = client.watch("c")) {
            ToolgateException failure = assertThrows(ToolgateException.class, execution::result);
            assertEquals(Status.Code.INVALID_ARGUMENT, failure.code());
            assertEquals("no", failure.getMessage());
            assertEquals(1, service.rpcs.size());
        }
    }

    @Test
    void givesUpWithTheLastFailure() throws Exception {
        try (FakeService service = new FakeService(breaking(Status.UNAVAILABLE, output(1)));
                ToolgateClient client = service.client(SHORT, LONG);
                Execution execution = client.watch("c")) {
            ToolgateException failure = assertThrows(ToolgateException.class, execution::result);
            assertEquals(Status.Code.UNAVAILABLE, failure.code());
            assertTrue(service.rpcs.size() > 2, "it tried again: " + service.rpcs);
        }
    }

    @Test
    void watchingBehindTheEndGivesTheRecordedResult() throws Exception {
        try (FakeService service = new FakeService(ending());
                ToolgateClient client = service.client(LONG, LONG);
                Execution execution = client.watch("c", 7)) {
            service.record = Call.newBuilder()
                    .setCallId("c")
                    .setLastSequence(7)
                    .setCompleted(CallCompleted.newBuilder().setOutput("recorded"))
                    .build();
            assertEquals("recorded", execution.result().text());
        }
    }

    @Test
    void interruptingCancelsTheCall() throws Exception {
        try (FakeService service = new FakeService(silent(output(1)));
                ToolgateClient client = service.client(LONG, LONG)) {
            CompletableFuture<ToolgateException> thrown = new CompletableFuture<>();
            CompletableFuture<Void> began = new CompletableFuture<>();
            Thread waiting = new Thread(() -> {
                try (Execution execution = client.execute(CALL)) {
                    for (CallEvent event : execution) {
                        began.complete(null);
                    }
                } catch (ToolgateException failure) {
                    assertTrue(Thread.currentThread().isInterrupted());
                    thrown.complete(failure);
                }
            });
            waiting.start();
            began.get(10, TimeUnit.SECONDS);
            waiting.interrupt();
            assertEquals(Status.Code.CANCELLED, thrown.get(10, TimeUnit.SECONDS).code());
            assertEquals("c", service.cancelled.get(10, TimeUnit.SECONDS));
        }
    }

    @Test
    void cancellingTheFutureCancelsTheCall() throws Exception {
        try (FakeService service = new FakeService(silent(output(1)));
                ToolgateClient client = service.client(LONG, LONG)) {
            client.execute(CALL).future().cancel(true);
            assertEquals("c", service.cancelled.get(10, TimeUnit.SECONDS));
        }
    }

    @Test
    void closingCancelsOnlyWhatIsOnesOwn() throws Exception {
        ToolCall kept = CALL.onDisconnect(OnDisconnect.ON_DISCONNECT_KEEP);
        try (FakeService service = new FakeService(silent(), silent(), silent(), silent());
                ToolgateClient client = service.client(LONG, LONG)) {
            client.watch("c").close();
            client.execute(kept).close();
            Execution detached = client.execute(CALL);
            detached.detach();
            detached.close();
            assertFalse(service.cancelled.isDone());
            client.execute(CALL).close();
            assertEquals("c", service.cancelled.get(10, TimeUnit.SECONDS));
        }
    }

    @Test
    void publishesAsFastAsIsAskedFor() throws Exception {
        try (FakeService service = new FakeService(ending(output(1), output(2), end(3)));
                ToolgateClient client = service.client(LONG, LONG);
                Execution execution = client.execute(CALL)) {
            CompletableFuture<List<Long>> seen = new CompletableFuture<>();
            execution.publisher().subscribe(new OneByOne(seen));
            assertEquals(List.of(1L, 2L, 3L), seen.get(10, TimeUnit.SECONDS));
        }
    }

    private static final class OneByOne implements Flow.Subscriber<CallEvent> {
        private final CompletableFuture<List<Long>> done;
        private final List<Long> seen = new ArrayList<>();
        private Flow.Subscription subscription;

        OneByOne(CompletableFuture<List<Long>> done) {
            this.done = done;
        }

        @Override
        public void onSubscribe(Flow.Subscription given) {
            subscription = given;
            given.request(1);
        }

        @Override
        public void onNext(CallEvent event) {
            seen.add(event.sequence());
            subscription.request(1);
        }

        @Override
        public void onError(Throwable failure) {
            done.completeExceptionally(failure);
        }

        @Override
        public void onComplete() {
            done.complete(seen);
        }
    }
}
