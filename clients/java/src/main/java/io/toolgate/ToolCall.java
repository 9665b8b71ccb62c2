package io.toolgate;

import io.toolgate.v1.CallContext;
import io.toolgate.v1.EvaluateCallRequest;
import io.toolgate.v1.ExecuteToolRequest;
import io.toolgate.v1.ModelRef;
import io.toolgate.v1.OnDisconnect;
import io.toolgate.v1.OutputMode;
import java.time.Duration;
import java.util.Map;
import java.util.function.Consumer;
import org.jspecify.annotations.Nullable;

/**
 * What to execute, and in whose name. Immutable: each method returns another one.
 *
 * <p>What is left out is the client's: its workspace, agent, model and session.
 */
public final class ToolCall {
    private final ExecuteToolRequest request;

    private ToolCall(ExecuteToolRequest request) {
        this.request = request;
    }

    /**
     * Calls a tool.
     *
     * @param tool the tool's name
     * @param input a map, a record or a bean; a text is taken as the JSON that a model wrote, as {@link #ofJson} does
     * @return the call
     */
    public static ToolCall of(String tool, Object input) {
        return ofJson(tool, input instanceof String json ? json : Json.text(input));
    }

    /**
     * Calls a tool as a model did.
     *
     * @param tool the tool's name as the model wrote it
     * @param inputJson the arguments exactly as the model wrote them; malformed JSON is a failed call, for the model to read
     * @return the call
     */
    public static ToolCall ofJson(String tool, String inputJson) {
        return of(ExecuteToolRequest.newBuilder()
                .setTool(tool)
                .setInputJson(inputJson)
                .build());
    }

    /**
     * Makes a call of a message of the contract.
     *
     * @param request the message
     * @return the call
     */
    public static ToolCall of(ExecuteToolRequest request) {
        return new ToolCall(request);
    }

    /**
     * Names the call. The same id with the same request attaches to the call that there is.
     *
     * @param callId 1 to 128 letters, digits and {@code -_.:}; a UUIDv7 unless given
     * @return the call
     */
    public ToolCall callId(String callId) {
        return with(request -> request.setCallId(callId));
    }

    /**
     * Bounds the time that the tool may run; waiting for people does not count.
     *
     * @param timeout at most 24 hours
     * @return the call
     */
    public ToolCall timeout(Duration timeout) {
        return with(request -> request.setTimeout(Protos.duration(timeout)));
    }

    /**
     * Says what a lost client means.
     *
     * <p>Unless this is called, the call goes on while the library re-attaches, and the library cancels it when the
     * {@link Execution} is closed or its thread interrupted. {@code ON_DISCONNECT_KEEP}: closing leaves the call running as
     * well. {@code ON_DISCONNECT_CANCEL}: the service cancels the call as soon as the connection is lost, which also holds
     * if this process is killed.
     *
     * @param onDisconnect what becomes of the call
     * @return the call
     */
    public ToolCall onDisconnect(OnDisconnect onDisconnect) {
        return with(request -> request.setOnDisconnect(onDisconnect));
    }

    /**
     * Says how much of the running output to stream.
     *
     * @param output the mode; everything unless given
     * @return the call
     */
    public ToolCall output(OutputMode output) {
        return with(request -> request.setOutput(output));
    }

    /**
     * Names the workspace.
     *
     * @param workspace its name
     * @return the call
     */
    public ToolCall workspace(String workspace) {
        return withContext(context -> context.setWorkspace(workspace));
    }

    /**
     * Names the session.
     *
     * @param session its id
     * @return the call
     */
    public ToolCall session(String session) {
        return withContext(context -> context.setSessionId(session));
    }

    /**
     * Names the message of the model that the call belongs to.
     *
     * @param message its id
     * @return the call
     */
    public ToolCall message(String message) {
        return withContext(context -> context.setMessageId(message));
    }

    /**
     * Names the agent.
     *
     * @param agent its name
     * @return the call
     */
    public ToolCall agent(String agent) {
        return withContext(context -> context.setAgent(agent));
    }

    /**
     * Names the model.
     *
     * @param provider the provider's id, for instance {@code anthropic}
     * @param model the provider's name for the model
     * @return the call
     */
    public ToolCall model(String provider, String model) {
        return withContext(context ->
                context.setModel(ModelRef.newBuilder().setProviderId(provider).setModelId(model)));
    }

    /**
     * Names the call on whose behalf this one is made.
     *
     * @param callId its id
     * @return the call
     */
    public ToolCall parent(String callId) {
        return withContext(context -> context.setParentCallId(callId));
    }

    /**
     * Adds free data that is kept in the record.
     *
     * @param extra the data
     * @return the call
     */
    public ToolCall extra(Map<String, ? extends @Nullable Object> extra) {
        return withContext(context -> context.setExtra(Protos.struct(extra)));
    }

    private ToolCall with(Consumer<ExecuteToolRequest.Builder> change) {
        ExecuteToolRequest.Builder changed = request.toBuilder();
        change.accept(changed);
        return new ToolCall(changed.build());
    }

    private ToolCall withContext(Consumer<CallContext.Builder> change) {
        return with(request -> change.accept(request.getContextBuilder()));
    }

    /** What happens to the call when the execution is closed. */
    boolean cancelledOnClose() {
        return request.getOnDisconnect() != OnDisconnect.ON_DISCONNECT_KEEP;
    }

    /** Makes the request that is sent, however often it must be. */
    ExecuteToolRequest request(CallContext defaults) {
        ExecuteToolRequest.Builder sent = request.toBuilder().setContext(filled(request.getContext(), defaults));
        if (sent.getCallId().isEmpty()) {
            sent.setCallId(Uuid7.next());
        }
        sent.setOnDisconnect(sent(request.getOnDisconnect()));
        return sent.build();
    }

    /** Makes the request that asks what the call would ask. */
    EvaluateCallRequest evaluation(CallContext defaults) {
        EvaluateCallRequest.Builder evaluated = EvaluateCallRequest.newBuilder()
                .setContext(filled(request.getContext(), defaults))
                .setTool(request.getTool());
        switch (request.getArgumentsCase()) {
            case INPUT_JSON -> evaluated.setInputJson(request.getInputJson());
            case INPUT -> evaluated.setInput(request.getInput());
            case ARGUMENTS_NOT_SET -> {}
        }
        return evaluated.build();
    }

    /** A lost stream is taken up again, so it must not end the call; this library cancels by itself. */
    static OnDisconnect sent(OnDisconnect asked) {
        return asked == OnDisconnect.ON_DISCONNECT_CANCEL ? asked : OnDisconnect.ON_DISCONNECT_KEEP;
    }

    static CallContext filled(CallContext context, CallContext defaults) {
        // Of two messages merged, the later one's fields win where it has them.
        return defaults.toBuilder().mergeFrom(context).build();
    }
}
