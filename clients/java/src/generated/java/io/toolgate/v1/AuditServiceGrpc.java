package io.toolgate.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Hands out the audit: an append-only chain of records about every admission, prompt, decision, refusal and end. Each
 * record names the hash of the one before it, so a change, a deletion or another order shows; `toolgate audit verify`
 * looks for that.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class AuditServiceGrpc {

  private AuditServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "toolgate.v1.AuditService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.ExportAuditRequest,
      io.toolgate.v1.ExportAuditResponse> getExportAuditMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ExportAudit",
      requestType = io.toolgate.v1.ExportAuditRequest.class,
      responseType = io.toolgate.v1.ExportAuditResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.ExportAuditRequest,
      io.toolgate.v1.ExportAuditResponse> getExportAuditMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.ExportAuditRequest, io.toolgate.v1.ExportAuditResponse> getExportAuditMethod;
    if ((getExportAuditMethod = AuditServiceGrpc.getExportAuditMethod) == null) {
      synchronized (AuditServiceGrpc.class) {
        if ((getExportAuditMethod = AuditServiceGrpc.getExportAuditMethod) == null) {
          AuditServiceGrpc.getExportAuditMethod = getExportAuditMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.ExportAuditRequest, io.toolgate.v1.ExportAuditResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ExportAudit"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ExportAuditRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ExportAuditResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AuditServiceMethodDescriptorSupplier("ExportAudit"))
              .build();
        }
      }
    }
    return getExportAuditMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.GetAuditHeadRequest,
      io.toolgate.v1.GetAuditHeadResponse> getGetAuditHeadMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetAuditHead",
      requestType = io.toolgate.v1.GetAuditHeadRequest.class,
      responseType = io.toolgate.v1.GetAuditHeadResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.GetAuditHeadRequest,
      io.toolgate.v1.GetAuditHeadResponse> getGetAuditHeadMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.GetAuditHeadRequest, io.toolgate.v1.GetAuditHeadResponse> getGetAuditHeadMethod;
    if ((getGetAuditHeadMethod = AuditServiceGrpc.getGetAuditHeadMethod) == null) {
      synchronized (AuditServiceGrpc.class) {
        if ((getGetAuditHeadMethod = AuditServiceGrpc.getGetAuditHeadMethod) == null) {
          AuditServiceGrpc.getGetAuditHeadMethod = getGetAuditHeadMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.GetAuditHeadRequest, io.toolgate.v1.GetAuditHeadResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetAuditHead"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.GetAuditHeadRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.GetAuditHeadResponse.getDefaultInstance()))
              .setSchemaDescriptor(new AuditServiceMethodDescriptorSupplier("GetAuditHead"))
              .build();
        }
      }
    }
    return getGetAuditHeadMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static AuditServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AuditServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AuditServiceStub>() {
        @java.lang.Override
        public AuditServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AuditServiceStub(channel, callOptions);
        }
      };
    return AuditServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static AuditServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AuditServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AuditServiceBlockingV2Stub>() {
        @java.lang.Override
        public AuditServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AuditServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return AuditServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static AuditServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AuditServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AuditServiceBlockingStub>() {
        @java.lang.Override
        public AuditServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AuditServiceBlockingStub(channel, callOptions);
        }
      };
    return AuditServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static AuditServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<AuditServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<AuditServiceFutureStub>() {
        @java.lang.Override
        public AuditServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new AuditServiceFutureStub(channel, callOptions);
        }
      };
    return AuditServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Hands out the audit: an append-only chain of records about every admission, prompt, decision, refusal and end. Each
   * record names the hash of the one before it, so a change, a deletion or another order shows; `toolgate audit verify`
   * looks for that.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Streams the records from a number or a time on, up to the one that was the last when the RPC began, and then the
     * head: a stream without one is incomplete. Written to a file, one per line, with `head_line` as the last, records and
     * head are what `toolgate audit verify` reads.
     * OUT_OF_RANGE: there is no record of this number yet, or no longer. ABORTED: retention removed records meanwhile; may be
     * retried. INVALID_ARGUMENT: a number and a time are given. Otherwise may be retried.
     * </pre>
     */
    default void exportAudit(io.toolgate.v1.ExportAuditRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ExportAuditResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getExportAuditMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns the end of the chain. Whoever notes its hash elsewhere finds later whether the records up to it are still
     * those, even if somebody could write to all that the service keeps.
     * May be retried.
     * </pre>
     */
    default void getAuditHead(io.toolgate.v1.GetAuditHeadRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.GetAuditHeadResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetAuditHeadMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service AuditService.
   * <pre>
   * Hands out the audit: an append-only chain of records about every admission, prompt, decision, refusal and end. Each
   * record names the hash of the one before it, so a change, a deletion or another order shows; `toolgate audit verify`
   * looks for that.
   * </pre>
   */
  public static abstract class AuditServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return AuditServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service AuditService.
   * <pre>
   * Hands out the audit: an append-only chain of records about every admission, prompt, decision, refusal and end. Each
   * record names the hash of the one before it, so a change, a deletion or another order shows; `toolgate audit verify`
   * looks for that.
   * </pre>
   */
  public static final class AuditServiceStub
      extends io.grpc.stub.AbstractAsyncStub<AuditServiceStub> {
    private AuditServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AuditServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AuditServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Streams the records from a number or a time on, up to the one that was the last when the RPC began, and then the
     * head: a stream without one is incomplete. Written to a file, one per line, with `head_line` as the last, records and
     * head are what `toolgate audit verify` reads.
     * OUT_OF_RANGE: there is no record of this number yet, or no longer. ABORTED: retention removed records meanwhile; may be
     * retried. INVALID_ARGUMENT: a number and a time are given. Otherwise may be retried.
     * </pre>
     */
    public void exportAudit(io.toolgate.v1.ExportAuditRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ExportAuditResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getExportAuditMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns the end of the chain. Whoever notes its hash elsewhere finds later whether the records up to it are still
     * those, even if somebody could write to all that the service keeps.
     * May be retried.
     * </pre>
     */
    public void getAuditHead(io.toolgate.v1.GetAuditHeadRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.GetAuditHeadResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetAuditHeadMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service AuditService.
   * <pre>
   * Hands out the audit: an append-only chain of records about every admission, prompt, decision, refusal and end. Each
   * record names the hash of the one before it, so a change, a deletion or another order shows; `toolgate audit verify`
   * looks for that.
   * </pre>
   */
  public static final class AuditServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<AuditServiceBlockingV2Stub> {
    private AuditServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AuditServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AuditServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Streams the records from a number or a time on, up to the one that was the last when the RPC began, and then the
     * head: a stream without one is incomplete. Written to a file, one per line, with `head_line` as the last, records and
     * head are what `toolgate audit verify` reads.
     * OUT_OF_RANGE: there is no record of this number yet, or no longer. ABORTED: retention removed records meanwhile; may be
     * retried. INVALID_ARGUMENT: a number and a time are given. Otherwise may be retried.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.toolgate.v1.ExportAuditResponse>
        exportAudit(io.toolgate.v1.ExportAuditRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getExportAuditMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns the end of the chain. Whoever notes its hash elsewhere finds later whether the records up to it are still
     * those, even if somebody could write to all that the service keeps.
     * May be retried.
     * </pre>
     */
    public io.toolgate.v1.GetAuditHeadResponse getAuditHead(io.toolgate.v1.GetAuditHeadRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetAuditHeadMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service AuditService.
   * <pre>
   * Hands out the audit: an append-only chain of records about every admission, prompt, decision, refusal and end. Each
   * record names the hash of the one before it, so a change, a deletion or another order shows; `toolgate audit verify`
   * looks for that.
   * </pre>
   */
  public static final class AuditServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<AuditServiceBlockingStub> {
    private AuditServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AuditServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AuditServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Streams the records from a number or a time on, up to the one that was the last when the RPC began, and then the
     * head: a stream without one is incomplete. Written to a file, one per line, with `head_line` as the last, records and
     * head are what `toolgate audit verify` reads.
     * OUT_OF_RANGE: there is no record of this number yet, or no longer. ABORTED: retention removed records meanwhile; may be
     * retried. INVALID_ARGUMENT: a number and a time are given. Otherwise may be retried.
     * </pre>
     */
    public java.util.Iterator<io.toolgate.v1.ExportAuditResponse> exportAudit(
        io.toolgate.v1.ExportAuditRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getExportAuditMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns the end of the chain. Whoever notes its hash elsewhere finds later whether the records up to it are still
     * those, even if somebody could write to all that the service keeps.
     * May be retried.
     * </pre>
     */
    public io.toolgate.v1.GetAuditHeadResponse getAuditHead(io.toolgate.v1.GetAuditHeadRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetAuditHeadMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service AuditService.
   * <pre>
   * Hands out the audit: an append-only chain of records about every admission, prompt, decision, refusal and end. Each
   * record names the hash of the one before it, so a change, a deletion or another order shows; `toolgate audit verify`
   * looks for that.
   * </pre>
   */
  public static final class AuditServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<AuditServiceFutureStub> {
    private AuditServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected AuditServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new AuditServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Returns the end of the chain. Whoever notes its hash elsewhere finds later whether the records up to it are still
     * those, even if somebody could write to all that the service keeps.
     * May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.GetAuditHeadResponse> getAuditHead(
        io.toolgate.v1.GetAuditHeadRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetAuditHeadMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_EXPORT_AUDIT = 0;
  private static final int METHODID_GET_AUDIT_HEAD = 1;

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
        case METHODID_EXPORT_AUDIT:
          serviceImpl.exportAudit((io.toolgate.v1.ExportAuditRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.ExportAuditResponse>) responseObserver);
          break;
        case METHODID_GET_AUDIT_HEAD:
          serviceImpl.getAuditHead((io.toolgate.v1.GetAuditHeadRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.GetAuditHeadResponse>) responseObserver);
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
          getExportAuditMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.toolgate.v1.ExportAuditRequest,
              io.toolgate.v1.ExportAuditResponse>(
                service, METHODID_EXPORT_AUDIT)))
        .addMethod(
          getGetAuditHeadMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.GetAuditHeadRequest,
              io.toolgate.v1.GetAuditHeadResponse>(
                service, METHODID_GET_AUDIT_HEAD)))
        .build();
  }

  private static abstract class AuditServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    AuditServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.toolgate.v1.AuditServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("AuditService");
    }
  }

  private static final class AuditServiceFileDescriptorSupplier
      extends AuditServiceBaseDescriptorSupplier {
    AuditServiceFileDescriptorSupplier() {}
  }

  private static final class AuditServiceMethodDescriptorSupplier
      extends AuditServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    AuditServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (AuditServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new AuditServiceFileDescriptorSupplier())
              .addMethod(getExportAuditMethod())
              .addMethod(getGetAuditHeadMethod())
              .build();
        }
      }
    }
    return result;
  }
}
