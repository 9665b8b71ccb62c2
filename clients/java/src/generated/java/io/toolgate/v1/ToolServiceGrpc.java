package io.toolgate.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Lists tools, executes them, and lets any number of clients watch.
 * Two layers of errors are never mixed. A gRPC status, with `google.rpc` details (ErrorInfo of domain `toolgate`), says
 * that the RPC failed or that the call was never admitted. Once a call exists, its end is a terminal event: a denied
 * permission, a failed edit or an unknown tool is a result that the model must read.
 * A stream without a terminal event is incomplete: watch again, after the last sequence number seen. When the service begins
 * to stop, every stream is told by a heartbeat (`draining`); a call that waits for a person is left to the next run of the
 * service, and its streams end with UNAVAILABLE, reason DRAINING, wherever they stand.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class ToolServiceGrpc {

  private ToolServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "toolgate.v1.ToolService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.ListToolsRequest,
      io.toolgate.v1.ListToolsResponse> getListToolsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListTools",
      requestType = io.toolgate.v1.ListToolsRequest.class,
      responseType = io.toolgate.v1.ListToolsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.ListToolsRequest,
      io.toolgate.v1.ListToolsResponse> getListToolsMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.ListToolsRequest, io.toolgate.v1.ListToolsResponse> getListToolsMethod;
    if ((getListToolsMethod = ToolServiceGrpc.getListToolsMethod) == null) {
      synchronized (ToolServiceGrpc.class) {
        if ((getListToolsMethod = ToolServiceGrpc.getListToolsMethod) == null) {
          ToolServiceGrpc.getListToolsMethod = getListToolsMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.ListToolsRequest, io.toolgate.v1.ListToolsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListTools"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ListToolsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ListToolsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolServiceMethodDescriptorSupplier("ListTools"))
              .build();
        }
      }
    }
    return getListToolsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.ExecuteToolRequest,
      io.toolgate.v1.ExecuteToolResponse> getExecuteToolMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ExecuteTool",
      requestType = io.toolgate.v1.ExecuteToolRequest.class,
      responseType = io.toolgate.v1.ExecuteToolResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.ExecuteToolRequest,
      io.toolgate.v1.ExecuteToolResponse> getExecuteToolMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.ExecuteToolRequest, io.toolgate.v1.ExecuteToolResponse> getExecuteToolMethod;
    if ((getExecuteToolMethod = ToolServiceGrpc.getExecuteToolMethod) == null) {
      synchronized (ToolServiceGrpc.class) {
        if ((getExecuteToolMethod = ToolServiceGrpc.getExecuteToolMethod) == null) {
          ToolServiceGrpc.getExecuteToolMethod = getExecuteToolMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.ExecuteToolRequest, io.toolgate.v1.ExecuteToolResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ExecuteTool"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ExecuteToolRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ExecuteToolResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolServiceMethodDescriptorSupplier("ExecuteTool"))
              .build();
        }
      }
    }
    return getExecuteToolMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.RunToolRequest,
      io.toolgate.v1.RunToolResponse> getRunToolMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RunTool",
      requestType = io.toolgate.v1.RunToolRequest.class,
      responseType = io.toolgate.v1.RunToolResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.RunToolRequest,
      io.toolgate.v1.RunToolResponse> getRunToolMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.RunToolRequest, io.toolgate.v1.RunToolResponse> getRunToolMethod;
    if ((getRunToolMethod = ToolServiceGrpc.getRunToolMethod) == null) {
      synchronized (ToolServiceGrpc.class) {
        if ((getRunToolMethod = ToolServiceGrpc.getRunToolMethod) == null) {
          ToolServiceGrpc.getRunToolMethod = getRunToolMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.RunToolRequest, io.toolgate.v1.RunToolResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RunTool"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.RunToolRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.RunToolResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolServiceMethodDescriptorSupplier("RunTool"))
              .build();
        }
      }
    }
    return getRunToolMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.WatchCallRequest,
      io.toolgate.v1.WatchCallResponse> getWatchCallMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "WatchCall",
      requestType = io.toolgate.v1.WatchCallRequest.class,
      responseType = io.toolgate.v1.WatchCallResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.WatchCallRequest,
      io.toolgate.v1.WatchCallResponse> getWatchCallMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.WatchCallRequest, io.toolgate.v1.WatchCallResponse> getWatchCallMethod;
    if ((getWatchCallMethod = ToolServiceGrpc.getWatchCallMethod) == null) {
      synchronized (ToolServiceGrpc.class) {
        if ((getWatchCallMethod = ToolServiceGrpc.getWatchCallMethod) == null) {
          ToolServiceGrpc.getWatchCallMethod = getWatchCallMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.WatchCallRequest, io.toolgate.v1.WatchCallResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "WatchCall"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.WatchCallRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.WatchCallResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolServiceMethodDescriptorSupplier("WatchCall"))
              .build();
        }
      }
    }
    return getWatchCallMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.GetCallRequest,
      io.toolgate.v1.GetCallResponse> getGetCallMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "GetCall",
      requestType = io.toolgate.v1.GetCallRequest.class,
      responseType = io.toolgate.v1.GetCallResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.GetCallRequest,
      io.toolgate.v1.GetCallResponse> getGetCallMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.GetCallRequest, io.toolgate.v1.GetCallResponse> getGetCallMethod;
    if ((getGetCallMethod = ToolServiceGrpc.getGetCallMethod) == null) {
      synchronized (ToolServiceGrpc.class) {
        if ((getGetCallMethod = ToolServiceGrpc.getGetCallMethod) == null) {
          ToolServiceGrpc.getGetCallMethod = getGetCallMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.GetCallRequest, io.toolgate.v1.GetCallResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "GetCall"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.GetCallRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.GetCallResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolServiceMethodDescriptorSupplier("GetCall"))
              .build();
        }
      }
    }
    return getGetCallMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.ListCallsRequest,
      io.toolgate.v1.ListCallsResponse> getListCallsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ListCalls",
      requestType = io.toolgate.v1.ListCallsRequest.class,
      responseType = io.toolgate.v1.ListCallsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.ListCallsRequest,
      io.toolgate.v1.ListCallsResponse> getListCallsMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.ListCallsRequest, io.toolgate.v1.ListCallsResponse> getListCallsMethod;
    if ((getListCallsMethod = ToolServiceGrpc.getListCallsMethod) == null) {
      synchronized (ToolServiceGrpc.class) {
        if ((getListCallsMethod = ToolServiceGrpc.getListCallsMethod) == null) {
          ToolServiceGrpc.getListCallsMethod = getListCallsMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.ListCallsRequest, io.toolgate.v1.ListCallsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ListCalls"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ListCallsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ListCallsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolServiceMethodDescriptorSupplier("ListCalls"))
              .build();
        }
      }
    }
    return getListCallsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.CancelCallRequest,
      io.toolgate.v1.CancelCallResponse> getCancelCallMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "CancelCall",
      requestType = io.toolgate.v1.CancelCallRequest.class,
      responseType = io.toolgate.v1.CancelCallResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.CancelCallRequest,
      io.toolgate.v1.CancelCallResponse> getCancelCallMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.CancelCallRequest, io.toolgate.v1.CancelCallResponse> getCancelCallMethod;
    if ((getCancelCallMethod = ToolServiceGrpc.getCancelCallMethod) == null) {
      synchronized (ToolServiceGrpc.class) {
        if ((getCancelCallMethod = ToolServiceGrpc.getCancelCallMethod) == null) {
          ToolServiceGrpc.getCancelCallMethod = getCancelCallMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.CancelCallRequest, io.toolgate.v1.CancelCallResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "CancelCall"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.CancelCallRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.CancelCallResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolServiceMethodDescriptorSupplier("CancelCall"))
              .build();
        }
      }
    }
    return getCancelCallMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.SendInputRequest,
      io.toolgate.v1.SendInputResponse> getSendInputMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "SendInput",
      requestType = io.toolgate.v1.SendInputRequest.class,
      responseType = io.toolgate.v1.SendInputResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.SendInputRequest,
      io.toolgate.v1.SendInputResponse> getSendInputMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.SendInputRequest, io.toolgate.v1.SendInputResponse> getSendInputMethod;
    if ((getSendInputMethod = ToolServiceGrpc.getSendInputMethod) == null) {
      synchronized (ToolServiceGrpc.class) {
        if ((getSendInputMethod = ToolServiceGrpc.getSendInputMethod) == null) {
          ToolServiceGrpc.getSendInputMethod = getSendInputMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.SendInputRequest, io.toolgate.v1.SendInputResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "SendInput"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.SendInputRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.SendInputResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolServiceMethodDescriptorSupplier("SendInput"))
              .build();
        }
      }
    }
    return getSendInputMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.RevertCallRequest,
      io.toolgate.v1.RevertCallResponse> getRevertCallMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "RevertCall",
      requestType = io.toolgate.v1.RevertCallRequest.class,
      responseType = io.toolgate.v1.RevertCallResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.RevertCallRequest,
      io.toolgate.v1.RevertCallResponse> getRevertCallMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.RevertCallRequest, io.toolgate.v1.RevertCallResponse> getRevertCallMethod;
    if ((getRevertCallMethod = ToolServiceGrpc.getRevertCallMethod) == null) {
      synchronized (ToolServiceGrpc.class) {
        if ((getRevertCallMethod = ToolServiceGrpc.getRevertCallMethod) == null) {
          ToolServiceGrpc.getRevertCallMethod = getRevertCallMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.RevertCallRequest, io.toolgate.v1.RevertCallResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "RevertCall"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.RevertCallRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.RevertCallResponse.getDefaultInstance()))
              .setSchemaDescriptor(new ToolServiceMethodDescriptorSupplier("RevertCall"))
              .build();
        }
      }
    }
    return getRevertCallMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static ToolServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ToolServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ToolServiceStub>() {
        @java.lang.Override
        public ToolServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ToolServiceStub(channel, callOptions);
        }
      };
    return ToolServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static ToolServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ToolServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ToolServiceBlockingV2Stub>() {
        @java.lang.Override
        public ToolServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ToolServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return ToolServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static ToolServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ToolServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ToolServiceBlockingStub>() {
        @java.lang.Override
        public ToolServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ToolServiceBlockingStub(channel, callOptions);
        }
      };
    return ToolServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static ToolServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<ToolServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<ToolServiceFutureStub>() {
        @java.lang.Override
        public ToolServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new ToolServiceFutureStub(channel, callOptions);
        }
      };
    return ToolServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Lists tools, executes them, and lets any number of clients watch.
   * Two layers of errors are never mixed. A gRPC status, with `google.rpc` details (ErrorInfo of domain `toolgate`), says
   * that the RPC failed or that the call was never admitted. Once a call exists, its end is a terminal event: a denied
   * permission, a failed edit or an unknown tool is a result that the model must read.
   * A stream without a terminal event is incomplete: watch again, after the last sequence number seen. When the service begins
   * to stop, every stream is told by a heartbeat (`draining`); a call that waits for a person is left to the next run of the
   * service, and its streams end with UNAVAILABLE, reason DRAINING, wherever they stand.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Lists the tools that this agent on this model may use, as a model should be told of them.
     * INVALID_ARGUMENT: unknown agent, bad page token. NOT_FOUND: unknown workspace. May be retried.
     * </pre>
     */
    default void listTools(io.toolgate.v1.ListToolsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ListToolsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListToolsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Starts a call and watches it from its first event to its terminal one.
     * INVALID_ARGUMENT: malformed id, unknown agent, no tool named. NOT_FOUND: unknown workspace or parent call.
     * FAILED_PRECONDITION, reason TASK_ENDED: the parent is a call of `task` that has ended.
     * ALREADY_EXISTS: the id belongs to another request. RESOURCE_EXHAUSTED: the input is too large (do not retry),
     * or too many calls wait for their turn already (retry after the RetryInfo). UNAVAILABLE: the service is stopping. DEADLINE_EXCEEDED: the client's
     * deadline is over, which for the call means a lost client. With a `call_id` of the client's the RPC may be retried
     * after any failure: the same request attaches to the same call.
     * A call is recorded, and listed, once its input is what it stays: when hooks for `tool.execute.before` have seen it,
     * each of which may take 30 seconds. Until then it counts as running; CancelCall and WatchCall find it by its id, and
     * the same request attaches to it.
     * </pre>
     */
    default void executeTool(io.toolgate.v1.ExecuteToolRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ExecuteToolResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getExecuteToolMethod(), responseObserver);
    }

    /**
     * <pre>
     * Executes a tool and returns when it has ended: for scripts and for languages without streams. A failed call is an
     * OK status with `call.failed`.
     * Status codes and retries as ExecuteTool.
     * </pre>
     */
    default void runTool(io.toolgate.v1.RunToolRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.RunToolResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRunToolMethod(), responseObserver);
    }

    /**
     * <pre>
     * Watches a call, running or ended, from any event on. Watching never touches the call. The stream ends with the
     * terminal event; one that begins after it has what was added since (CallMetadata), and ends there.
     * NOT_FOUND: unknown call. INVALID_ARGUMENT: a negative sequence. OUT_OF_RANGE: a sequence above the last one.
     * UNAVAILABLE: the service is stopping, and the call goes on in its next run. May be retried.
     * </pre>
     */
    default void watchCall(io.toolgate.v1.WatchCallRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.WatchCallResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getWatchCallMethod(), responseObserver);
    }

    /**
     * <pre>
     * Returns the record of a call.
     * NOT_FOUND: unknown call, or one that is not recorded yet: see ExecuteTool. May be retried.
     * </pre>
     */
    default void getCall(io.toolgate.v1.GetCallRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.GetCallResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getGetCallMethod(), responseObserver);
    }

    /**
     * <pre>
     * Lists calls, newest first, from the moment on when they are recorded: see ExecuteTool.
     * INVALID_ARGUMENT: bad page token or size. May be retried.
     * </pre>
     */
    default void listCalls(io.toolgate.v1.ListCallsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ListCallsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getListCallsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Asks a call to stop and returns once it has ended. Its programs are gone then. A call that had ended stays as it
     * was, but what it left running in the background is ended.
     * NOT_FOUND: unknown call. FAILED_PRECONDITION: another instance of the service runs it. UNAVAILABLE: the service is
     * stopping and has left the call to its next run. May be retried.
     * </pre>
     */
    default void cancelCall(io.toolgate.v1.CancelCallRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.CancelCallResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getCancelCallMethod(), responseObserver);
    }

    /**
     * <pre>
     * Sends bytes to the standard input of a running call: of the tool `background`, which `bash` starts for a command in
     * the background. They are accepted at any time from the call's admission on, also while a person is still asked about
     * the command, and reach the program in order. Returns when they are accepted, not when they are read. What is sent is
     * neither recorded nor asked for: whoever approves a program that reads commands approves what is sent to it.
     * INVALID_ARGUMENT: malformed id, a negative offset, more than 1 MiB of data. NOT_FOUND: unknown call.
     * FAILED_PRECONDITION, with a reason in ErrorInfo: the call's tool reads no input (NO_INPUT), the call has ended
     * (CALL_ENDED), the input was closed by a client or by the program (INPUT_CLOSED), another instance of the service runs
     * the call (OTHER_INSTANCE). OUT_OF_RANGE: bytes before `offset` are missing; `next_offset` in the metadata of ErrorInfo
     * says where to go on. RESOURCE_EXHAUSTED: the program does not read, and more than 1 MiB would wait for it; nothing of
     * the message was accepted, send it again after the RetryInfo.
     * May be retried after any failure: what was accepted before is skipped. A client that does not know how much was
     * accepted sends all from any offset at or before that, or asks with an empty message at offset 0.
     * </pre>
     */
    default void sendInput(io.toolgate.v1.SendInputRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.SendInputResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getSendInputMethod(), responseObserver);
    }

    /**
     * <pre>
     * Takes back what an ended call did to files: every file gets the content, the mode and the existence that it had
     * before that call, all files or none. Works without git. Only what tools recorded is restored (Call.changes); files
     * that a command changed stay as they are.
     * The revert is itself a call, of the tool `revert`: it asks for the permissions `edit` and `external_directory` as
     * the rules of the context's agent say, is watched, cancelled and listed like any other, and can be reverted as well.
     * It ends with `failed` and TOOL_ERROR, every file as it was, if the call has not ended, belongs to another workspace
     * or recorded no change, if its contents are not kept any more, or if someone else has written to a file since (with
     * `merge`: on the same lines or beside them). Files that are already as they were before the call are left alone.
     * NOT_FOUND: unknown call, or its retention has ended; unknown workspace or parent call. INVALID_ARGUMENT: malformed
     * id, unknown agent. ALREADY_EXISTS: `revert_call_id` belongs to another request. RESOURCE_EXHAUSTED, UNAVAILABLE,
     * DEADLINE_EXCEEDED: as ExecuteTool. With a `revert_call_id` of the client's the RPC may be retried after any failure:
     * the same request attaches to the same call.
     * </pre>
     */
    default void revertCall(io.toolgate.v1.RevertCallRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.RevertCallResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getRevertCallMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service ToolService.
   * <pre>
   * Lists tools, executes them, and lets any number of clients watch.
   * Two layers of errors are never mixed. A gRPC status, with `google.rpc` details (ErrorInfo of domain `toolgate`), says
   * that the RPC failed or that the call was never admitted. Once a call exists, its end is a terminal event: a denied
   * permission, a failed edit or an unknown tool is a result that the model must read.
   * A stream without a terminal event is incomplete: watch again, after the last sequence number seen. When the service begins
   * to stop, every stream is told by a heartbeat (`draining`); a call that waits for a person is left to the next run of the
   * service, and its streams end with UNAVAILABLE, reason DRAINING, wherever they stand.
   * </pre>
   */
  public static abstract class ToolServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return ToolServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service ToolService.
   * <pre>
   * Lists tools, executes them, and lets any number of clients watch.
   * Two layers of errors are never mixed. A gRPC status, with `google.rpc` details (ErrorInfo of domain `toolgate`), says
   * that the RPC failed or that the call was never admitted. Once a call exists, its end is a terminal event: a denied
   * permission, a failed edit or an unknown tool is a result that the model must read.
   * A stream without a terminal event is incomplete: watch again, after the last sequence number seen. When the service begins
   * to stop, every stream is told by a heartbeat (`draining`); a call that waits for a person is left to the next run of the
   * service, and its streams end with UNAVAILABLE, reason DRAINING, wherever they stand.
   * </pre>
   */
  public static final class ToolServiceStub
      extends io.grpc.stub.AbstractAsyncStub<ToolServiceStub> {
    private ToolServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ToolServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ToolServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the tools that this agent on this model may use, as a model should be told of them.
     * INVALID_ARGUMENT: unknown agent, bad page token. NOT_FOUND: unknown workspace. May be retried.
     * </pre>
     */
    public void listTools(io.toolgate.v1.ListToolsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ListToolsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListToolsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Starts a call and watches it from its first event to its terminal one.
     * INVALID_ARGUMENT: malformed id, unknown agent, no tool named. NOT_FOUND: unknown workspace or parent call.
     * FAILED_PRECONDITION, reason TASK_ENDED: the parent is a call of `task` that has ended.
     * ALREADY_EXISTS: the id belongs to another request. RESOURCE_EXHAUSTED: the input is too large (do not retry),
     * or too many calls wait for their turn already (retry after the RetryInfo). UNAVAILABLE: the service is stopping. DEADLINE_EXCEEDED: the client's
     * deadline is over, which for the call means a lost client. With a `call_id` of the client's the RPC may be retried
     * after any failure: the same request attaches to the same call.
     * A call is recorded, and listed, once its input is what it stays: when hooks for `tool.execute.before` have seen it,
     * each of which may take 30 seconds. Until then it counts as running; CancelCall and WatchCall find it by its id, and
     * the same request attaches to it.
     * </pre>
     */
    public void executeTool(io.toolgate.v1.ExecuteToolRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ExecuteToolResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getExecuteToolMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Executes a tool and returns when it has ended: for scripts and for languages without streams. A failed call is an
     * OK status with `call.failed`.
     * Status codes and retries as ExecuteTool.
     * </pre>
     */
    public void runTool(io.toolgate.v1.RunToolRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.RunToolResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getRunToolMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Watches a call, running or ended, from any event on. Watching never touches the call. The stream ends with the
     * terminal event; one that begins after it has what was added since (CallMetadata), and ends there.
     * NOT_FOUND: unknown call. INVALID_ARGUMENT: a negative sequence. OUT_OF_RANGE: a sequence above the last one.
     * UNAVAILABLE: the service is stopping, and the call goes on in its next run. May be retried.
     * </pre>
     */
    public void watchCall(io.toolgate.v1.WatchCallRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.WatchCallResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getWatchCallMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Returns the record of a call.
     * NOT_FOUND: unknown call, or one that is not recorded yet: see ExecuteTool. May be retried.
     * </pre>
     */
    public void getCall(io.toolgate.v1.GetCallRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.GetCallResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getGetCallMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Lists calls, newest first, from the moment on when they are recorded: see ExecuteTool.
     * INVALID_ARGUMENT: bad page token or size. May be retried.
     * </pre>
     */
    public void listCalls(io.toolgate.v1.ListCallsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ListCallsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getListCallsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Asks a call to stop and returns once it has ended. Its programs are gone then. A call that had ended stays as it
     * was, but what it left running in the background is ended.
     * NOT_FOUND: unknown call. FAILED_PRECONDITION: another instance of the service runs it. UNAVAILABLE: the service is
     * stopping and has left the call to its next run. May be retried.
     * </pre>
     */
    public void cancelCall(io.toolgate.v1.CancelCallRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.CancelCallResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getCancelCallMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Sends bytes to the standard input of a running call: of the tool `background`, which `bash` starts for a command in
     * the background. They are accepted at any time from the call's admission on, also while a person is still asked about
     * the command, and reach the program in order. Returns when they are accepted, not when they are read. What is sent is
     * neither recorded nor asked for: whoever approves a program that reads commands approves what is sent to it.
     * INVALID_ARGUMENT: malformed id, a negative offset, more than 1 MiB of data. NOT_FOUND: unknown call.
     * FAILED_PRECONDITION, with a reason in ErrorInfo: the call's tool reads no input (NO_INPUT), the call has ended
     * (CALL_ENDED), the input was closed by a client or by the program (INPUT_CLOSED), another instance of the service runs
     * the call (OTHER_INSTANCE). OUT_OF_RANGE: bytes before `offset` are missing; `next_offset` in the metadata of ErrorInfo
     * says where to go on. RESOURCE_EXHAUSTED: the program does not read, and more than 1 MiB would wait for it; nothing of
     * the message was accepted, send it again after the RetryInfo.
     * May be retried after any failure: what was accepted before is skipped. A client that does not know how much was
     * accepted sends all from any offset at or before that, or asks with an empty message at offset 0.
     * </pre>
     */
    public void sendInput(io.toolgate.v1.SendInputRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.SendInputResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getSendInputMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Takes back what an ended call did to files: every file gets the content, the mode and the existence that it had
     * before that call, all files or none. Works without git. Only what tools recorded is restored (Call.changes); files
     * that a command changed stay as they are.
     * The revert is itself a call, of the tool `revert`: it asks for the permissions `edit` and `external_directory` as
     * the rules of the context's agent say, is watched, cancelled and listed like any other, and can be reverted as well.
     * It ends with `failed` and TOOL_ERROR, every file as it was, if the call has not ended, belongs to another workspace
     * or recorded no change, if its contents are not kept any more, or if someone else has written to a file since (with
     * `merge`: on the same lines or beside them). Files that are already as they were before the call are left alone.
     * NOT_FOUND: unknown call, or its retention has ended; unknown workspace or parent call. INVALID_ARGUMENT: malformed
     * id, unknown agent. ALREADY_EXISTS: `revert_call_id` belongs to another request. RESOURCE_EXHAUSTED, UNAVAILABLE,
     * DEADLINE_EXCEEDED: as ExecuteTool. With a `revert_call_id` of the client's the RPC may be retried after any failure:
     * the same request attaches to the same call.
     * </pre>
     */
    public void revertCall(io.toolgate.v1.RevertCallRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.RevertCallResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getRevertCallMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service ToolService.
   * <pre>
   * Lists tools, executes them, and lets any number of clients watch.
   * Two layers of errors are never mixed. A gRPC status, with `google.rpc` details (ErrorInfo of domain `toolgate`), says
   * that the RPC failed or that the call was never admitted. Once a call exists, its end is a terminal event: a denied
   * permission, a failed edit or an unknown tool is a result that the model must read.
   * A stream without a terminal event is incomplete: watch again, after the last sequence number seen. When the service begins
   * to stop, every stream is told by a heartbeat (`draining`); a call that waits for a person is left to the next run of the
   * service, and its streams end with UNAVAILABLE, reason DRAINING, wherever they stand.
   * </pre>
   */
  public static final class ToolServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<ToolServiceBlockingV2Stub> {
    private ToolServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ToolServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ToolServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the tools that this agent on this model may use, as a model should be told of them.
     * INVALID_ARGUMENT: unknown agent, bad page token. NOT_FOUND: unknown workspace. May be retried.
     * </pre>
     */
    public io.toolgate.v1.ListToolsResponse listTools(io.toolgate.v1.ListToolsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListToolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Starts a call and watches it from its first event to its terminal one.
     * INVALID_ARGUMENT: malformed id, unknown agent, no tool named. NOT_FOUND: unknown workspace or parent call.
     * FAILED_PRECONDITION, reason TASK_ENDED: the parent is a call of `task` that has ended.
     * ALREADY_EXISTS: the id belongs to another request. RESOURCE_EXHAUSTED: the input is too large (do not retry),
     * or too many calls wait for their turn already (retry after the RetryInfo). UNAVAILABLE: the service is stopping. DEADLINE_EXCEEDED: the client's
     * deadline is over, which for the call means a lost client. With a `call_id` of the client's the RPC may be retried
     * after any failure: the same request attaches to the same call.
     * A call is recorded, and listed, once its input is what it stays: when hooks for `tool.execute.before` have seen it,
     * each of which may take 30 seconds. Until then it counts as running; CancelCall and WatchCall find it by its id, and
     * the same request attaches to it.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.toolgate.v1.ExecuteToolResponse>
        executeTool(io.toolgate.v1.ExecuteToolRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getExecuteToolMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Executes a tool and returns when it has ended: for scripts and for languages without streams. A failed call is an
     * OK status with `call.failed`.
     * Status codes and retries as ExecuteTool.
     * </pre>
     */
    public io.toolgate.v1.RunToolResponse runTool(io.toolgate.v1.RunToolRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getRunToolMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Watches a call, running or ended, from any event on. Watching never touches the call. The stream ends with the
     * terminal event; one that begins after it has what was added since (CallMetadata), and ends there.
     * NOT_FOUND: unknown call. INVALID_ARGUMENT: a negative sequence. OUT_OF_RANGE: a sequence above the last one.
     * UNAVAILABLE: the service is stopping, and the call goes on in its next run. May be retried.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.toolgate.v1.WatchCallResponse>
        watchCall(io.toolgate.v1.WatchCallRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getWatchCallMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns the record of a call.
     * NOT_FOUND: unknown call, or one that is not recorded yet: see ExecuteTool. May be retried.
     * </pre>
     */
    public io.toolgate.v1.GetCallResponse getCall(io.toolgate.v1.GetCallRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getGetCallMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists calls, newest first, from the moment on when they are recorded: see ExecuteTool.
     * INVALID_ARGUMENT: bad page token or size. May be retried.
     * </pre>
     */
    public io.toolgate.v1.ListCallsResponse listCalls(io.toolgate.v1.ListCallsRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getListCallsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Asks a call to stop and returns once it has ended. Its programs are gone then. A call that had ended stays as it
     * was, but what it left running in the background is ended.
     * NOT_FOUND: unknown call. FAILED_PRECONDITION: another instance of the service runs it. UNAVAILABLE: the service is
     * stopping and has left the call to its next run. May be retried.
     * </pre>
     */
    public io.toolgate.v1.CancelCallResponse cancelCall(io.toolgate.v1.CancelCallRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getCancelCallMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Sends bytes to the standard input of a running call: of the tool `background`, which `bash` starts for a command in
     * the background. They are accepted at any time from the call's admission on, also while a person is still asked about
     * the command, and reach the program in order. Returns when they are accepted, not when they are read. What is sent is
     * neither recorded nor asked for: whoever approves a program that reads commands approves what is sent to it.
     * INVALID_ARGUMENT: malformed id, a negative offset, more than 1 MiB of data. NOT_FOUND: unknown call.
     * FAILED_PRECONDITION, with a reason in ErrorInfo: the call's tool reads no input (NO_INPUT), the call has ended
     * (CALL_ENDED), the input was closed by a client or by the program (INPUT_CLOSED), another instance of the service runs
     * the call (OTHER_INSTANCE). OUT_OF_RANGE: bytes before `offset` are missing; `next_offset` in the metadata of ErrorInfo
     * says where to go on. RESOURCE_EXHAUSTED: the program does not read, and more than 1 MiB would wait for it; nothing of
     * the message was accepted, send it again after the RetryInfo.
     * May be retried after any failure: what was accepted before is skipped. A client that does not know how much was
     * accepted sends all from any offset at or before that, or asks with an empty message at offset 0.
     * </pre>
     */
    public io.toolgate.v1.SendInputResponse sendInput(io.toolgate.v1.SendInputRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getSendInputMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Takes back what an ended call did to files: every file gets the content, the mode and the existence that it had
     * before that call, all files or none. Works without git. Only what tools recorded is restored (Call.changes); files
     * that a command changed stay as they are.
     * The revert is itself a call, of the tool `revert`: it asks for the permissions `edit` and `external_directory` as
     * the rules of the context's agent say, is watched, cancelled and listed like any other, and can be reverted as well.
     * It ends with `failed` and TOOL_ERROR, every file as it was, if the call has not ended, belongs to another workspace
     * or recorded no change, if its contents are not kept any more, or if someone else has written to a file since (with
     * `merge`: on the same lines or beside them). Files that are already as they were before the call are left alone.
     * NOT_FOUND: unknown call, or its retention has ended; unknown workspace or parent call. INVALID_ARGUMENT: malformed
     * id, unknown agent. ALREADY_EXISTS: `revert_call_id` belongs to another request. RESOURCE_EXHAUSTED, UNAVAILABLE,
     * DEADLINE_EXCEEDED: as ExecuteTool. With a `revert_call_id` of the client's the RPC may be retried after any failure:
     * the same request attaches to the same call.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.toolgate.v1.RevertCallResponse>
        revertCall(io.toolgate.v1.RevertCallRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getRevertCallMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service ToolService.
   * <pre>
   * Lists tools, executes them, and lets any number of clients watch.
   * Two layers of errors are never mixed. A gRPC status, with `google.rpc` details (ErrorInfo of domain `toolgate`), says
   * that the RPC failed or that the call was never admitted. Once a call exists, its end is a terminal event: a denied
   * permission, a failed edit or an unknown tool is a result that the model must read.
   * A stream without a terminal event is incomplete: watch again, after the last sequence number seen. When the service begins
   * to stop, every stream is told by a heartbeat (`draining`); a call that waits for a person is left to the next run of the
   * service, and its streams end with UNAVAILABLE, reason DRAINING, wherever they stand.
   * </pre>
   */
  public static final class ToolServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<ToolServiceBlockingStub> {
    private ToolServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ToolServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ToolServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the tools that this agent on this model may use, as a model should be told of them.
     * INVALID_ARGUMENT: unknown agent, bad page token. NOT_FOUND: unknown workspace. May be retried.
     * </pre>
     */
    public io.toolgate.v1.ListToolsResponse listTools(io.toolgate.v1.ListToolsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListToolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Starts a call and watches it from its first event to its terminal one.
     * INVALID_ARGUMENT: malformed id, unknown agent, no tool named. NOT_FOUND: unknown workspace or parent call.
     * FAILED_PRECONDITION, reason TASK_ENDED: the parent is a call of `task` that has ended.
     * ALREADY_EXISTS: the id belongs to another request. RESOURCE_EXHAUSTED: the input is too large (do not retry),
     * or too many calls wait for their turn already (retry after the RetryInfo). UNAVAILABLE: the service is stopping. DEADLINE_EXCEEDED: the client's
     * deadline is over, which for the call means a lost client. With a `call_id` of the client's the RPC may be retried
     * after any failure: the same request attaches to the same call.
     * A call is recorded, and listed, once its input is what it stays: when hooks for `tool.execute.before` have seen it,
     * each of which may take 30 seconds. Until then it counts as running; CancelCall and WatchCall find it by its id, and
     * the same request attaches to it.
     * </pre>
     */
    public java.util.Iterator<io.toolgate.v1.ExecuteToolResponse> executeTool(
        io.toolgate.v1.ExecuteToolRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getExecuteToolMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Executes a tool and returns when it has ended: for scripts and for languages without streams. A failed call is an
     * OK status with `call.failed`.
     * Status codes and retries as ExecuteTool.
     * </pre>
     */
    public io.toolgate.v1.RunToolResponse runTool(io.toolgate.v1.RunToolRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getRunToolMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Watches a call, running or ended, from any event on. Watching never touches the call. The stream ends with the
     * terminal event; one that begins after it has what was added since (CallMetadata), and ends there.
     * NOT_FOUND: unknown call. INVALID_ARGUMENT: a negative sequence. OUT_OF_RANGE: a sequence above the last one.
     * UNAVAILABLE: the service is stopping, and the call goes on in its next run. May be retried.
     * </pre>
     */
    public java.util.Iterator<io.toolgate.v1.WatchCallResponse> watchCall(
        io.toolgate.v1.WatchCallRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getWatchCallMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Returns the record of a call.
     * NOT_FOUND: unknown call, or one that is not recorded yet: see ExecuteTool. May be retried.
     * </pre>
     */
    public io.toolgate.v1.GetCallResponse getCall(io.toolgate.v1.GetCallRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getGetCallMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Lists calls, newest first, from the moment on when they are recorded: see ExecuteTool.
     * INVALID_ARGUMENT: bad page token or size. May be retried.
     * </pre>
     */
    public io.toolgate.v1.ListCallsResponse listCalls(io.toolgate.v1.ListCallsRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getListCallsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Asks a call to stop and returns once it has ended. Its programs are gone then. A call that had ended stays as it
     * was, but what it left running in the background is ended.
     * NOT_FOUND: unknown call. FAILED_PRECONDITION: another instance of the service runs it. UNAVAILABLE: the service is
     * stopping and has left the call to its next run. May be retried.
     * </pre>
     */
    public io.toolgate.v1.CancelCallResponse cancelCall(io.toolgate.v1.CancelCallRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getCancelCallMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Sends bytes to the standard input of a running call: of the tool `background`, which `bash` starts for a command in
     * the background. They are accepted at any time from the call's admission on, also while a person is still asked about
     * the command, and reach the program in order. Returns when they are accepted, not when they are read. What is sent is
     * neither recorded nor asked for: whoever approves a program that reads commands approves what is sent to it.
     * INVALID_ARGUMENT: malformed id, a negative offset, more than 1 MiB of data. NOT_FOUND: unknown call.
     * FAILED_PRECONDITION, with a reason in ErrorInfo: the call's tool reads no input (NO_INPUT), the call has ended
     * (CALL_ENDED), the input was closed by a client or by the program (INPUT_CLOSED), another instance of the service runs
     * the call (OTHER_INSTANCE). OUT_OF_RANGE: bytes before `offset` are missing; `next_offset` in the metadata of ErrorInfo
     * says where to go on. RESOURCE_EXHAUSTED: the program does not read, and more than 1 MiB would wait for it; nothing of
     * the message was accepted, send it again after the RetryInfo.
     * May be retried after any failure: what was accepted before is skipped. A client that does not know how much was
     * accepted sends all from any offset at or before that, or asks with an empty message at offset 0.
     * </pre>
     */
    public io.toolgate.v1.SendInputResponse sendInput(io.toolgate.v1.SendInputRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getSendInputMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Takes back what an ended call did to files: every file gets the content, the mode and the existence that it had
     * before that call, all files or none. Works without git. Only what tools recorded is restored (Call.changes); files
     * that a command changed stay as they are.
     * The revert is itself a call, of the tool `revert`: it asks for the permissions `edit` and `external_directory` as
     * the rules of the context's agent say, is watched, cancelled and listed like any other, and can be reverted as well.
     * It ends with `failed` and TOOL_ERROR, every file as it was, if the call has not ended, belongs to another workspace
     * or recorded no change, if its contents are not kept any more, or if someone else has written to a file since (with
     * `merge`: on the same lines or beside them). Files that are already as they were before the call are left alone.
     * NOT_FOUND: unknown call, or its retention has ended; unknown workspace or parent call. INVALID_ARGUMENT: malformed
     * id, unknown agent. ALREADY_EXISTS: `revert_call_id` belongs to another request. RESOURCE_EXHAUSTED, UNAVAILABLE,
     * DEADLINE_EXCEEDED: as ExecuteTool. With a `revert_call_id` of the client's the RPC may be retried after any failure:
     * the same request attaches to the same call.
     * </pre>
     */
    public java.util.Iterator<io.toolgate.v1.RevertCallResponse> revertCall(
        io.toolgate.v1.RevertCallRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getRevertCallMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service ToolService.
   * <pre>
   * Lists tools, executes them, and lets any number of clients watch.
   * Two layers of errors are never mixed. A gRPC status, with `google.rpc` details (ErrorInfo of domain `toolgate`), says
   * that the RPC failed or that the call was never admitted. Once a call exists, its end is a terminal event: a denied
   * permission, a failed edit or an unknown tool is a result that the model must read.
   * A stream without a terminal event is incomplete: watch again, after the last sequence number seen. When the service begins
   * to stop, every stream is told by a heartbeat (`draining`); a call that waits for a person is left to the next run of the
   * service, and its streams end with UNAVAILABLE, reason DRAINING, wherever they stand.
   * </pre>
   */
  public static final class ToolServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<ToolServiceFutureStub> {
    private ToolServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected ToolServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new ToolServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lists the tools that this agent on this model may use, as a model should be told of them.
     * INVALID_ARGUMENT: unknown agent, bad page token. NOT_FOUND: unknown workspace. May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.ListToolsResponse> listTools(
        io.toolgate.v1.ListToolsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListToolsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Executes a tool and returns when it has ended: for scripts and for languages without streams. A failed call is an
     * OK status with `call.failed`.
     * Status codes and retries as ExecuteTool.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.RunToolResponse> runTool(
        io.toolgate.v1.RunToolRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getRunToolMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Returns the record of a call.
     * NOT_FOUND: unknown call, or one that is not recorded yet: see ExecuteTool. May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.GetCallResponse> getCall(
        io.toolgate.v1.GetCallRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getGetCallMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Lists calls, newest first, from the moment on when they are recorded: see ExecuteTool.
     * INVALID_ARGUMENT: bad page token or size. May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.ListCallsResponse> listCalls(
        io.toolgate.v1.ListCallsRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getListCallsMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Asks a call to stop and returns once it has ended. Its programs are gone then. A call that had ended stays as it
     * was, but what it left running in the background is ended.
     * NOT_FOUND: unknown call. FAILED_PRECONDITION: another instance of the service runs it. UNAVAILABLE: the service is
     * stopping and has left the call to its next run. May be retried.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.CancelCallResponse> cancelCall(
        io.toolgate.v1.CancelCallRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getCancelCallMethod(), getCallOptions()), request);
    }

    /**
     * <pre>
     * Sends bytes to the standard input of a running call: of the tool `background`, which `bash` starts for a command in
     * the background. They are accepted at any time from the call's admission on, also while a person is still asked about
     * the command, and reach the program in order. Returns when they are accepted, not when they are read. What is sent is
     * neither recorded nor asked for: whoever approves a program that reads commands approves what is sent to it.
     * INVALID_ARGUMENT: malformed id, a negative offset, more than 1 MiB of data. NOT_FOUND: unknown call.
     * FAILED_PRECONDITION, with a reason in ErrorInfo: the call's tool reads no input (NO_INPUT), the call has ended
     * (CALL_ENDED), the input was closed by a client or by the program (INPUT_CLOSED), another instance of the service runs
     * the call (OTHER_INSTANCE). OUT_OF_RANGE: bytes before `offset` are missing; `next_offset` in the metadata of ErrorInfo
     * says where to go on. RESOURCE_EXHAUSTED: the program does not read, and more than 1 MiB would wait for it; nothing of
     * the message was accepted, send it again after the RetryInfo.
     * May be retried after any failure: what was accepted before is skipped. A client that does not know how much was
     * accepted sends all from any offset at or before that, or asks with an empty message at offset 0.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.SendInputResponse> sendInput(
        io.toolgate.v1.SendInputRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getSendInputMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_LIST_TOOLS = 0;
  private static final int METHODID_EXECUTE_TOOL = 1;
  private static final int METHODID_RUN_TOOL = 2;
  private static final int METHODID_WATCH_CALL = 3;
  private static final int METHODID_GET_CALL = 4;
  private static final int METHODID_LIST_CALLS = 5;
  private static final int METHODID_CANCEL_CALL = 6;
  private static final int METHODID_SEND_INPUT = 7;
  private static final int METHODID_REVERT_CALL = 8;

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
        case METHODID_LIST_TOOLS:
          serviceImpl.listTools((io.toolgate.v1.ListToolsRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.ListToolsResponse>) responseObserver);
          break;
        case METHODID_EXECUTE_TOOL:
          serviceImpl.executeTool((io.toolgate.v1.ExecuteToolRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.ExecuteToolResponse>) responseObserver);
          break;
        case METHODID_RUN_TOOL:
          serviceImpl.runTool((io.toolgate.v1.RunToolRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.RunToolResponse>) responseObserver);
          break;
        case METHODID_WATCH_CALL:
          serviceImpl.watchCall((io.toolgate.v1.WatchCallRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.WatchCallResponse>) responseObserver);
          break;
        case METHODID_GET_CALL:
          serviceImpl.getCall((io.toolgate.v1.GetCallRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.GetCallResponse>) responseObserver);
          break;
        case METHODID_LIST_CALLS:
          serviceImpl.listCalls((io.toolgate.v1.ListCallsRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.ListCallsResponse>) responseObserver);
          break;
        case METHODID_CANCEL_CALL:
          serviceImpl.cancelCall((io.toolgate.v1.CancelCallRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.CancelCallResponse>) responseObserver);
          break;
        case METHODID_SEND_INPUT:
          serviceImpl.sendInput((io.toolgate.v1.SendInputRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.SendInputResponse>) responseObserver);
          break;
        case METHODID_REVERT_CALL:
          serviceImpl.revertCall((io.toolgate.v1.RevertCallRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.RevertCallResponse>) responseObserver);
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
          getListToolsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.ListToolsRequest,
              io.toolgate.v1.ListToolsResponse>(
                service, METHODID_LIST_TOOLS)))
        .addMethod(
          getExecuteToolMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.toolgate.v1.ExecuteToolRequest,
              io.toolgate.v1.ExecuteToolResponse>(
                service, METHODID_EXECUTE_TOOL)))
        .addMethod(
          getRunToolMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.RunToolRequest,
              io.toolgate.v1.RunToolResponse>(
                service, METHODID_RUN_TOOL)))
        .addMethod(
          getWatchCallMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.toolgate.v1.WatchCallRequest,
              io.toolgate.v1.WatchCallResponse>(
                service, METHODID_WATCH_CALL)))
        .addMethod(
          getGetCallMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.GetCallRequest,
              io.toolgate.v1.GetCallResponse>(
                service, METHODID_GET_CALL)))
        .addMethod(
          getListCallsMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.ListCallsRequest,
              io.toolgate.v1.ListCallsResponse>(
                service, METHODID_LIST_CALLS)))
        .addMethod(
          getCancelCallMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.CancelCallRequest,
              io.toolgate.v1.CancelCallResponse>(
                service, METHODID_CANCEL_CALL)))
        .addMethod(
          getSendInputMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.SendInputRequest,
              io.toolgate.v1.SendInputResponse>(
                service, METHODID_SEND_INPUT)))
        .addMethod(
          getRevertCallMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.toolgate.v1.RevertCallRequest,
              io.toolgate.v1.RevertCallResponse>(
                service, METHODID_REVERT_CALL)))
        .build();
  }

  private static abstract class ToolServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    ToolServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.toolgate.v1.ToolServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("ToolService");
    }
  }

  private static final class ToolServiceFileDescriptorSupplier
      extends ToolServiceBaseDescriptorSupplier {
    ToolServiceFileDescriptorSupplier() {}
  }

  private static final class ToolServiceMethodDescriptorSupplier
      extends ToolServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    ToolServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (ToolServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new ToolServiceFileDescriptorSupplier())
              .addMethod(getListToolsMethod())
              .addMethod(getExecuteToolMethod())
              .addMethod(getRunToolMethod())
              .addMethod(getWatchCallMethod())
              .addMethod(getGetCallMethod())
              .addMethod(getListCallsMethod())
              .addMethod(getCancelCallMethod())
              .addMethod(getSendInputMethod())
              .addMethod(getRevertCallMethod())
              .build();
        }
      }
    }
    return result;
  }
}
