package io.toolgate;

import com.google.protobuf.ByteString;
import io.toolgate.v1.CallContext;
import io.toolgate.v1.HostAsk;
import io.toolgate.v1.HostAskResult;
import io.toolgate.v1.HostInvoke;
import io.toolgate.v1.HostOutput;
import io.toolgate.v1.HostProgress;
import io.toolgate.v1.HostReport;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import org.jspecify.annotations.Nullable;

/** One call of a lent tool or a subagent, seen from the function that does it. */
public final class Invocation {
    private final HostInvoke proto;
    private final Reports reports;
    private final Map<String, Question> questions = new ConcurrentHashMap<>();
    private HostProgress progress = HostProgress.getDefaultInstance();
    private volatile @Nullable FutureTask<Void> task;

    /** Where reports go; waits while there is no connection. */
    interface Reports {
        void send(HostReport report) throws InterruptedException;
    }

    private record Question(HostReport report, CompletableFuture<HostAskResult> answer) {}

    Invocation(HostInvoke proto, Reports reports) {
        this.proto = proto;
        this.reports = reports;
    }

    /**
     * Returns what the service asked for.
     *
     * @return the message; of a subagent's invocation with the tool {@code task} and no input
     */
    public HostInvoke proto() {
        return proto;
    }

    /**
     * Returns the invocation's id.
     *
     * @return the id, unique for the host
     */
    public String id() {
        return proto.getInvocationId();
    }

    /**
     * Returns the call.
     *
     * @return its id
     */
    public String callId() {
        return proto.getCallId();
    }

    /**
     * Returns in whose name the call is made: workspace, session, agent, model.
     *
     * @return the context
     */
    public CallContext context() {
        return proto.getContext();
    }

    /**
     * Returns whether nobody waits for the result any more.
     *
     * @return whether the call was cancelled
     */
    public boolean isCancelled() {
        return task != null && task.isCancelled();
    }

    /**
     * Changes the title and the metadata of the running call.
     *
     * @param title the new title; null if it stays
     * @param metadata a patch: absent keys stay, null clears one
     * @throws InterruptedException if the call was cancelled
     */
    public void progress(@Nullable String title, Map<String, ? extends @Nullable Object> metadata)
            throws InterruptedException {
        HostProgress.Builder changes = HostProgress.newBuilder().setMetadata(Protos.struct(metadata));
        if (title != null) {
            changes.setTitle(title);
        }
        progress(changes.build());
    }

    /**
     * Changes the title and the metadata of the running call.
     *
     * @param changes what changes
     * @throws InterruptedException if the call was cancelled
     */
    public void progress(HostProgress changes) throws InterruptedException {
        synchronized (this) {
            progress = merged(progress, changes);
        }
        reports.send(report().setProgress(changes).build());
    }

    private static HostProgress merged(HostProgress before, HostProgress changes) {
        HostProgress.Builder merged = before.toBuilder();
        if (changes.hasTitle()) {
            merged.setTitle(changes.getTitle());
        }
        // Not `mergeFrom`: a value replaces a key's whole value.
        merged.getMetadataBuilder().putAllFields(changes.getMetadata().getFieldsMap());
        return merged.build();
    }

    /**
     * Adds to the call's output. What is on its way when the connection breaks may be lost: a text that has to be whole is
     * better returned as the result.
     *
     * @param text the text
     * @throws InterruptedException if the call was cancelled
     */
    public void output(String text) throws InterruptedException {
        output(ByteString.copyFromUtf8(text));
    }

    /**
     * Adds to the call's output, as {@link #output(String)} does.
     *
     * @param data the bytes
     * @throws InterruptedException if the call was cancelled
     */
    public void output(ByteString data) throws InterruptedException {
        reports.send(report().setOutput(HostOutput.newBuilder().setData(data)).build());
    }

    /**
     * Asks for a permission in the name of the call, and waits for the answer of its rules or of a person.
     *
     * @param permission the permission; any name
     * @param patterns what the tool is about to touch; none for {@code *}
     * @return whether the tool may go on and, if not, why
     * @throws InterruptedException if the call was cancelled
     */
    public HostAskResult ask(String permission, String... patterns) throws InterruptedException {
        return ask(HostAsk.newBuilder()
                .setPermission(permission)
                .addAllPatterns(Arrays.asList(patterns))
                .build());
    }

    /**
     * Asks for a permission in the name of the call, and waits for the answer.
     *
     * @param ask what is asked; an id is made unless it has one
     * @return whether the tool may go on and, if not, why
     * @throws InterruptedException if the call was cancelled
     */
    public HostAskResult ask(HostAsk ask) throws InterruptedException {
        HostAsk named = ask.getAskId().isEmpty()
                ? ask.toBuilder().setAskId(Uuid7.next()).build()
                : ask;
        Question question = new Question(report().setAsk(named).build(), new CompletableFuture<>());
        questions.put(named.getAskId(), question);
        try {
            reports.send(question.report());
            return question.answer().get();
        } catch (ExecutionException impossible) {
            throw new IllegalStateException(impossible);
        } finally {
            questions.remove(named.getAskId());
        }
    }

    void answered(HostAskResult result) {
        Question question = questions.get(result.getAskId());
        if (question != null) {
            question.answer().complete(result);
        }
    }

    /** Returns what may have been lost with a connection and does no harm twice: progress and questions. */
    synchronized List<HostReport> unheard() {
        List<HostReport> unheard = new ArrayList<>();
        if (!progress.equals(HostProgress.getDefaultInstance())) {
            unheard.add(report().setProgress(progress).build());
        }
        questions.values().forEach(question -> unheard.add(question.report()));
        return unheard;
    }

    HostReport.Builder report() {
        return HostReport.newBuilder().setInvocationId(id());
    }

    void runs(FutureTask<Void> work) {
        task = work;
    }

    /** Interrupts the function; false if it had ended. */
    boolean cancel() {
        FutureTask<Void> work = task;
        return work != null && work.cancel(true);
    }
}
