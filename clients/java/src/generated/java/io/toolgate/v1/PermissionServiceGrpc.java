package io.toolgate.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Shows prompts to approvers and takes their replies.
 * Whoever made a call, or one of the calls above it, does not answer its prompts, unless the service lets them
 * (`permission.self_approval`; the default without authentication and for the owner on the Unix socket). Some permissions
 * may need the approvals of two principals (`permission.second_approver`).
 * A prompt is stored before anybody sees it. The first valid reply wins; everybody who watches is told. Nothing lives in a
 * connection: to reconnect, open again. Channel does everything in one stream; the other RPCs do the same for clients
 * without client streaming.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class PermissionServiceGrpc {

  private PermissionServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "toolgate.v1.PermissionService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.ChannelRequest,
      io.toolgate.v1.ChannelResponse> getChannelMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Channel",
      requestType = io.toolgate.v1.ChannelRequest.class,
      responseType = io.toolgate.v1.ChannelResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.ChannelRequest,
      io.toolgate.v1.ChannelResponse> getChannelMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.ChannelRequest, io.toolgate.v1.ChannelResponse> getChannelMethod;
    if ((getChannelMethod = PermissionServiceGrpc.getChannelMethod) == null) {
      synchronized (PermissionServiceGrpc.class) {
        if ((getChannelMethod = PermissionServiceGrpc.getChannelMethod) == null) {
          PermissionServiceGrpc.getChannelMethod = getChannelMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.ChannelRequest, io.toolgate.v1.ChannelResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Channel"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ChannelRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ChannelResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PermissionServiceMethodDescriptorSupplier("Channel"))
              .build();
        }
      }
    }
    return getChannelMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.WatchPromptsRequest,
      io.toolgate.v1.WatchPromptsResponse> getWatchPromptsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchPrompts",
      requestType = io.toolgate.v1.WatchPromptsRequest.class,
      responseType = io.toolgate.v1.WatchPromptsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.WatchPromptsRequest,
      io.toolgate.v1.WatchPromptsResponse> getWatchPromptsMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.WatchPromptsRequest, io.toolgate.v1.WatchPromptsResponse> getWatchPromptsMethod;
    if ((getWatchPromptsMethod = PermissionServiceGrpc.getWatchPromptsMethod) == null) {
      synchronized (PermissionServiceGrpc.class) {
        if ((getWatchPromptsMethod = PermissionServiceGrpc.getWatchPromptsMethod) == null) {
          PermissionServiceGrpc.getWatchPromptsMethod = getWatchPromptsMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.WatchPromptsRequest, io.toolgate.v1.WatchPromptsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchPrompts"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.WatchPromptsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.WatchPromptsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PermissionServiceMethodDescriptorSupplier("WatchPrompts"))
              .build();
        }
      }
    }
    return getWatchPromptsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.ListPromptsRequest,
      io.toolgate.v1.ListPromptsResponse> getListPromptsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListPrompts",
      requestType = io.toolgate.v1.ListPromptsRequest.class,
      responseType = io.toolgate.v1.ListPromptsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.ListPromptsRequest,
      io.toolgate.v1.ListPromptsResponse> getListPromptsMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.ListPromptsRequest, io.toolgate.v1.ListPromptsResponse> getListPromptsMethod;
    if ((getListPromptsMethod = PermissionServiceGrpc.getListPromptsMethod) == null) {
      synchronized (PermissionServiceGrpc.class) {
        if ((getListPromptsMethod = PermissionServiceGrpc.getListPromptsMethod) == null) {
          PermissionServiceGrpc.getListPromptsMethod = getListPromptsMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.ListPromptsRequest, io.toolgate.v1.ListPromptsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListPrompts"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ListPromptsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ListPromptsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PermissionServiceMethodDescriptorSupplier("ListPrompts"))
              .build();
        }
      }
    }
    return getListPromptsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.GetPromptRequest,
      io.toolgate.v1.GetPromptResponse> getGetPromptMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetPrompt",
      requestType = io.toolgate.v1.GetPromptRequest.class,
      responseType = io.toolgate.v1.GetPromptResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.GetPromptRequest,
      io.toolgate.v1.GetPromptResponse> getGetPromptMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.GetPromptRequest, io.toolgate.v1.GetPromptResponse> getGetPromptMethod;
    if ((getGetPromptMethod = PermissionServiceGrpc.getGetPromptMethod) == null) {
      synchronized (PermissionServiceGrpc.class) {
        if ((getGetPromptMethod = PermissionServiceGrpc.getGetPromptMethod) == null) {
          PermissionServiceGrpc.getGetPromptMethod = getGetPromptMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.GetPromptRequest, io.toolgate.v1.GetPromptResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetPrompt"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.GetPromptRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.GetPromptResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PermissionServiceMethodDescriptorSupplier("GetPrompt"))
              .build();
        }
      }
    }
    return getGetPromptMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.ReplyPromptRequest,
      io.toolgate.v1.ReplyPromptResponse> getReplyPromptMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReplyPrompt",
      requestType = io.toolgate.v1.ReplyPromptRequest.class,
      responseType = io.toolgate.v1.ReplyPromptResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.ReplyPromptRequest,
      io.toolgate.v1.ReplyPromptResponse> getReplyPromptMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.ReplyPromptRequest, io.toolgate.v1.ReplyPromptResponse> getReplyPromptMethod;
    if ((getReplyPromptMethod = PermissionServiceGrpc.getReplyPromptMethod) == null) {
      synchronized (PermissionServiceGrpc.class) {
        if ((getReplyPromptMethod = PermissionServiceGrpc.getReplyPromptMethod) == null) {
          PermissionServiceGrpc.getReplyPromptMethod = getReplyPromptMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.ReplyPromptRequest, io.toolgate.v1.ReplyPromptResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReplyPrompt"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ReplyPromptRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ReplyPromptResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PermissionServiceMethodDescriptorSupplier("ReplyPrompt"))
              .build();
        }
      }
    }
    return getReplyPromptMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.ListGrantsRequest,
      io.toolgate.v1.ListGrantsResponse> getListGrantsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListGrants",
      requestType = io.toolgate.v1.ListGrantsRequest.class,
      responseType = io.toolgate.v1.ListGrantsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.ListGrantsRequest,
      io.toolgate.v1.ListGrantsResponse> getListGrantsMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.ListGrantsRequest, io.toolgate.v1.ListGrantsResponse> getListGrantsMethod;
    if ((getListGrantsMethod = PermissionServiceGrpc.getListGrantsMethod) == null) {
      synchronized (PermissionServiceGrpc.class) {
        if ((getListGrantsMethod = PermissionServiceGrpc.getListGrantsMethod) == null) {
          PermissionServiceGrpc.getListGrantsMethod = getListGrantsMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.ListGrantsRequest, io.toolgate.v1.ListGrantsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListGrants"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ListGrantsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ListGrantsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PermissionServiceMethodDescriptorSupplier("ListGrants"))
              .build();
        }
      }
    }
    return getListGrantsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.RevokeGrantRequest,
      io.toolgate.v1.RevokeGrantResponse> getRevokeGrantMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RevokeGrant",
      requestType = io.toolgate.v1.RevokeGrantRequest.class,
      responseType = io.toolgate.v1.RevokeGrantResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.RevokeGrantRequest,
      io.toolgate.v1.RevokeGrantResponse> getRevokeGrantMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.RevokeGrantRequest, io.toolgate.v1.RevokeGrantResponse> getRevokeGrantMethod;
    if ((getRevokeGrantMethod = PermissionServiceGrpc.getRevokeGrantMethod) == null) {
      synchronized (PermissionServiceGrpc.class) {
        if ((getRevokeGrantMethod = PermissionServiceGrpc.getRevokeGrantMethod) == null) {
          PermissionServiceGrpc.getRevokeGrantMethod = getRevokeGrantMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.RevokeGrantRequest, io.toolgate.v1.RevokeGrantResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RevokeGrant"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.RevokeGrantRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.RevokeGrantResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PermissionServiceMethodDescriptorSupplier("RevokeGrant"))
              .build();
        }
      }
    }
    return getRevokeGrantMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.EvaluatePermissionRequest,
      io.toolgate.v1.EvaluatePermissionResponse> getEvaluatePermissionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "EvaluatePermission",
      requestType = io.toolgate.v1.EvaluatePermissionRequest.class,
      responseType = io.toolgate.v1.EvaluatePermissionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.EvaluatePermissionRequest,
      io.toolgate.v1.EvaluatePermissionResponse> getEvaluatePermissionMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.EvaluatePermissionRequest, io.toolgate.v1.EvaluatePermissionResponse> getEvaluatePermissionMethod;
    if ((getEvaluatePermissionMethod = PermissionServiceGrpc.getEvaluatePermissionMethod) == null) {
      synchronized (PermissionServiceGrpc.class) {
        if ((getEvaluatePermissionMethod = PermissionServiceGrpc.getEvaluatePermissionMethod) == null) {
          PermissionServiceGrpc.getEvaluatePermissionMethod = getEvaluatePermissionMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.EvaluatePermissionRequest, io.toolgate.v1.EvaluatePermissionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "EvaluatePermission"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.EvaluatePermissionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.EvaluatePermissionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new PermissionServiceMethodDescriptorSupplier("EvaluatePermission"))
              .build();
        }
      }
    }
    return getEvaluatePermissionMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static PermissionServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<PermissionServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<PermissionServiceStub>() {
        @java.lang.Override
        public PermissionServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new PermissionServiceStub(channel, callOptions);
        }
      };
    return PermissionServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static PermissionServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<PermissionServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<PermissionServiceBlockingV2Stub>() {
        @java.lang.Override
        public PermissionServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new PermissionServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return PermissionServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static PermissionServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<PermissionServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<PermissionServiceBlockingStub>() {
        @java.lang.Override
        public PermissionServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new PermissionServiceBlockingStub(channel, callOptions);
        }
      };
    return PermissionServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static PermissionServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<PermissionServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<PermissionServiceFutureStub>() {
        @java.lang.Override
        public PermissionServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new PermissionServiceFutureStub(channel, callOptions);
        }
      };
    return PermissionServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Shows prompts to approvers and takes their replies.
   * Whoever made a call, or one of the calls above it, does not answer its prompts, unless the service lets them
   * (`permission.self_approval`; the default without authentication and for the owner on the Unix socket). Some permissions
   * may need the approvals of two principals (`permission.second_approver`).
   * A prompt is stored before anybody sees it. The first valid reply wins; everybody who watches is told. Nothing lives in a
   * connection: to reconnect, open again. Channel does everything in one stream; the other RPCs do the same for clients
   * without client streaming.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Sees prompts and answers them in one stream. The client's first message is `open`; the server then sends
     * `opened`, every open prompt that matches, `snapshot_end`, and from then on what changes. Each `reply` gets a
     * `reply_result`.
     * INVALID_ARGUMENT: the first message is not `open`, or a second `open` came. ABORTED: this client read too slowly
     * and missed changes; open again. INTERNAL, RESOURCE_EXHAUSTED: a reply could not be stored and decides nothing; open
     * again. UNAVAILABLE: the service is stopping; open again. A prompt that is not told of as resolved is open still.
     * </pre>
     */
    default io.grpc.stub.StreamObserver<io.toolgate.v1.ChannelRequest> channel(
        io.grpc.stub.StreamObserver<io.toolgate.v1.ChannelResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getChannelMethod(), responseObserver);
    }

    /**
     * <pre>
     * The server's half of Channel.
     * ABORTED and UNAVAILABLE as Channel.
     * </pre>
     */
    default void watchPrompts(io.toolgate.v1.WatchPromptsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.WatchPromptsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchPromptsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists prompts in the order of their arrival; the open ones unless states are named.
     * INVALID_ARGUMENT: bad page size. May be retried.
     * </pre>
     */
    default void listPrompts(io.toolgate.v1.ListPromptsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ListPromptsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListPromptsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns a prompt.
     * NOT_FOUND: unknown prompt. May be retried.
     * </pre>
     */
    default void getPrompt(io.toolgate.v1.GetPromptRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.GetPromptResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetPromptMethod(), responseObserver);
    }

    /**
     * <pre>
     * Replies to a prompt. May be retried: the answer names the decision that stands.
     * INVALID_ARGUMENT: no decision, or one that does not fit the prompt. NOT_FOUND: unknown prompt. PERMISSION_DENIED with
     * the reason SELF_APPROVAL: the call is made in the caller's own name, and the workspace does not let callers answer
     * themselves. FAILED_PRECONDITION: the cited digest is not the
     * prompt's, or another instance of the service waits for the prompt. A reply that came too late is an OK status whose `result` says so.
     * </pre>
     */
    default void replyPrompt(io.toolgate.v1.ReplyPromptRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ReplyPromptResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReplyPromptMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists standing approvals, oldest first.
     * May be retried.
     * </pre>
     */
    default void listGrants(io.toolgate.v1.ListGrantsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ListGrantsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListGrantsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Takes a standing approval back: what it covered is asked again.
     * NOT_FOUND: unknown grant, or already revoked.
     * </pre>
     */
    default void revokeGrant(io.toolgate.v1.RevokeGrantRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.RevokeGrantResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRevokeGrantMethod(), responseObserver);
    }

    /**
     * <pre>
     * Says what the rules would decide. Asks nobody, changes nothing.
     * INVALID_ARGUMENT: unknown agent, no permission. NOT_FOUND: unknown workspace. May be retried.
     * </pre>
     */
    default void evaluatePermission(io.toolgate.v1.EvaluatePermissionRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.EvaluatePermissionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getEvaluatePermissionMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service PermissionService.
   * <pre>
   * Shows prompts to approvers and takes their replies.
   * Whoever made a call, or one of the calls above it, does not answer its prompts, unless the service lets them
   * (`permission.self_approval`; the default without authentication and for the owner on the Unix socket). Some permissions
   * may need the approvals of two principals (`permission.second_approver`).
   * A prompt is stored before anybody sees it. The first valid reply wins; everybody who watches is told. Nothing lives in a
   * connection: to reconnect, open again. Channel does everything in one stream; the other RPCs do the same for clients
   * without client streaming.
   * </pre>
   */
  public static abstract class PermissionServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return PermissionServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service PermissionService.
   * <pre>
   * Shows prompts to approvers and takes their replies.
   * Whoever made a call, or one of the calls above it, does not answer its prompts, unless the service lets them
   * (`permission.self_approval`; the default without authentication and for the owner on the Unix socket). Some permissions
   * may need the approvals of two principals (`permission.second_approver`).
   * A prompt is stored before anybody sees it. The first valid reply wins; everybody who watches is told. Nothing lives in a
   * connection: to reconnect, open again. Channel does everything in one stream; the other RPCs do the same for clients
   * without client streaming.
   * </pre>
   */
  public static final class PermissionServiceStub
      extends io.grpc.stub.AbstractAsyncStub<PermissionServiceStub> {
    private PermissionServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected PermissionServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new PermissionServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Sees prompts and answers them in one stream. The client's first message is `open`; the server then sends
     * `opened`, every open prompt that matches, `snapshot_end`, and from then on what changes. Each `reply` gets a
     * `reply_result`.
     * INVALID_ARGUMENT: the first message is not `open`, or a second `open` came. ABORTED: this client read too slowly
     * and missed changes; open again. INTERNAL, RESOURCE_EXHAUSTED: a reply could not be stored and decides nothing; open
     * again. UNAVAILABLE: the service is stopping; open again. A prompt that is not told of as resolved is open still.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.toolgate.v1.ChannelRequest> channel(
        io.grpc.stub.StreamObserver<io.toolgate.v1.ChannelResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getChannelMethod(), getCallOptions()), responseObserver);
    }

    /**
     * <pre>
     * The server's half of Channel.
     * ABORTED and UNAVAILABLE as Channel.
     * </pre>
     */
    public void watchPrompts(io.toolgate.v1.WatchPromptsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.WatchPromptsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchPromptsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists prompts in the order of their arrival; the open ones unless states are named.
     * INVALID_ARGUMENT: bad page size. May be retried.
     * </pre>
     */
    public void listPrompts(io.toolgate.v1.ListPromptsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ListPromptsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListPromptsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns a prompt.
     * NOT_FOUND: unknown prompt. May be retried.
     * </pre>
     */
    public void getPrompt(io.toolgate.v1.GetPromptRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.GetPromptResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetPromptMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Replies to a prompt. May be retried: the answer names the decision that stands.
     * INVALID_ARGUMENT: no decision, or one that does not fit the prompt. NOT_FOUND: unknown prompt. PERMISSION_DENIED with
     * the reason SELF_APPROVAL: the call is made in the caller's own name, and the workspace does not let callers answer
     * themselves. FAILED_PRECONDITION: the cited digest is not the
     * prompt's, or another instance of the service waits for the prompt. A reply that came too late is an OK status whose `result` says so.
     * </pre>
     */
    public void replyPrompt(io.toolgate.v1.ReplyPromptRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ReplyPromptResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReplyPromptMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists standing approvals, oldest first.
     * May be retried.
     * </pre>
     */
    public void listGrants(io.toolgate.v1.ListGrantsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ListGrantsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListGrantsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Takes a standing approval back: what it covered is asked again.
     * NOT_FOUND: unknown grant, or already revoked.
     * </pre>
     */
    public void revokeGrant(io.toolgate.v1.RevokeGrantRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.RevokeGrantResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRevokeGrantMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Says what the rules would decide. Asks nobody, changes nothing.
     * INVALID_ARGUMENT: unknown agent, no permission. NOT_FOUND: unknown workspace. May be retried.
     * </pre>
     */
    public void evaluatePermission(io.toolgate.v1.EvaluatePermissionRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.EvaluatePermissionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getEvaluatePermissionMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service PermissionService.
   * <pre>
   * Shows prompts to approvers and takes their replies.
   * Whoever made a call, or one of the calls above it, does not answer its prompts, unless the service lets them
   * (`permission.self_approval`; the default without authentication and for the owner on the Unix socket). Some permissions
   * may need the approvals of two principals (`permission.second_approver`).
   * A prompt is stored before anybody sees it. The first valid reply wins; everybody who watches is told. Nothing lives in a
   * connection: to reconnect, open again. Channel does everything in one stream; the other RPCs do the same for clients
   * without client streaming.
   * </pre>
   */
  public static final class PermissionServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<PermissionServiceBlockingV2Stub> {
    private PermissionServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected PermissionServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new PermissionServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Sees prompts and answers them in one stream. The client's first message is `open`; the server then sends
     * `opened`, every open prompt that matches, `snapshot_end`, and from then on what changes. Each `reply` gets a
     * `reply_result`.
     * INVALID_ARGUMENT: the first message is not `open`, or a second `open` came. ABORTED: this client read too slowly
     * and missed changes; open again. INTERNAL, RESOURCE_EXHAUSTED: a reply could not be stored and decides nothing; open
     * again. UNAVAILABLE: the service is stopping; open again. A prompt that is not told of as resolved is open still.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<io.toolgate.v1.ChannelRequest, io.toolgate.v1.ChannelResponse>
        channel() {
      return io.grpc.stub.ClientCalls.blockingBidiStreamingCall(
          getChannel(), getChannelMethod(), getCallOptions());
    }

    /**
     * <pre>
     * The server's half of Channel.
     * ABORTED and UNAVAILABLE as Channel.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.toolgate.v1.WatchPromptsResponse>
        watchPrompts(io.toolgate.v1.WatchPromptsRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchPromptsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists prompts in the order of their arrival; the open ones unless states are named.
     * INVALID_ARGUMENT: bad page size. May be retried.
     * </pre>
     */
    public io.toolgate.v1.ListPromptsResponse listPrompts(io.toolgate.v1.ListPromptsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListPromptsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns a prompt.
     * NOT_FOUND: unknown prompt. May be retried.
     * </pre>
     */
    public io.toolgate.v1.GetPromptResponse getPrompt(io.toolgate.v1.GetPromptRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetPromptMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Replies to a prompt. May be retried: the answer names the decision that stands.
     * INVALID_ARGUMENT: no decision, or one that does not fit the prompt. NOT_FOUND: unknown prompt. PERMISSION_DENIED with
     * the reason SELF_APPROVAL: the call is made in the caller's own name, and the workspace does not let callers answer
     * themselves. FAILED_PRECONDITION: the cited digest is not the
     * prompt's, or another instance of the service waits for the prompt. A reply that came too late is an OK status whose `result` says so.
     * </pre>
     */
    public io.toolgate.v1.ReplyPromptResponse replyPrompt(io.toolgate.v1.ReplyPromptRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getReplyPromptMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists standing approvals, oldest first.
     * May be retried.
     * </pre>
     */
    public io.toolgate.v1.ListGrantsResponse listGrants(io.toolgate.v1.ListGrantsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListGrantsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Takes a standing approval back: what it covered is asked again.
     * NOT_FOUND: unknown grant, or already revoked.
     * </pre>
     */
    public io.toolgate.v1.RevokeGrantResponse revokeGrant(io.toolgate.v1.RevokeGrantRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRevokeGrantMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Says what the rules would decide. Asks nobody, changes nothing.
     * INVALID_ARGUMENT: unknown agent, no permission. NOT_FOUND: unknown workspace. May be retried.
     * </pre>
     */
    public io.toolgate.v1.EvaluatePermissionResponse evaluatePermission(io.toolgate.v1.EvaluatePermissionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getEvaluatePermissionMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service PermissionService.
   * <pre>
   * Shows prompts to approvers and takes their replies.
   * Whoever made a call, or one of the calls above it, does not answer its prompts, unless the service lets them
   * (`permission.self_approval`; the default without authentication and for the owner on the Unix socket). Some permissions
   * may need the approvals of two principals (`permission.second_approver`).
   * A prompt is stored before anybody sees it. The first valid reply wins; everybody who watches is told. Nothing lives in a
   * connection: to reconnect, open again. Channel does everything in one stream; the other RPCs do the same for clients
   * without client streaming.
   * </pre>
   */
  public static final class PermissionServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<PermissionServiceBlockingStub> {
    private PermissionServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected PermissionServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new PermissionServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * The server's half of Channel.
     * ABORTED and UNAVAILABLE as Channel.
     * </pre>
     */
    public java.util.Iterator<io.toolgate.v1.WatchPromptsResponse> watchPrompts(
        io.toolgate.v1.WatchPromptsRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchPromptsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists prompts in the order of their arrival; the open ones unless states are named.
     * INVALID_ARGUMENT: bad page size. May be retried.
     * </pre>
     */
    public io.toolgate.v1.ListPromptsResponse listPrompts(io.toolgate.v1.ListPromptsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListPromptsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns a prompt.
     * NOT_FOUND: unknown prompt. May be retried.
     * </pre>
     */
    public io.toolgate.v1.GetPromptResponse getPrompt(io.toolgate.v1.GetPromptRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetPromptMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Replies to a prompt. May be retried: the answer names the decision that stands.
     * INVALID_ARGUMENT: no decision, or one that does not fit the prompt. NOT_FOUND: unknown prompt. PERMISSION_DENIED with
     * the reason SELF_APPROVAL: the call is made in the caller's own name, and the workspace does not let callers answer
     * themselves. FAILED_PRECONDITION: the cited digest is not the
     * prompt's, or another instance of the service waits for the prompt. A reply that came too late is an OK status whose `result` says so.
     * </pre>
     */
    public io.toolgate.v1.ReplyPromptResponse replyPrompt(io.toolgate.v1.ReplyPromptRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReplyPromptMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists standing approvals, oldest first.
     * May be retried.
     * </pre>
     */
    public io.toolgate.v1.ListGrantsResponse listGrants(io.toolgate.v1.ListGrantsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListGrantsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Takes a standing approval back: what it covered is asked again.
     * NOT_FOUND: unknown grant, or already revoked.
     * </pre>
     */
    public io.toolgate.v1.RevokeGrantResponse revokeGrant(io.toolgate.v1.RevokeGrantRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRevokeGrantMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Says what the rules would decide. Asks nobody, changes nothing.
     * INVALID_ARGUMENT: unknown agent, no permission. NOT_FOUND: unknown workspace. May be retried.
     * </pre>
     */
    public io.toolgate.v1.EvaluatePermissionResponse evaluatePermission(io.toolgate.v1.EvaluatePermissionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getEvaluatePermissionMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service PermissionService.
   * <pre>
   * Shows prompts to approvers and takes their replies.
   * Whoever made a call, or one of the calls above it, does not answer its prompts, unless the service lets them
   * (`permission.self_approval`; the default without authentication and for the owner on the Unix socket). Some permissions
   * may need the approvals of two principals (`permission.second_approver`).
   * A prompt is stored before anybody sees it. The first valid reply wins; everybody who watches is told. Nothing lives in a
   * connection: to reconnect, open again. Channel does everything in one stream; the other RPCs do the same for clients
   * without client streaming.
   * </pre>
   */
  public static final class PermissionServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<PermissionServiceFutureStub> {
    private PermissionServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected PermissionServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new PermissionServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists prompts in the order of their arrival; the open ones unless states are named.
     * INVALID_ARGUMENT: bad page size. May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.ListPromptsResponse> listPrompts(
        io.toolgate.v1.ListPromptsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListPromptsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Returns a prompt.
     * NOT_FOUND: unknown prompt. May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.GetPromptResponse> getPrompt(
        io.toolgate.v1.GetPromptRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetPromptMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Replies to a prompt. May be retried: the answer names the decision that stands.
     * INVALID_ARGUMENT: no decision, or one that does not fit the prompt. NOT_FOUND: unknown prompt. PERMISSION_DENIED with
     * the reason SELF_APPROVAL: the call is made in the caller's own name, and the workspace does not let callers answer
     * themselves. FAILED_PRECONDITION: the cited digest is not the
     * prompt's, or another instance of the service waits for the prompt. A reply that came too late is an OK status whose `result` says so.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.ReplyPromptResponse> replyPrompt(
        io.toolgate.v1.ReplyPromptRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReplyPromptMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists standing approvals, oldest first.
     * May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.ListGrantsResponse> listGrants(
        io.toolgate.v1.ListGrantsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListGrantsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Takes a standing approval back: what it covered is asked again.
     * NOT_FOUND: unknown grant, or already revoked.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.RevokeGrantResponse> revokeGrant(
        io.toolgate.v1.RevokeGrantRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRevokeGrantMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Says what the rules would decide. Asks nobody, changes nothing.
     * INVALID_ARGUMENT: unknown agent, no permission. NOT_FOUND: unknown workspace. May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.EvaluatePermissionResponse> evaluatePermission(
        io.toolgate.v1.EvaluatePermissionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getEvaluatePermissionMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_WATCH_PROMPTS = 0;
  private static final int METHODID_LIST_PROMPTS = 1;
  private static final int METHODID_GET_PROMPT = 2;
  private static final int METHODID_REPLY_PROMPT = 3;
  private static final int METHODID_LIST_GRANTS = 4;
  private static final int METHODID_REVOKE_GRANT = 5;
  private static final int METHODID_EVALUATE_PERMISSION = 6;
  private static final int METHODID_CHANNEL = 7;

  private static final class MethodHandlers<Req, Resp> implements
      io.grpc.stub.ServerCalls.UnaryMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ServerStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.ClientStreamingMethod<Req, Resp>,
      io.grpc.stub.ServerCalls.BidiStreamingMethod<Req, Resp> {
    private final AsyncService serviceImpl;
    private final int methodId;

    MethodHandlers(AsyncService serviceImpl, int methodId) {
      this.serviceImpl = serviceImpl;
      this.methodId = methodId;
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public void invoke(Req request, io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_WATCH_PROMPTS:
          serviceImpl.watchPrompts((io.toolgate.v1.WatchPromptsRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.WatchPromptsResponse>) responseObserver);
          break;
        case METHODID_LIST_PROMPTS:
          serviceImpl.listPrompts((io.toolgate.v1.ListPromptsRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.ListPromptsResponse>) responseObserver);
          break;
        case METHODID_GET_PROMPT:
          serviceImpl.getPrompt((io.toolgate.v1.GetPromptRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.GetPromptResponse>) responseObserver);
          break;
        case METHODID_REPLY_PROMPT:
          serviceImpl.replyPrompt((io.toolgate.v1.ReplyPromptRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.ReplyPromptResponse>) responseObserver);
          break;
        case METHODID_LIST_GRANTS:
          serviceImpl.listGrants((io.toolgate.v1.ListGrantsRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.ListGrantsResponse>) responseObserver);
          break;
        case METHODID_REVOKE_GRANT:
          serviceImpl.revokeGrant((io.toolgate.v1.RevokeGrantRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.RevokeGrantResponse>) responseObserver);
          break;
        case METHODID_EVALUATE_PERMISSION:
          serviceImpl.evaluatePermission((io.toolgate.v1.EvaluatePermissionRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.EvaluatePermissionResponse>) responseObserver);
          break;
        default:
          throw new AssertionError();
      }
    }

    @java.lang.Override
    @java.lang.SuppressWarnings("unchecked")
    public io.grpc.stub.StreamObserver<Req> invoke(
        io.grpc.stub.StreamObserver<Resp> responseObserver) {
      switch (methodId) {
        case METHODID_CHANNEL:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.channel(
              (io.grpc.stub.StreamObserver<io.toolgate.v1.ChannelResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getChannelMethod(),
          io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
            new MethodHandlers<
              io.toolgate.v1.ChannelRequest,
              io.toolgate.v1.ChannelResponse>(
                service, METHODID_CHANNEL)))
        .addMethod(
          getWatchPromptsMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.toolgate.v1.WatchPromptsRequest,
              io.toolgate.v1.WatchPromptsResponse>(
                service, METHODID_WATCH_PROMPTS)))
        .addMethod(
          getListPromptsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.ListPromptsRequest,
              io.toolgate.v1.ListPromptsResponse>(
                service, METHODID_LIST_PROMPTS)))
        .addMethod(
          getGetPromptMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.GetPromptRequest,
              io.toolgate.v1.GetPromptResponse>(
                service, METHODID_GET_PROMPT)))
        .addMethod(
          getReplyPromptMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.ReplyPromptRequest,
              io.toolgate.v1.ReplyPromptResponse>(
                service, METHODID_REPLY_PROMPT)))
        .addMethod(
          getListGrantsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.ListGrantsRequest,
              io.toolgate.v1.ListGrantsResponse>(
                service, METHODID_LIST_GRANTS)))
        .addMethod(
          getRevokeGrantMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.RevokeGrantRequest,
              io.toolgate.v1.RevokeGrantResponse>(
                service, METHODID_REVOKE_GRANT)))
        .addMethod(
          getEvaluatePermissionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.EvaluatePermissionRequest,
              io.toolgate.v1.EvaluatePermissionResponse>(
                service, METHODID_EVALUATE_PERMISSION)))
        .build();
  }

  private static abstract class PermissionServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    PermissionServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.toolgate.v1.PermissionServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("PermissionService");
    }
  }

  private static final class PermissionServiceFileDescriptorSupplier
      extends PermissionServiceBaseDescriptorSupplier {
    PermissionServiceFileDescriptorSupplier() {}
  }

  private static final class PermissionServiceMethodDescriptorSupplier
      extends PermissionServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    PermissionServiceMethodDescriptorSupplier(java.lang.String methodName) {
      this.methodName = methodName;
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.MethodDescriptor getMethodDescriptor() {
      return getServiceDescriptor().findMethodByName(methodName);
    }
  }

  private static volatile io.grpc.ServiceDescriptor serviceDescriptor;

  public static io.grpc.ServiceDescriptor getServiceDescriptor() {
    io.grpc.ServiceDescriptor result = serviceDescriptor;
    if (result == null) {
      synchronized (PermissionServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new PermissionServiceFileDescriptorSupplier())
              .addMethod(getChannelMethod())
              .addMethod(getWatchPromptsMethod())
              .addMethod(getListPromptsMethod())
              .addMethod(getGetPromptMethod())
              .addMethod(getReplyPromptMethod())
              .addMethod(getListGrantsMethod())
              .addMethod(getRevokeGrantMethod())
              .addMethod(getEvaluatePermissionMethod())
              .build();
        }
      }
    }
    return result;
  }
}
