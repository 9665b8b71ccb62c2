package io.toolgate.driver;

import com.google.protobuf.Message;
import io.grpc.CallOptions;
import io.grpc.MethodDescriptor;
import io.grpc.ServiceDescriptor;
import io.grpc.stub.ClientCalls;
import io.toolgate.CallResult;
import io.toolgate.Tool;
import io.toolgate.ToolList;
import io.toolgate.ToolgateClient;
import io.toolgate.v1.AuditServiceGrpc;
import io.toolgate.v1.Call;
import io.toolgate.v1.FileServiceGrpc;
import io.toolgate.v1.HostServiceGrpc;
import io.toolgate.v1.InfoServiceGrpc;
import io.toolgate.v1.ListToolsRequest;
import io.toolgate.v1.McpServiceGrpc;
import io.toolgate.v1.OutputServiceGrpc;
import io.toolgate.v1.PermissionServiceGrpc;
import io.toolgate.v1.PortServiceGrpc;
import io.toolgate.v1.SearchOutputRequest;
import io.toolgate.v1.SessionServiceGrpc;
import io.toolgate.v1.ToolServiceGrpc;
import io.toolgate.v1.WorkspaceServiceGrpc;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.Arrays;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** Commands that ask and are answered. */
final class Queries {
    private static final int PIECE_BYTES = 64 << 10;
    private static final List<ServiceDescriptor> SERVICES = List.of(
            AuditServiceGrpc.getServiceDescriptor(),
            FileServiceGrpc.getServiceDescriptor(),
            HostServiceGrpc.getServiceDescriptor(),
            InfoServiceGrpc.getServiceDescriptor(),
            McpServiceGrpc.getServiceDescriptor(),
            OutputServiceGrpc.getServiceDescriptor(),
            PermissionServiceGrpc.getServiceDescriptor(),
            PortServiceGrpc.getServiceDescriptor(),
            SessionServiceGrpc.getServiceDescriptor(),
            ToolServiceGrpc.getServiceDescriptor(),
            WorkspaceServiceGrpc.getServiceDescriptor());

    private Queries() {}

    static void perform(Command command, ToolgateClient client) throws IOException {
        switch (command.verb()) {
            case "tools" ->
                command.done(Map.of(
                        "tools",
                        tools(command, client).stream()
                                .map(Tool::proto)
                                .map(Command::encoded)
                                .toList()));
            case "formats" -> {
                ToolList tools = tools(command, client);
                command.done(Map.of(
                        "openai",
                        tools.openai(),
                        "openai_responses",
                        tools.openaiResponses(),
                        "anthropic",
                        tools.anthropic(),
                        "gemini",
                        tools.gemini()));
            }
            case "read" -> read(command, client);
            case "search" -> {
                SearchOutputRequest request = command.message("request", SearchOutputRequest.parser());
                command.done(Map.of(
                        "response",
                        Command.encoded(client.output(request.getOutputId()).search(request))));
            }
            case "unary" -> unary(command, client);
            default -> throw new IllegalArgumentException("unknown command " + command.verb());
        }
    }

    /** What the result of a call is for models, which needs no client. */
    static void forms(Command command) {
        CallResult result = CallResult.of(command.message("call", Call.parser()))
                .orElseThrow(() -> new IllegalArgumentException("the call has not ended"));
        String id = command.text("model_call");
        command.done(Map.of(
                "openai",
                result.openai(id),
                "openai_responses",
                result.openaiResponses(id),
                "anthropic",
                result.anthropic(id),
                "gemini",
                result.gemini(command.text("tool"), id)));
    }

    private static ToolList tools(Command command, ToolgateClient client) {
        return client.tools(command.message("request", ListToolsRequest.parser()));
    }

    private static void read(Command command, ToolgateClient client) throws IOException {
        try (InputStream bytes =
                client.output(command.text("output")).read(command.number("offset"), command.number("limit"))) {
            byte[] piece = new byte[PIECE_BYTES];
            for (int count = bytes.read(piece); count != -1; count = bytes.read(piece)) {
                command.report("data", Base64.getEncoder().encodeToString(Arrays.copyOf(piece, count)));
            }
        }
        command.done();
    }

    private static void unary(Command command, ToolgateClient client) throws IOException {
        MethodDescriptor<?, ?> method = SERVICES.stream()
                .flatMap(service -> service.getMethods().stream())
                .filter(known -> known.getFullMethodName().equals(command.text("method")))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("unknown method " + command.text("method")));
        command.done(Map.of("response", Command.encoded(call(command, client, method))));
    }

    private static <Q, R> Message call(Command command, ToolgateClient client, MethodDescriptor<Q, R> method) {
        byte[] bytes = Base64.getDecoder().decode(command.has("request") ? command.text("request") : "");
        Q request = method.parseRequest(new ByteArrayInputStream(bytes));
        return (Message) ClientCalls.blockingUnaryCall(client.channel(), method, CallOptions.DEFAULT, request);
    }
}
