package io.toolgate.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Shows sessions, ends them, and streams what happens in a workspace.
 * A session begins with its first call; there is nothing to create. It belongs to a workspace: sessions of the same id in
 * two workspaces share nothing.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class SessionServiceGrpc {

  private SessionServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "toolgate.v1.SessionService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.GetSessionRequest,
      io.toolgate.v1.GetSessionResponse> getGetSessionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetSession",
      requestType = io.toolgate.v1.GetSessionRequest.class,
      responseType = io.toolgate.v1.GetSessionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.GetSessionRequest,
      io.toolgate.v1.GetSessionResponse> getGetSessionMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.GetSessionRequest, io.toolgate.v1.GetSessionResponse> getGetSessionMethod;
    if ((getGetSessionMethod = SessionServiceGrpc.getGetSessionMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getGetSessionMethod = SessionServiceGrpc.getGetSessionMethod) == null) {
          SessionServiceGrpc.getGetSessionMethod = getGetSessionMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.GetSessionRequest, io.toolgate.v1.GetSessionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetSession"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.GetSessionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.GetSessionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("GetSession"))
              .build();
        }
      }
    }
    return getGetSessionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.EndSessionRequest,
      io.toolgate.v1.EndSessionResponse> getEndSessionMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "EndSession",
      requestType = io.toolgate.v1.EndSessionRequest.class,
      responseType = io.toolgate.v1.EndSessionResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.EndSessionRequest,
      io.toolgate.v1.EndSessionResponse> getEndSessionMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.EndSessionRequest, io.toolgate.v1.EndSessionResponse> getEndSessionMethod;
    if ((getEndSessionMethod = SessionServiceGrpc.getEndSessionMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getEndSessionMethod = SessionServiceGrpc.getEndSessionMethod) == null) {
          SessionServiceGrpc.getEndSessionMethod = getEndSessionMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.EndSessionRequest, io.toolgate.v1.EndSessionResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "EndSession"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.EndSessionRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.EndSessionResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("EndSession"))
              .build();
        }
      }
    }
    return getEndSessionMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.WatchEventsRequest,
      io.toolgate.v1.WatchEventsResponse> getWatchEventsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchEvents",
      requestType = io.toolgate.v1.WatchEventsRequest.class,
      responseType = io.toolgate.v1.WatchEventsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.WatchEventsRequest,
      io.toolgate.v1.WatchEventsResponse> getWatchEventsMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.WatchEventsRequest, io.toolgate.v1.WatchEventsResponse> getWatchEventsMethod;
    if ((getWatchEventsMethod = SessionServiceGrpc.getWatchEventsMethod) == null) {
      synchronized (SessionServiceGrpc.class) {
        if ((getWatchEventsMethod = SessionServiceGrpc.getWatchEventsMethod) == null) {
          SessionServiceGrpc.getWatchEventsMethod = getWatchEventsMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.WatchEventsRequest, io.toolgate.v1.WatchEventsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchEvents"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.WatchEventsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.WatchEventsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new SessionServiceMethodDescriptorSupplier("WatchEvents"))
              .build();
        }
      }
    }
    return getWatchEventsMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static SessionServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SessionServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SessionServiceStub>() {
        @java.lang.Override
        public SessionServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SessionServiceStub(channel, callOptions);
        }
      };
    return SessionServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static SessionServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SessionServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SessionServiceBlockingV2Stub>() {
        @java.lang.Override
        public SessionServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SessionServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return SessionServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static SessionServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SessionServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SessionServiceBlockingStub>() {
        @java.lang.Override
        public SessionServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SessionServiceBlockingStub(channel, callOptions);
        }
      };
    return SessionServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static SessionServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<SessionServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<SessionServiceFutureStub>() {
        @java.lang.Override
        public SessionServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new SessionServiceFutureStub(channel, callOptions);
        }
      };
    return SessionServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Shows sessions, ends them, and streams what happens in a workspace.
   * A session begins with its first call; there is nothing to create. It belongs to a workspace: sessions of the same id in
   * two workspaces share nothing.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Returns what a session owns. A session without anything is not an error.
     * INVALID_ARGUMENT: no session named. NOT_FOUND: no such workspace. May be retried.
     * </pre>
     */
    default void getSession(io.toolgate.v1.GetSessionRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.GetSessionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetSessionMethod(), responseObserver);
    }

    /**
     * <pre>
     * Cancels the session's calls, ends what its earlier calls left running in the background, withdraws their prompts and
     * forgets what the session has kept: which files it has read, its todos, where its plan is. Records stay.
     * INVALID_ARGUMENT: no session named. NOT_FOUND: no such workspace. May be retried.
     * </pre>
     */
    default void endSession(io.toolgate.v1.EndSessionRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.EndSessionResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getEndSessionMethod(), responseObserver);
    }

    /**
     * <pre>
     * Streams what happens, from any event on.
     * INVALID_ARGUMENT: a negative sequence. OUT_OF_RANGE: a sequence above the last one. UNAVAILABLE: the service is
     * stopping. May be retried after the last sequence seen.
     * </pre>
     */
    default void watchEvents(io.toolgate.v1.WatchEventsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.WatchEventsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchEventsMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service SessionService.
   * <pre>
   * Shows sessions, ends them, and streams what happens in a workspace.
   * A session begins with its first call; there is nothing to create. It belongs to a workspace: sessions of the same id in
   * two workspaces share nothing.
   * </pre>
   */
  public static abstract class SessionServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return SessionServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service SessionService.
   * <pre>
   * Shows sessions, ends them, and streams what happens in a workspace.
   * A session begins with its first call; there is nothing to create. It belongs to a workspace: sessions of the same id in
   * two workspaces share nothing.
   * </pre>
   */
  public static final class SessionServiceStub
      extends io.grpc.stub.AbstractAsyncStub<SessionServiceStub> {
    private SessionServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SessionServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SessionServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Returns what a session owns. A session without anything is not an error.
     * INVALID_ARGUMENT: no session named. NOT_FOUND: no such workspace. May be retried.
     * </pre>
     */
    public void getSession(io.toolgate.v1.GetSessionRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.GetSessionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetSessionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Cancels the session's calls, ends what its earlier calls left running in the background, withdraws their prompts and
     * forgets what the session has kept: which files it has read, its todos, where its plan is. Records stay.
     * INVALID_ARGUMENT: no session named. NOT_FOUND: no such workspace. May be retried.
     * </pre>
     */
    public void endSession(io.toolgate.v1.EndSessionRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.EndSessionResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getEndSessionMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Streams what happens, from any event on.
     * INVALID_ARGUMENT: a negative sequence. OUT_OF_RANGE: a sequence above the last one. UNAVAILABLE: the service is
     * stopping. May be retried after the last sequence seen.
     * </pre>
     */
    public void watchEvents(io.toolgate.v1.WatchEventsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.WatchEventsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchEventsMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service SessionService.
   * <pre>
   * Shows sessions, ends them, and streams what happens in a workspace.
   * A session begins with its first call; there is nothing to create. It belongs to a workspace: sessions of the same id in
   * two workspaces share nothing.
   * </pre>
   */
  public static final class SessionServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<SessionServiceBlockingV2Stub> {
    private SessionServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SessionServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SessionServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Returns what a session owns. A session without anything is not an error.
     * INVALID_ARGUMENT: no session named. NOT_FOUND: no such workspace. May be retried.
     * </pre>
     */
    public io.toolgate.v1.GetSessionResponse getSession(io.toolgate.v1.GetSessionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Cancels the session's calls, ends what its earlier calls left running in the background, withdraws their prompts and
     * forgets what the session has kept: which files it has read, its todos, where its plan is. Records stay.
     * INVALID_ARGUMENT: no session named. NOT_FOUND: no such workspace. May be retried.
     * </pre>
     */
    public io.toolgate.v1.EndSessionResponse endSession(io.toolgate.v1.EndSessionRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getEndSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams what happens, from any event on.
     * INVALID_ARGUMENT: a negative sequence. OUT_OF_RANGE: a sequence above the last one. UNAVAILABLE: the service is
     * stopping. May be retried after the last sequence seen.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.toolgate.v1.WatchEventsResponse>
        watchEvents(io.toolgate.v1.WatchEventsRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchEventsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service SessionService.
   * <pre>
   * Shows sessions, ends them, and streams what happens in a workspace.
   * A session begins with its first call; there is nothing to create. It belongs to a workspace: sessions of the same id in
   * two workspaces share nothing.
   * </pre>
   */
  public static final class SessionServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<SessionServiceBlockingStub> {
    private SessionServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SessionServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SessionServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Returns what a session owns. A session without anything is not an error.
     * INVALID_ARGUMENT: no session named. NOT_FOUND: no such workspace. May be retried.
     * </pre>
     */
    public io.toolgate.v1.GetSessionResponse getSession(io.toolgate.v1.GetSessionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Cancels the session's calls, ends what its earlier calls left running in the background, withdraws their prompts and
     * forgets what the session has kept: which files it has read, its todos, where its plan is. Records stay.
     * INVALID_ARGUMENT: no session named. NOT_FOUND: no such workspace. May be retried.
     * </pre>
     */
    public io.toolgate.v1.EndSessionResponse endSession(io.toolgate.v1.EndSessionRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getEndSessionMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Streams what happens, from any event on.
     * INVALID_ARGUMENT: a negative sequence. OUT_OF_RANGE: a sequence above the last one. UNAVAILABLE: the service is
     * stopping. May be retried after the last sequence seen.
     * </pre>
     */
    public java.util.Iterator<io.toolgate.v1.WatchEventsResponse> watchEvents(
        io.toolgate.v1.WatchEventsRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchEventsMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service SessionService.
   * <pre>
   * Shows sessions, ends them, and streams what happens in a workspace.
   * A session begins with its first call; there is nothing to create. It belongs to a workspace: sessions of the same id in
   * two workspaces share nothing.
   * </pre>
   */
  public static final class SessionServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<SessionServiceFutureStub> {
    private SessionServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected SessionServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new SessionServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Returns what a session owns. A session without anything is not an error.
     * INVALID_ARGUMENT: no session named. NOT_FOUND: no such workspace. May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.GetSessionResponse> getSession(
        io.toolgate.v1.GetSessionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetSessionMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Cancels the session's calls, ends what its earlier calls left running in the background, withdraws their prompts and
     * forgets what the session has kept: which files it has read, its todos, where its plan is. Records stay.
     * INVALID_ARGUMENT: no session named. NOT_FOUND: no such workspace. May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.EndSessionResponse> endSession(
        io.toolgate.v1.EndSessionRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getEndSessionMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_GET_SESSION = 0;
  private static final int METHODID_END_SESSION = 1;
  private static final int METHODID_WATCH_EVENTS = 2;

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
        case METHODID_GET_SESSION:
          serviceImpl.getSession((io.toolgate.v1.GetSessionRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.GetSessionResponse>) responseObserver);
          break;
        case METHODID_END_SESSION:
          serviceImpl.endSession((io.toolgate.v1.EndSessionRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.EndSessionResponse>) responseObserver);
          break;
        case METHODID_WATCH_EVENTS:
          serviceImpl.watchEvents((io.toolgate.v1.WatchEventsRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.WatchEventsResponse>) responseObserver);
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
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getGetSessionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.GetSessionRequest,
              io.toolgate.v1.GetSessionResponse>(
                service, METHODID_GET_SESSION)))
        .addMethod(
          getEndSessionMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.EndSessionRequest,
              io.toolgate.v1.EndSessionResponse>(
                service, METHODID_END_SESSION)))
        .addMethod(
          getWatchEventsMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.toolgate.v1.WatchEventsRequest,
              io.toolgate.v1.WatchEventsResponse>(
                service, METHODID_WATCH_EVENTS)))
        .build();
  }

  private static abstract class SessionServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    SessionServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.toolgate.v1.SessionServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("SessionService");
    }
  }

  private static final class SessionServiceFileDescriptorSupplier
      extends SessionServiceBaseDescriptorSupplier {
    SessionServiceFileDescriptorSupplier() {}
  }

  private static final class SessionServiceMethodDescriptorSupplier
      extends SessionServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    SessionServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (SessionServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new SessionServiceFileDescriptorSupplier())
              .addMethod(getGetSessionMethod())
              .addMethod(getEndSessionMethod())
              .addMethod(getWatchEventsMethod())
              .build();
        }
      }
    }
    return result;
  }
}
