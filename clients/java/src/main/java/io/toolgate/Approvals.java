package io.toolgate;

import io.grpc.Status;
import io.toolgate.v1.ChannelOpen;
import io.toolgate.v1.ChannelRequest;
import io.toolgate.v1.ChannelResponse;
import io.toolgate.v1.PermissionServiceGrpc;
import io.toolgate.v1.PromptFilter;
import io.toolgate.v1.PromptReply;
import io.toolgate.v1.PromptReplyResult;
import io.toolgate.v1.PromptState;
import io.toolgate.v1.ReplyResult;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.FutureTask;
import org.jspecify.annotations.Nullable;

/**
 * Answers prompts with a handler until it is closed, over as many connections as it takes.
 *
 * <p>Each prompt is handled once, and again if its reply was not taken because of itself. A reply whose connection broke is sent again, and counts once.
 */
public final class Approvals implements AutoCloseable {
    /** How often a handler is asked again about a prompt. */
    private static final int MAX_AGAIN = 5;

    private final ApprovalOptions options;
    private final PromptFilter filter;
    private final PromptHandler handler;
    private final Executor executor;
    private final StreamLoop<ChannelRequest, ChannelResponse> loop;
    /** The prompts that are open as far as is known, and those whose reply has not been heard. */
    private final Map<String, Handling> handlings = new LinkedHashMap<>();
    /** Those that the service has named since the stream was opened; null once it has named all. */
    private @Nullable Set<String> snapshot;

    private @Nullable RpcStream<ChannelRequest, ChannelResponse> stream;

    /** One prompt; guarded by the approvals. */
    private static final class Handling {
        /** As the handler was given it last. */
        private Prompt prompt;

        private @Nullable FutureTask<Void> task;
        private @Nullable PromptReply unheard;
        /** How many replies were not taken. */
        private int refused;
        /** It ended while its reply was under way. */
        private boolean ended;

        Handling(Prompt prompt) {
            this.prompt = prompt;
        }

        /** Interrupts the handler; false if it had ended. */
        boolean cancel() {
            return task != null && task.cancel(true);
        }

        boolean isCancelled() {
            return task != null && task.isCancelled();
        }
    }

    Approvals(Rpc rpc, Executor executor, ApprovalOptions options, PromptFilter filter, PromptHandler handler) {
        this.options = options;
        this.filter = filter;
        this.handler = handler;
        this.executor = executor;
        this.loop = new StreamLoop<>(rpc, PermissionServiceGrpc.getChannelMethod(), new ChannelSession());
        loop.start(executor);
    }

    /**
     * Tells when the approvals are over: after {@link #close()}, or with a {@link ToolgateException} if the service refuses
     * them, for want of a right for instance.
     *
     * @return completes at the end
     */
    public CompletableFuture<Void> done() {
        return loop.done();
    }

    /** Interrupts the handlers and leaves the prompts that are open to others. */
    @Override
    public void close() {
        loop.close();
        List<Handling> left;
        synchronized (this) {
            left = List.copyOf(handlings.values());
            handlings.clear();
        }
        left.forEach(Handling::cancel);
    }

    private final class ChannelSession implements StreamLoop.Session<ChannelRequest, ChannelResponse> {
        @Override
        public void begin(RpcStream<ChannelRequest, ChannelResponse> opened) throws InterruptedException {
            ChannelOpen.Builder open =
                    ChannelOpen.newBuilder().setName(options.name()).setFilter(filter);
            synchronized (Approvals.this) {
                snapshot = new HashSet<>();
            }
            opened.send(ChannelRequest.newBuilder().setOpen(open).build());
            synchronized (Approvals.this) {
                stream = opened;
            }
        }

        @Override
        public void received(ChannelResponse message) {
            switch (message.getMessageCase()) {
                case PROMPT_ADDED -> added(message.getPromptAdded().getPrompt());
                case SNAPSHOT_END -> snapshotEnded();
                case PROMPT_RESOLVED ->
                    resolved(message.getPromptResolved().getPrompt().getPromptId());
                case REPLY_RESULT -> heard(message.getReplyResult());
                case OPENED, HEARTBEAT, PROMPT_UPDATED, MESSAGE_NOT_SET -> {}
            }
        }

        @Override
        public void lost(ToolgateException failure) {
            synchronized (Approvals.this) {
                stream = null;
            }
            options.listener().lost(failure);
        }
    }

    private void added(io.toolgate.v1.Prompt proto) {
        Handling handling = new Handling(Prompt.of(proto));
        FutureTask<Void> task = task(handling);
        synchronized (this) {
            if (snapshot != null) {
                snapshot.add(proto.getPromptId());
            }
            if (handlings.putIfAbsent(proto.getPromptId(), handling) != null) {
                return;
            }
            handling.task = task;
        }
        executor.execute(task);
    }

    private FutureTask<Void> task(Handling handling) {
        Prompt prompt = handling.prompt;
        return new FutureTask<>(() -> handle(handling, prompt), null);
    }

    private void handle(Handling handling, Prompt prompt) {
        try {
            Decision decision = handler.decide(prompt);
            if (decision != null && !(decision instanceof Decision.Leave)) {
                reply(handling, Replies.reply(prompt, decision));
            }
        } catch (InterruptedException ended) {
            // Nobody waits for the decision any more.
            Thread.currentThread().interrupt();
        } catch (Exception failure) {
            if (!handling.isCancelled()) {
                options.listener().failed(prompt, failure);
            }
        }
    }

    private void reply(Handling handling, PromptReply reply) throws InterruptedException {
        RpcStream<ChannelRequest, ChannelResponse> current;
        synchronized (this) {
            handling.unheard = reply;
            current = stream;
        }
        send(current, reply);
    }

    /** What does not get through here is sent again when the next stream has told its snapshot. */
    private static void send(@Nullable RpcStream<ChannelRequest, ChannelResponse> stream, PromptReply reply)
            throws InterruptedException {
        if (stream != null) {
            stream.send(ChannelRequest.newBuilder().setReply(reply).build());
        }
    }

    private void snapshotEnded() {
        List<Handling> gone = new ArrayList<>();
        List<PromptReply> unheard = new ArrayList<>();
        RpcStream<ChannelRequest, ChannelResponse> current;
        synchronized (this) {
            Set<String> open = snapshot == null ? Set.of() : snapshot;
            for (Handling handling : List.copyOf(handlings.values())) {
                if (handling.unheard != null) {
                    handling.ended = !open.contains(handling.prompt.id());
                    unheard.add(handling.unheard);
                } else if (!open.contains(handling.prompt.id())) {
                    handlings.remove(handling.prompt.id());
                    gone.add(handling);
                }
            }
            snapshot = null;
            current = stream;
        }
        gone.forEach(this::end);
        try {
            for (PromptReply reply : unheard) {
                send(current, reply);
            }
        } catch (InterruptedException closed) {
            Thread.currentThread().interrupt();
        }
        options.listener().ready();
    }

    private void resolved(String promptId) {
        Handling handling;
        synchronized (this) {
            handling = handlings.get(promptId);
            if (handling == null) {
                return;
            }
            if (handling.unheard != null) {
                // It is known until the service has said what became of the reply.
                handling.ended = true;
                return;
            }
            handlings.remove(promptId);
        }
        end(handling);
    }

    private void end(Handling handling) {
        if (handling.cancel()) {
            options.listener().gone(handling.prompt);
        }
    }

    private void heard(PromptReplyResult result) {
        Handling handling;
        Prompt answered;
        boolean again;
        synchronized (this) {
            handling = handlings.get(result.getPromptId());
            if (handling == null
                    || handling.unheard == null
                    || !handling.unheard.getReplyId().equals(result.getReplyId())) {
                return;
            }
            handling.unheard = null;
            answered = handling.prompt;
            boolean wrong = wrong(result.getResult());
            // A reply that cannot be read at all is answered without the prompt, which is as it was then.
            boolean open = result.hasPrompt() ? result.getPrompt().getState() == PromptState.PROMPT_STATE_OPEN : wrong;
            if (!open || handling.ended) {
                handlings.remove(result.getPromptId());
            }
            again = wrong && open && !handling.ended;
        }
        options.listener().replied(answered, result);
        if (again) {
            askAgain(handling, result);
        }
    }

    private static boolean wrong(ReplyResult result) {
        return result == ReplyResult.REPLY_RESULT_INVALID || result == ReplyResult.REPLY_RESULT_DIGEST_MISMATCH;
    }

    private void askAgain(Handling handling, PromptReplyResult result) {
        String problem = result.getMessage().isEmpty() ? "the reply was not taken" : result.getMessage();
        FutureTask<Void> again = null;
        synchronized (this) {
            if (handlings.get(result.getPromptId()) != handling) {
                return;
            }
            handling.prompt =
                    Prompt.of(result.hasPrompt() ? result.getPrompt() : handling.prompt.proto(), Optional.of(problem));
            handling.refused++;
            if (handling.refused <= MAX_AGAIN) {
                again = task(handling);
                handling.task = again;
            }
        }
        if (again == null) {
            String text = handling.refused + " replies were not taken: " + problem;
            options.listener().failed(handling.prompt, ToolgateException.of(Status.Code.INVALID_ARGUMENT, text));
            return;
        }
        executor.execute(again);
    }
}
