package io.toolgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Server;
import io.grpc.inprocess.InProcessChannelBuilder;
import io.grpc.inprocess.InProcessServerBuilder;
import io.grpc.stub.StreamObserver;
import io.toolgate.v1.CallContext;
import io.toolgate.v1.ChannelRequest;
import io.toolgate.v1.ChannelResponse;
import io.toolgate.v1.PermissionServiceGrpc;
import io.toolgate.v1.PromptReply;
import io.toolgate.v1.PromptReplyResult;
import io.toolgate.v1.PromptState;
import io.toolgate.v1.ReplyResult;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Replies that a service does not take. */
@Timeout(60)
class ApprovalsTest {
    private static final int ENOUGH = 6;

    /** Asks about one prompt, and gives the replies these results, with the prompt if there is one. */
    private static final class Service extends PermissionServiceGrpc.PermissionServiceImplBase {
        private final BlockingQueue<String> digests = new LinkedBlockingQueue<>();
        private final Queue<ReplyResult> results;
        private final io.toolgate.v1.Prompt shown;

        Service(io.toolgate.v1.Prompt shown, List<ReplyResult> results) {
            this.shown = shown;
            this.results = new ArrayDeque<>(results);
        }

        @Override
        public StreamObserver<ChannelRequest> channel(StreamObserver<ChannelResponse> responses) {
            return new StreamObserver<>() {
                @Override
                public void onNext(ChannelRequest request) {
                    if (request.hasReply()) {
                        responses.onNext(answer(request.getReply()));
                        return;
                    }
                    ChannelResponse.Builder added = ChannelResponse.newBuilder();
                    added.getPromptAddedBuilder().setPrompt(prompt("d1"));
                    responses.onNext(added.build());
                }

                @Override
                public void onError(Throwable failure) {}

                @Override
                public void onCompleted() {}
            };
        }

        private ChannelResponse answer(PromptReply reply) {
            digests.add(reply.getInputDigest());
            PromptReplyResult.Builder result = PromptReplyResult.newBuilder()
                    .setPromptId(reply.getPromptId())
                    .setReplyId(reply.getReplyId())
                    .setResult(results.remove())
                    .setMessage("it does not fit");
            if (shown != null) {
                result.setPrompt(shown);
            }
            return ChannelResponse.newBuilder().setReplyResult(result).build();
        }
    }

    private static io.toolgate.v1.Prompt prompt(String digest) {
        return io.toolgate.v1.Prompt.newBuilder()
                .setPromptId("per_1")
                .setInputDigest(digest)
                .setState(PromptState.PROMPT_STATE_OPEN)
                .build();
    }

    /** Approves once, and notes what the handler and the listener are told. */
    private static void check(Service service, String... expected) throws Exception {
        BlockingQueue<String> told = new LinkedBlockingQueue<>();
        ApprovalListener listener = new ApprovalListener() {
            @Override
            public void replied(Prompt prompt, PromptReplyResult result) {
                told.add(result.getResult().name());
            }

            @Override
            public void failed(Prompt prompt, Exception failure) {
                told.add("failed: " + failure.getMessage());
            }
        };
        String name = InProcessServerBuilder.generateName();
        Server server =
                InProcessServerBuilder.forName(name).addService(service).build().start();
        Rpc.Settings settings =
                new Rpc.Settings(Duration.ofSeconds(10), Duration.ofSeconds(10), Duration.ofSeconds(30), false);
        try (ToolgateClient client = new ToolgateClient(
                        InProcessChannelBuilder.forName(name).build(),
                        null,
                        settings,
                        CallContext.getDefaultInstance(),
                        null);
                Approvals approvals =
                        client.approvals(ApprovalOptions.named("ann").listener(listener), prompt -> {
                            told.add(prompt.inputDigest()
                                    + prompt.problem().map(": "::concat).orElse(""));
                            return Decision.once();
                        })) {
            for (String one : expected) {
                assertEquals(one, told.poll(20, TimeUnit.SECONDS));
            }
            assertTrue(told.isEmpty(), told::toString);
            assertTrue(!approvals.done().isDone());
        } finally {
            server.shutdownNow();
        }
    }

    @Test
    void aHandlerIsAskedAgainAboutThePromptAsItStands() throws Exception {
        List<ReplyResult> results = List.of(
                ReplyResult.REPLY_RESULT_INVALID,
                ReplyResult.REPLY_RESULT_DIGEST_MISMATCH,
                ReplyResult.REPLY_RESULT_NOT_ALLOWED);
        Service service = new Service(prompt("d2"), results);
        check(
                service,
                "d1",
                "REPLY_RESULT_INVALID",
                "d2: it does not fit",
                "REPLY_RESULT_DIGEST_MISMATCH",
                "d2: it does not fit",
                "REPLY_RESULT_NOT_ALLOWED");
        assertEquals(List.of("d1", "d2", "d2"), List.copyOf(service.digests));
    }

    @Test
    void aHandlerWhoseRepliesAreNeverTakenIsNotAskedForEver() throws Exception {
        List<ReplyResult> results = Collections.nCopies(ENOUGH, ReplyResult.REPLY_RESULT_INVALID);
        Service service = new Service(null, results);
        check(
                service,
                "d1",
                "REPLY_RESULT_INVALID",
                "d1: it does not fit",
                "REPLY_RESULT_INVALID",
                "d1: it does not fit",
                "REPLY_RESULT_INVALID",
                "d1: it does not fit",
                "REPLY_RESULT_INVALID",
                "d1: it does not fit",
                "REPLY_RESULT_INVALID",
                "d1: it does not fit",
                "REPLY_RESULT_INVALID",
                "failed: 6 replies were not taken: it does not fit");
        assertEquals(ENOUGH, service.digests.size());
    }
}
