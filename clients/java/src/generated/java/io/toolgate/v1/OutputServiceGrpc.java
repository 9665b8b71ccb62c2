package io.toolgate.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Reads the whole outputs that calls produced, while they are written and after.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class OutputServiceGrpc {

  private OutputServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "toolgate.v1.OutputService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.ReadOutputRequest,
      io.toolgate.v1.ReadOutputResponse> getReadOutputMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReadOutput",
      requestType = io.toolgate.v1.ReadOutputRequest.class,
      responseType = io.toolgate.v1.ReadOutputResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.ReadOutputRequest,
      io.toolgate.v1.ReadOutputResponse> getReadOutputMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.ReadOutputRequest, io.toolgate.v1.ReadOutputResponse> getReadOutputMethod;
    if ((getReadOutputMethod = OutputServiceGrpc.getReadOutputMethod) == null) {
      synchronized (OutputServiceGrpc.class) {
        if ((getReadOutputMethod = OutputServiceGrpc.getReadOutputMethod) == null) {
          OutputServiceGrpc.getReadOutputMethod = getReadOutputMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.ReadOutputRequest, io.toolgate.v1.ReadOutputResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReadOutput"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ReadOutputRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ReadOutputResponse.getDefaultInstance()))
              .setSchemaDescriptor(new OutputServiceMethodDescriptorSupplier("ReadOutput"))
              .build();
        }
      }
    }
    return getReadOutputMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.SearchOutputRequest,
      io.toolgate.v1.SearchOutputResponse> getSearchOutputMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SearchOutput",
      requestType = io.toolgate.v1.SearchOutputRequest.class,
      responseType = io.toolgate.v1.SearchOutputResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.SearchOutputRequest,
      io.toolgate.v1.SearchOutputResponse> getSearchOutputMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.SearchOutputRequest, io.toolgate.v1.SearchOutputResponse> getSearchOutputMethod;
    if ((getSearchOutputMethod = OutputServiceGrpc.getSearchOutputMethod) == null) {
      synchronized (OutputServiceGrpc.class) {
        if ((getSearchOutputMethod = OutputServiceGrpc.getSearchOutputMethod) == null) {
          OutputServiceGrpc.getSearchOutputMethod = getSearchOutputMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.SearchOutputRequest, io.toolgate.v1.SearchOutputResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SearchOutput"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.SearchOutputRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.SearchOutputResponse.getDefaultInstance()))
              .setSchemaDescriptor(new OutputServiceMethodDescriptorSupplier("SearchOutput"))
              .build();
        }
      }
    }
    return getSearchOutputMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.GetOutputRequest,
      io.toolgate.v1.GetOutputResponse> getGetOutputMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetOutput",
      requestType = io.toolgate.v1.GetOutputRequest.class,
      responseType = io.toolgate.v1.GetOutputResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.GetOutputRequest,
      io.toolgate.v1.GetOutputResponse> getGetOutputMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.GetOutputRequest, io.toolgate.v1.GetOutputResponse> getGetOutputMethod;
    if ((getGetOutputMethod = OutputServiceGrpc.getGetOutputMethod) == null) {
      synchronized (OutputServiceGrpc.class) {
        if ((getGetOutputMethod = OutputServiceGrpc.getGetOutputMethod) == null) {
          OutputServiceGrpc.getGetOutputMethod = getGetOutputMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.GetOutputRequest, io.toolgate.v1.GetOutputResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetOutput"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.GetOutputRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.GetOutputResponse.getDefaultInstance()))
              .setSchemaDescriptor(new OutputServiceMethodDescriptorSupplier("GetOutput"))
              .build();
        }
      }
    }
    return getGetOutputMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.ListOutputsRequest,
      io.toolgate.v1.ListOutputsResponse> getListOutputsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListOutputs",
      requestType = io.toolgate.v1.ListOutputsRequest.class,
      responseType = io.toolgate.v1.ListOutputsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.ListOutputsRequest,
      io.toolgate.v1.ListOutputsResponse> getListOutputsMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.ListOutputsRequest, io.toolgate.v1.ListOutputsResponse> getListOutputsMethod;
    if ((getListOutputsMethod = OutputServiceGrpc.getListOutputsMethod) == null) {
      synchronized (OutputServiceGrpc.class) {
        if ((getListOutputsMethod = OutputServiceGrpc.getListOutputsMethod) == null) {
          OutputServiceGrpc.getListOutputsMethod = getListOutputsMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.ListOutputsRequest, io.toolgate.v1.ListOutputsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListOutputs"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ListOutputsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ListOutputsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new OutputServiceMethodDescriptorSupplier("ListOutputs"))
              .build();
        }
      }
    }
    return getListOutputsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.DeleteOutputRequest,
      io.toolgate.v1.DeleteOutputResponse> getDeleteOutputMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "DeleteOutput",
      requestType = io.toolgate.v1.DeleteOutputRequest.class,
      responseType = io.toolgate.v1.DeleteOutputResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.DeleteOutputRequest,
      io.toolgate.v1.DeleteOutputResponse> getDeleteOutputMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.DeleteOutputRequest, io.toolgate.v1.DeleteOutputResponse> getDeleteOutputMethod;
    if ((getDeleteOutputMethod = OutputServiceGrpc.getDeleteOutputMethod) == null) {
      synchronized (OutputServiceGrpc.class) {
        if ((getDeleteOutputMethod = OutputServiceGrpc.getDeleteOutputMethod) == null) {
          OutputServiceGrpc.getDeleteOutputMethod = getDeleteOutputMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.DeleteOutputRequest, io.toolgate.v1.DeleteOutputResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "DeleteOutput"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.DeleteOutputRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.DeleteOutputResponse.getDefaultInstance()))
              .setSchemaDescriptor(new OutputServiceMethodDescriptorSupplier("DeleteOutput"))
              .build();
        }
      }
    }
    return getDeleteOutputMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static OutputServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<OutputServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<OutputServiceStub>() {
        @java.lang.Override
        public OutputServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new OutputServiceStub(channel, callOptions);
        }
      };
    return OutputServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static OutputServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<OutputServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<OutputServiceBlockingV2Stub>() {
        @java.lang.Override
        public OutputServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new OutputServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return OutputServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static OutputServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<OutputServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<OutputServiceBlockingStub>() {
        @java.lang.Override
        public OutputServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new OutputServiceBlockingStub(channel, callOptions);
        }
      };
    return OutputServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static OutputServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<OutputServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<OutputServiceFutureStub>() {
        @java.lang.Override
        public OutputServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new OutputServiceFutureStub(channel, callOptions);
        }
      };
    return OutputServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Reads the whole outputs that calls produced, while they are written and after.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Reads an output: a range of bytes, a range of lines, or the end.
     * NOT_FOUND: unknown output. INVALID_ARGUMENT: a negative number, a line below 1. May be retried from the offset reached.
     * </pre>
     */
    default void readOutput(io.toolgate.v1.ReadOutputRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ReadOutputResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReadOutputMethod(), responseObserver);
    }

    /**
     * <pre>
     * Searches an output line by line.
     * NOT_FOUND: unknown output. INVALID_ARGUMENT: the regular expression does not parse or is too large. May be retried.
     * </pre>
     */
    default void searchOutput(io.toolgate.v1.SearchOutputRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.SearchOutputResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSearchOutputMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns what is known of an output.
     * NOT_FOUND: unknown output. May be retried.
     * </pre>
     */
    default void getOutput(io.toolgate.v1.GetOutputRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.GetOutputResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetOutputMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists outputs, newest first.
     * INVALID_ARGUMENT: bad page token or size. May be retried.
     * </pre>
     */
    default void listOutputs(io.toolgate.v1.ListOutputsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ListOutputsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListOutputsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Deletes an output. The record of its call stays.
     * NOT_FOUND: unknown output. FAILED_PRECONDITION: it is still being written.
     * </pre>
     */
    default void deleteOutput(io.toolgate.v1.DeleteOutputRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.DeleteOutputResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getDeleteOutputMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service OutputService.
   * <pre>
   * Reads the whole outputs that calls produced, while they are written and after.
   * </pre>
   */
  public static abstract class OutputServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return OutputServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service OutputService.
   * <pre>
   * Reads the whole outputs that calls produced, while they are written and after.
   * </pre>
   */
  public static final class OutputServiceStub
      extends io.grpc.stub.AbstractAsyncStub<OutputServiceStub> {
    private OutputServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected OutputServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new OutputServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Reads an output: a range of bytes, a range of lines, or the end.
     * NOT_FOUND: unknown output. INVALID_ARGUMENT: a negative number, a line below 1. May be retried from the offset reached.
     * </pre>
     */
    public void readOutput(io.toolgate.v1.ReadOutputRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ReadOutputResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getReadOutputMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Searches an output line by line.
     * NOT_FOUND: unknown output. INVALID_ARGUMENT: the regular expression does not parse or is too large. May be retried.
     * </pre>
     */
    public void searchOutput(io.toolgate.v1.SearchOutputRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.SearchOutputResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSearchOutputMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns what is known of an output.
     * NOT_FOUND: unknown output. May be retried.
     * </pre>
     */
    public void getOutput(io.toolgate.v1.GetOutputRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.GetOutputResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetOutputMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists outputs, newest first.
     * INVALID_ARGUMENT: bad page token or size. May be retried.
     * </pre>
     */
    public void listOutputs(io.toolgate.v1.ListOutputsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ListOutputsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListOutputsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Deletes an output. The record of its call stays.
     * NOT_FOUND: unknown output. FAILED_PRECONDITION: it is still being written.
     * </pre>
     */
    public void deleteOutput(io.toolgate.v1.DeleteOutputRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.DeleteOutputResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getDeleteOutputMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service OutputService.
   * <pre>
   * Reads the whole outputs that calls produced, while they are written and after.
   * </pre>
   */
  public static final class OutputServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<OutputServiceBlockingV2Stub> {
    private OutputServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected OutputServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new OutputServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Reads an output: a range of bytes, a range of lines, or the end.
     * NOT_FOUND: unknown output. INVALID_ARGUMENT: a negative number, a line below 1. May be retried from the offset reached.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.toolgate.v1.ReadOutputResponse>
        readOutput(io.toolgate.v1.ReadOutputRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getReadOutputMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Searches an output line by line.
     * NOT_FOUND: unknown output. INVALID_ARGUMENT: the regular expression does not parse or is too large. May be retried.
     * </pre>
     */
    public io.toolgate.v1.SearchOutputResponse searchOutput(io.toolgate.v1.SearchOutputRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSearchOutputMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns what is known of an output.
     * NOT_FOUND: unknown output. May be retried.
     * </pre>
     */
    public io.toolgate.v1.GetOutputResponse getOutput(io.toolgate.v1.GetOutputRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetOutputMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists outputs, newest first.
     * INVALID_ARGUMENT: bad page token or size. May be retried.
     * </pre>
     */
    public io.toolgate.v1.ListOutputsResponse listOutputs(io.toolgate.v1.ListOutputsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListOutputsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes an output. The record of its call stays.
     * NOT_FOUND: unknown output. FAILED_PRECONDITION: it is still being written.
     * </pre>
     */
    public io.toolgate.v1.DeleteOutputResponse deleteOutput(io.toolgate.v1.DeleteOutputRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getDeleteOutputMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service OutputService.
   * <pre>
   * Reads the whole outputs that calls produced, while they are written and after.
   * </pre>
   */
  public static final class OutputServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<OutputServiceBlockingStub> {
    private OutputServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected OutputServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new OutputServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Reads an output: a range of bytes, a range of lines, or the end.
     * NOT_FOUND: unknown output. INVALID_ARGUMENT: a negative number, a line below 1. May be retried from the offset reached.
     * </pre>
     */
    public java.util.Iterator<io.toolgate.v1.ReadOutputResponse> readOutput(
        io.toolgate.v1.ReadOutputRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getReadOutputMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Searches an output line by line.
     * NOT_FOUND: unknown output. INVALID_ARGUMENT: the regular expression does not parse or is too large. May be retried.
     * </pre>
     */
    public io.toolgate.v1.SearchOutputResponse searchOutput(io.toolgate.v1.SearchOutputRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSearchOutputMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns what is known of an output.
     * NOT_FOUND: unknown output. May be retried.
     * </pre>
     */
    public io.toolgate.v1.GetOutputResponse getOutput(io.toolgate.v1.GetOutputRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetOutputMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists outputs, newest first.
     * INVALID_ARGUMENT: bad page token or size. May be retried.
     * </pre>
     */
    public io.toolgate.v1.ListOutputsResponse listOutputs(io.toolgate.v1.ListOutputsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListOutputsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Deletes an output. The record of its call stays.
     * NOT_FOUND: unknown output. FAILED_PRECONDITION: it is still being written.
     * </pre>
     */
    public io.toolgate.v1.DeleteOutputResponse deleteOutput(io.toolgate.v1.DeleteOutputRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getDeleteOutputMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service OutputService.
   * <pre>
   * Reads the whole outputs that calls produced, while they are written and after.
   * </pre>
   */
  public static final class OutputServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<OutputServiceFutureStub> {
    private OutputServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected OutputServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new OutputServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Searches an output line by line.
     * NOT_FOUND: unknown output. INVALID_ARGUMENT: the regular expression does not parse or is too large. May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.SearchOutputResponse> searchOutput(
        io.toolgate.v1.SearchOutputRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSearchOutputMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Returns what is known of an output.
     * NOT_FOUND: unknown output. May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.GetOutputResponse> getOutput(
        io.toolgate.v1.GetOutputRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetOutputMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists outputs, newest first.
     * INVALID_ARGUMENT: bad page token or size. May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.ListOutputsResponse> listOutputs(
        io.toolgate.v1.ListOutputsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListOutputsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Deletes an output. The record of its call stays.
     * NOT_FOUND: unknown output. FAILED_PRECONDITION: it is still being written.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.DeleteOutputResponse> deleteOutput(
        io.toolgate.v1.DeleteOutputRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getDeleteOutputMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_READ_OUTPUT = 0;
  private static final int METHODID_SEARCH_OUTPUT = 1;
  private static final int METHODID_GET_OUTPUT = 2;
  private static final int METHODID_LIST_OUTPUTS = 3;
  private static final int METHODID_DELETE_OUTPUT = 4;

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
        case METHODID_READ_OUTPUT:
          serviceImpl.readOutput((io.toolgate.v1.ReadOutputRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.ReadOutputResponse>) responseObserver);
          break;
        case METHODID_SEARCH_OUTPUT:
          serviceImpl.searchOutput((io.toolgate.v1.SearchOutputRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.SearchOutputResponse>) responseObserver);
          break;
        case METHODID_GET_OUTPUT:
          serviceImpl.getOutput((io.toolgate.v1.GetOutputRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.GetOutputResponse>) responseObserver);
          break;
        case METHODID_LIST_OUTPUTS:
          serviceImpl.listOutputs((io.toolgate.v1.ListOutputsRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.ListOutputsResponse>) responseObserver);
          break;
        case METHODID_DELETE_OUTPUT:
          serviceImpl.deleteOutput((io.toolgate.v1.DeleteOutputRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.DeleteOutputResponse>) responseObserver);
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
          getReadOutputMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.toolgate.v1.ReadOutputRequest,
              io.toolgate.v1.ReadOutputResponse>(
                service, METHODID_READ_OUTPUT)))
        .addMethod(
          getSearchOutputMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.SearchOutputRequest,
              io.toolgate.v1.SearchOutputResponse>(
                service, METHODID_SEARCH_OUTPUT)))
        .addMethod(
          getGetOutputMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.GetOutputRequest,
              io.toolgate.v1.GetOutputResponse>(
                service, METHODID_GET_OUTPUT)))
        .addMethod(
          getListOutputsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.ListOutputsRequest,
              io.toolgate.v1.ListOutputsResponse>(
                service, METHODID_LIST_OUTPUTS)))
        .addMethod(
          getDeleteOutputMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.DeleteOutputRequest,
              io.toolgate.v1.DeleteOutputResponse>(
                service, METHODID_DELETE_OUTPUT)))
        .build();
  }

  private static abstract class OutputServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    OutputServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.toolgate.v1.OutputServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("OutputService");
    }
  }

  private static final class OutputServiceFileDescriptorSupplier
      extends OutputServiceBaseDescriptorSupplier {
    OutputServiceFileDescriptorSupplier() {}
  }

  private static final class OutputServiceMethodDescriptorSupplier
      extends OutputServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    OutputServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (OutputServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new OutputServiceFileDescriptorSupplier())
              .addMethod(getReadOutputMethod())
              .addMethod(getSearchOutputMethod())
              .addMethod(getGetOutputMethod())
              .addMethod(getListOutputsMethod())
              .addMethod(getDeleteOutputMethod())
              .build();
        }
      }
    }
    return result;
  }
}
