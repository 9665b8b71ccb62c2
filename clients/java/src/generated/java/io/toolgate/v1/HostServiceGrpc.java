package io.toolgate.v1;

import static io.grpc.MethodDescriptor.generateFullMethodName;

/**
 * <pre>
 * Lets a front end, the *host*, lend tools to one workspace, run subagents, and take part in every call by hooks.
 * What is lent is like any other tool to everybody else: listed, validated, asked for, truncated, recorded, cancelled.
 * Before it runs it is asked for under its own name with the pattern `*`; the host may ask for more while it runs.
 * The service tells the host what to do in *invocations*, each with an id; the host answers with *reports* that name that
 * id. Host does all of it in one stream. ServeTools and ReportInvocation do the same for grpcurl, browsers and languages
 * without client streaming.
 * A host whose stream is lost has `grace` (Welcome) to come back with its token: it is then sent again what is still
 * open, with the same ids, and goes on. Otherwise its tools vanish and its open invocations fail. A host that ends its
 * requests on Host, or reports `leave`, is gone at once. A later stream with the same token takes the place of the one
 * before, which ends with ABORTED; what the earlier one says from then on does not end the host.
 * Limits: 256 hosts, 64 of one principal. Per host: 256 tools of at most 256 KiB each and 4 MiB together; 64 KiB of
 * metadata in a progress report, 1 MiB in all that is reported of a call, and 256 KiB in a result; 64 attachments of
 * 16 MiB together; 64 requests for permission in one invocation. A message is bounded by `max_message_bytes`
 * (GetServerInfo); a larger one breaks the stream, and a host must take messages as large.
 * </pre>
 */
@io.grpc.stub.annotations.GrpcGenerated
public final class HostServiceGrpc {

  private HostServiceGrpc() {}

  public static final java.lang.String SERVICE_NAME = "toolgate.v1.HostService";

  // Static method descriptors that strictly reflect the proto.
  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.HostRequest,
      io.toolgate.v1.HostResponse> getHostMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "Host",
      requestType = io.toolgate.v1.HostRequest.class,
      responseType = io.toolgate.v1.HostResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.HostRequest,
      io.toolgate.v1.HostResponse> getHostMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.HostRequest, io.toolgate.v1.HostResponse> getHostMethod;
    if ((getHostMethod = HostServiceGrpc.getHostMethod) == null) {
      synchronized (HostServiceGrpc.class) {
        if ((getHostMethod = HostServiceGrpc.getHostMethod) == null) {
          HostServiceGrpc.getHostMethod = getHostMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.HostRequest, io.toolgate.v1.HostResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.BIDI_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "Host"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.HostRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.HostResponse.getDefaultInstance()))
              .setSchemaDescriptor(new HostServiceMethodDescriptorSupplier("Host"))
              .build();
        }
      }
    }
    return getHostMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.ServeToolsRequest,
      io.toolgate.v1.ServeToolsResponse> getServeToolsMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ServeTools",
      requestType = io.toolgate.v1.ServeToolsRequest.class,
      responseType = io.toolgate.v1.ServeToolsResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.ServeToolsRequest,
      io.toolgate.v1.ServeToolsResponse> getServeToolsMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.ServeToolsRequest, io.toolgate.v1.ServeToolsResponse> getServeToolsMethod;
    if ((getServeToolsMethod = HostServiceGrpc.getServeToolsMethod) == null) {
      synchronized (HostServiceGrpc.class) {
        if ((getServeToolsMethod = HostServiceGrpc.getServeToolsMethod) == null) {
          HostServiceGrpc.getServeToolsMethod = getServeToolsMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.ServeToolsRequest, io.toolgate.v1.ServeToolsResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.SERVER_STREAMING)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ServeTools"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ServeToolsRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ServeToolsResponse.getDefaultInstance()))
              .setSchemaDescriptor(new HostServiceMethodDescriptorSupplier("ServeTools"))
              .build();
        }
      }
    }
    return getServeToolsMethod;
  }

  private static volatile io.grpc.MethodDescriptor<io.toolgate.v1.ReportInvocationRequest,
      io.toolgate.v1.ReportInvocationResponse> getReportInvocationMethod;

  @io.grpc.stub.annotations.RpcMethod(
      fullMethodName = SERVICE_NAME + '/' + "ReportInvocation",
      requestType = io.toolgate.v1.ReportInvocationRequest.class,
      responseType = io.toolgate.v1.ReportInvocationResponse.class,
      methodType = io.grpc.MethodDescriptor.MethodType.UNARY)
  public static io.grpc.MethodDescriptor<io.toolgate.v1.ReportInvocationRequest,
      io.toolgate.v1.ReportInvocationResponse> getReportInvocationMethod() {
    io.grpc.MethodDescriptor<io.toolgate.v1.ReportInvocationRequest, io.toolgate.v1.ReportInvocationResponse> getReportInvocationMethod;
    if ((getReportInvocationMethod = HostServiceGrpc.getReportInvocationMethod) == null) {
      synchronized (HostServiceGrpc.class) {
        if ((getReportInvocationMethod = HostServiceGrpc.getReportInvocationMethod) == null) {
          HostServiceGrpc.getReportInvocationMethod = getReportInvocationMethod =
              io.grpc.MethodDescriptor.<io.toolgate.v1.ReportInvocationRequest, io.toolgate.v1.ReportInvocationResponse>newBuilder()
              .setType(io.grpc.MethodDescriptor.MethodType.UNARY)
              .setFullMethodName(generateFullMethodName(SERVICE_NAME, "ReportInvocation"))
              .setSampledToLocalTracing(true)
              .setRequestMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ReportInvocationRequest.getDefaultInstance()))
              .setResponseMarshaller(io.grpc.protobuf.ProtoUtils.marshaller(
                  io.toolgate.v1.ReportInvocationResponse.getDefaultInstance()))
              .setSchemaDescriptor(new HostServiceMethodDescriptorSupplier("ReportInvocation"))
              .build();
        }
      }
    }
    return getReportInvocationMethod;
  }

  /**
   * Creates a new async stub that supports all call types for the service
   */
  public static HostServiceStub newStub(io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<HostServiceStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<HostServiceStub>() {
        @java.lang.Override
        public HostServiceStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new HostServiceStub(channel, callOptions);
        }
      };
    return HostServiceStub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports all types of calls on the service
   */
  public static HostServiceBlockingV2Stub newBlockingV2Stub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<HostServiceBlockingV2Stub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<HostServiceBlockingV2Stub>() {
        @java.lang.Override
        public HostServiceBlockingV2Stub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new HostServiceBlockingV2Stub(channel, callOptions);
        }
      };
    return HostServiceBlockingV2Stub.newStub(factory, channel);
  }

  /**
   * Creates a new blocking-style stub that supports unary and streaming output calls on the service
   */
  public static HostServiceBlockingStub newBlockingStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<HostServiceBlockingStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<HostServiceBlockingStub>() {
        @java.lang.Override
        public HostServiceBlockingStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new HostServiceBlockingStub(channel, callOptions);
        }
      };
    return HostServiceBlockingStub.newStub(factory, channel);
  }

  /**
   * Creates a new ListenableFuture-style stub that supports unary calls on the service
   */
  public static HostServiceFutureStub newFutureStub(
      io.grpc.Channel channel) {
    io.grpc.stub.AbstractStub.StubFactory<HostServiceFutureStub> factory =
      new io.grpc.stub.AbstractStub.StubFactory<HostServiceFutureStub>() {
        @java.lang.Override
        public HostServiceFutureStub newStub(io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
          return new HostServiceFutureStub(channel, callOptions);
        }
      };
    return HostServiceFutureStub.newStub(factory, channel);
  }

  /**
   * <pre>
   * Lets a front end, the *host*, lend tools to one workspace, run subagents, and take part in every call by hooks.
   * What is lent is like any other tool to everybody else: listed, validated, asked for, truncated, recorded, cancelled.
   * Before it runs it is asked for under its own name with the pattern `*`; the host may ask for more while it runs.
   * The service tells the host what to do in *invocations*, each with an id; the host answers with *reports* that name that
   * id. Host does all of it in one stream. ServeTools and ReportInvocation do the same for grpcurl, browsers and languages
   * without client streaming.
   * A host whose stream is lost has `grace` (Welcome) to come back with its token: it is then sent again what is still
   * open, with the same ids, and goes on. Otherwise its tools vanish and its open invocations fail. A host that ends its
   * requests on Host, or reports `leave`, is gone at once. A later stream with the same token takes the place of the one
   * before, which ends with ABORTED; what the earlier one says from then on does not end the host.
   * Limits: 256 hosts, 64 of one principal. Per host: 256 tools of at most 256 KiB each and 4 MiB together; 64 KiB of
   * metadata in a progress report, 1 MiB in all that is reported of a call, and 256 KiB in a result; 64 attachments of
   * 16 MiB together; 64 requests for permission in one invocation. A message is bounded by `max_message_bytes`
   * (GetServerInfo); a larger one breaks the stream, and a host must take messages as large.
   * </pre>
   */
  public interface AsyncService {

    /**
     * <pre>
     * Lends tools in one stream. The first message is `hello`, the first answer `welcome`. A later `hello` replaces what
     * is lent; calls that were admitted before keep the tool they have. Reports on invocations that are not open, of which
     * some are usual after a cancellation, are ignored and counted (HostHeartbeat).
     * INVALID_ARGUMENT: the first message is not `hello`, or a message is malformed. NOT_FOUND: unknown workspace.
     * RESOURCE_EXHAUSTED: there are too many hosts (retry after the RetryInfo). ABORTED: another stream came with the same
     * token, or a `hello` after `leave`. UNAVAILABLE: the service is stopping. After any other end of the stream, open it
     * again with the token.
     * </pre>
     */
    default io.grpc.stub.StreamObserver<io.toolgate.v1.HostRequest> host(
        io.grpc.stub.StreamObserver<io.toolgate.v1.HostResponse> responseObserver) {
      return io.grpc.stub.ServerCalls.asyncUnimplementedStreamingCall(getHostMethod(), responseObserver);
    }

    /**
     * <pre>
     * The server's half of Host: what is lent is in the request, and reports go to ReportInvocation.
     * INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, ABORTED and UNAVAILABLE as Host.
     * </pre>
     */
    default void serveTools(io.toolgate.v1.ServeToolsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ServeToolsResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getServeToolsMethod(), responseObserver);
    }

    /**
     * <pre>
     * Brings one report of a host that listens by ServeTools or Host. The order of reports is that of their arrival: wait
     * for each answer before the next report on the same invocation.
     * INVALID_ARGUMENT: a malformed report, or one that does not fit the invocation. NOT_FOUND: there is no such host, its
     * grace is over, or it is another principal's. May be retried: a report that ends an invocation counts once.
     * </pre>
     */
    default void reportInvocation(io.toolgate.v1.ReportInvocationRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ReportInvocationResponse> responseObserver) {
      io.grpc.stub.ServerCalls.asyncUnimplementedUnaryCall(getReportInvocationMethod(), responseObserver);
    }
  }

  /**
   * Base class for the server implementation of the service HostService.
   * <pre>
   * Lets a front end, the *host*, lend tools to one workspace, run subagents, and take part in every call by hooks.
   * What is lent is like any other tool to everybody else: listed, validated, asked for, truncated, recorded, cancelled.
   * Before it runs it is asked for under its own name with the pattern `*`; the host may ask for more while it runs.
   * The service tells the host what to do in *invocations*, each with an id; the host answers with *reports* that name that
   * id. Host does all of it in one stream. ServeTools and ReportInvocation do the same for grpcurl, browsers and languages
   * without client streaming.
   * A host whose stream is lost has `grace` (Welcome) to come back with its token: it is then sent again what is still
   * open, with the same ids, and goes on. Otherwise its tools vanish and its open invocations fail. A host that ends its
   * requests on Host, or reports `leave`, is gone at once. A later stream with the same token takes the place of the one
   * before, which ends with ABORTED; what the earlier one says from then on does not end the host.
   * Limits: 256 hosts, 64 of one principal. Per host: 256 tools of at most 256 KiB each and 4 MiB together; 64 KiB of
   * metadata in a progress report, 1 MiB in all that is reported of a call, and 256 KiB in a result; 64 attachments of
   * 16 MiB together; 64 requests for permission in one invocation. A message is bounded by `max_message_bytes`
   * (GetServerInfo); a larger one breaks the stream, and a host must take messages as large.
   * </pre>
   */
  public static abstract class HostServiceImplBase
      implements io.grpc.BindableService, AsyncService {

    @java.lang.Override public final io.grpc.ServerServiceDefinition bindService() {
      return HostServiceGrpc.bindService(this);
    }
  }

  /**
   * A stub to allow clients to do asynchronous rpc calls to service HostService.
   * <pre>
   * Lets a front end, the *host*, lend tools to one workspace, run subagents, and take part in every call by hooks.
   * What is lent is like any other tool to everybody else: listed, validated, asked for, truncated, recorded, cancelled.
   * Before it runs it is asked for under its own name with the pattern `*`; the host may ask for more while it runs.
   * The service tells the host what to do in *invocations*, each with an id; the host answers with *reports* that name that
   * id. Host does all of it in one stream. ServeTools and ReportInvocation do the same for grpcurl, browsers and languages
   * without client streaming.
   * A host whose stream is lost has `grace` (Welcome) to come back with its token: it is then sent again what is still
   * open, with the same ids, and goes on. Otherwise its tools vanish and its open invocations fail. A host that ends its
   * requests on Host, or reports `leave`, is gone at once. A later stream with the same token takes the place of the one
   * before, which ends with ABORTED; what the earlier one says from then on does not end the host.
   * Limits: 256 hosts, 64 of one principal. Per host: 256 tools of at most 256 KiB each and 4 MiB together; 64 KiB of
   * metadata in a progress report, 1 MiB in all that is reported of a call, and 256 KiB in a result; 64 attachments of
   * 16 MiB together; 64 requests for permission in one invocation. A message is bounded by `max_message_bytes`
   * (GetServerInfo); a larger one breaks the stream, and a host must take messages as large.
   * </pre>
   */
  public static final class HostServiceStub
      extends io.grpc.stub.AbstractAsyncStub<HostServiceStub> {
    private HostServiceStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected HostServiceStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new HostServiceStub(channel, callOptions);
    }

    /**
     * <pre>
     * Lends tools in one stream. The first message is `hello`, the first answer `welcome`. A later `hello` replaces what
     * is lent; calls that were admitted before keep the tool they have. Reports on invocations that are not open, of which
     * some are usual after a cancellation, are ignored and counted (HostHeartbeat).
     * INVALID_ARGUMENT: the first message is not `hello`, or a message is malformed. NOT_FOUND: unknown workspace.
     * RESOURCE_EXHAUSTED: there are too many hosts (retry after the RetryInfo). ABORTED: another stream came with the same
     * token, or a `hello` after `leave`. UNAVAILABLE: the service is stopping. After any other end of the stream, open it
     * again with the token.
     * </pre>
     */
    public io.grpc.stub.StreamObserver<io.toolgate.v1.HostRequest> host(
        io.grpc.stub.StreamObserver<io.toolgate.v1.HostResponse> responseObserver) {
      return io.grpc.stub.ClientCalls.asyncBidiStreamingCall(
          getChannel().newCall(getHostMethod(), getCallOptions()), responseObserver);
    }

    /**
     * <pre>
     * The server's half of Host: what is lent is in the request, and reports go to ReportInvocation.
     * INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, ABORTED and UNAVAILABLE as Host.
     * </pre>
     */
    public void serveTools(io.toolgate.v1.ServeToolsRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ServeToolsResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncServerStreamingCall(
          getChannel().newCall(getServeToolsMethod(), getCallOptions()), request, responseObserver);
    }

    /**
     * <pre>
     * Brings one report of a host that listens by ServeTools or Host. The order of reports is that of their arrival: wait
     * for each answer before the next report on the same invocation.
     * INVALID_ARGUMENT: a malformed report, or one that does not fit the invocation. NOT_FOUND: there is no such host, its
     * grace is over, or it is another principal's. May be retried: a report that ends an invocation counts once.
     * </pre>
     */
    public void reportInvocation(io.toolgate.v1.ReportInvocationRequest request,
        io.grpc.stub.StreamObserver<io.toolgate.v1.ReportInvocationResponse> responseObserver) {
      io.grpc.stub.ClientCalls.asyncUnaryCall(
          getChannel().newCall(getReportInvocationMethod(), getCallOptions()), request, responseObserver);
    }
  }

  /**
   * A stub to allow clients to do synchronous rpc calls to service HostService.
   * <pre>
   * Lets a front end, the *host*, lend tools to one workspace, run subagents, and take part in every call by hooks.
   * What is lent is like any other tool to everybody else: listed, validated, asked for, truncated, recorded, cancelled.
   * Before it runs it is asked for under its own name with the pattern `*`; the host may ask for more while it runs.
   * The service tells the host what to do in *invocations*, each with an id; the host answers with *reports* that name that
   * id. Host does all of it in one stream. ServeTools and ReportInvocation do the same for grpcurl, browsers and languages
   * without client streaming.
   * A host whose stream is lost has `grace` (Welcome) to come back with its token: it is then sent again what is still
   * open, with the same ids, and goes on. Otherwise its tools vanish and its open invocations fail. A host that ends its
   * requests on Host, or reports `leave`, is gone at once. A later stream with the same token takes the place of the one
   * before, which ends with ABORTED; what the earlier one says from then on does not end the host.
   * Limits: 256 hosts, 64 of one principal. Per host: 256 tools of at most 256 KiB each and 4 MiB together; 64 KiB of
   * metadata in a progress report, 1 MiB in all that is reported of a call, and 256 KiB in a result; 64 attachments of
   * 16 MiB together; 64 requests for permission in one invocation. A message is bounded by `max_message_bytes`
   * (GetServerInfo); a larger one breaks the stream, and a host must take messages as large.
   * </pre>
   */
  public static final class HostServiceBlockingV2Stub
      extends io.grpc.stub.AbstractBlockingStub<HostServiceBlockingV2Stub> {
    private HostServiceBlockingV2Stub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected HostServiceBlockingV2Stub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new HostServiceBlockingV2Stub(channel, callOptions);
    }

    /**
     * <pre>
     * Lends tools in one stream. The first message is `hello`, the first answer `welcome`. A later `hello` replaces what
     * is lent; calls that were admitted before keep the tool they have. Reports on invocations that are not open, of which
     * some are usual after a cancellation, are ignored and counted (HostHeartbeat).
     * INVALID_ARGUMENT: the first message is not `hello`, or a message is malformed. NOT_FOUND: unknown workspace.
     * RESOURCE_EXHAUSTED: there are too many hosts (retry after the RetryInfo). ABORTED: another stream came with the same
     * token, or a `hello` after `leave`. UNAVAILABLE: the service is stopping. After any other end of the stream, open it
     * again with the token.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<io.toolgate.v1.HostRequest, io.toolgate.v1.HostResponse>
        host() {
      return io.grpc.stub.ClientCalls.blockingBidiStreamingCall(
          getChannel(), getHostMethod(), getCallOptions());
    }

    /**
     * <pre>
     * The server's half of Host: what is lent is in the request, and reports go to ReportInvocation.
     * INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, ABORTED and UNAVAILABLE as Host.
     * </pre>
     */
    @io.grpc.ExperimentalApi("https://github.com/grpc/grpc-java/issues/10918")
    public io.grpc.stub.BlockingClientCall<?, io.toolgate.v1.ServeToolsResponse>
        serveTools(io.toolgate.v1.ServeToolsRequest request) {
      return io.grpc.stub.ClientCalls.blockingV2ServerStreamingCall(
          getChannel(), getServeToolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Brings one report of a host that listens by ServeTools or Host. The order of reports is that of their arrival: wait
     * for each answer before the next report on the same invocation.
     * INVALID_ARGUMENT: a malformed report, or one that does not fit the invocation. NOT_FOUND: there is no such host, its
     * grace is over, or it is another principal's. May be retried: a report that ends an invocation counts once.
     * </pre>
     */
    public io.toolgate.v1.ReportInvocationResponse reportInvocation(io.toolgate.v1.ReportInvocationRequest request) throws io.grpc.StatusException {
      return io.grpc.stub.ClientCalls.blockingV2UnaryCall(
          getChannel(), getReportInvocationMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do limited synchronous rpc calls to service HostService.
   * <pre>
   * Lets a front end, the *host*, lend tools to one workspace, run subagents, and take part in every call by hooks.
   * What is lent is like any other tool to everybody else: listed, validated, asked for, truncated, recorded, cancelled.
   * Before it runs it is asked for under its own name with the pattern `*`; the host may ask for more while it runs.
   * The service tells the host what to do in *invocations*, each with an id; the host answers with *reports* that name that
   * id. Host does all of it in one stream. ServeTools and ReportInvocation do the same for grpcurl, browsers and languages
   * without client streaming.
   * A host whose stream is lost has `grace` (Welcome) to come back with its token: it is then sent again what is still
   * open, with the same ids, and goes on. Otherwise its tools vanish and its open invocations fail. A host that ends its
   * requests on Host, or reports `leave`, is gone at once. A later stream with the same token takes the place of the one
   * before, which ends with ABORTED; what the earlier one says from then on does not end the host.
   * Limits: 256 hosts, 64 of one principal. Per host: 256 tools of at most 256 KiB each and 4 MiB together; 64 KiB of
   * metadata in a progress report, 1 MiB in all that is reported of a call, and 256 KiB in a result; 64 attachments of
   * 16 MiB together; 64 requests for permission in one invocation. A message is bounded by `max_message_bytes`
   * (GetServerInfo); a larger one breaks the stream, and a host must take messages as large.
   * </pre>
   */
  public static final class HostServiceBlockingStub
      extends io.grpc.stub.AbstractBlockingStub<HostServiceBlockingStub> {
    private HostServiceBlockingStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected HostServiceBlockingStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new HostServiceBlockingStub(channel, callOptions);
    }

    /**
     * <pre>
     * The server's half of Host: what is lent is in the request, and reports go to ReportInvocation.
     * INVALID_ARGUMENT, NOT_FOUND, RESOURCE_EXHAUSTED, ABORTED and UNAVAILABLE as Host.
     * </pre>
     */
    public java.util.Iterator<io.toolgate.v1.ServeToolsResponse> serveTools(
        io.toolgate.v1.ServeToolsRequest request) {
      return io.grpc.stub.ClientCalls.blockingServerStreamingCall(
          getChannel(), getServeToolsMethod(), getCallOptions(), request);
    }

    /**
     * <pre>
     * Brings one report of a host that listens by ServeTools or Host. The order of reports is that of their arrival: wait
     * for each answer before the next report on the same invocation.
     * INVALID_ARGUMENT: a malformed report, or one that does not fit the invocation. NOT_FOUND: there is no such host, its
     * grace is over, or it is another principal's. May be retried: a report that ends an invocation counts once.
     * </pre>
     */
    public io.toolgate.v1.ReportInvocationResponse reportInvocation(io.toolgate.v1.ReportInvocationRequest request) {
      return io.grpc.stub.ClientCalls.blockingUnaryCall(
          getChannel(), getReportInvocationMethod(), getCallOptions(), request);
    }
  }

  /**
   * A stub to allow clients to do ListenableFuture-style rpc calls to service HostService.
   * <pre>
   * Lets a front end, the *host*, lend tools to one workspace, run subagents, and take part in every call by hooks.
   * What is lent is like any other tool to everybody else: listed, validated, asked for, truncated, recorded, cancelled.
   * Before it runs it is asked for under its own name with the pattern `*`; the host may ask for more while it runs.
   * The service tells the host what to do in *invocations*, each with an id; the host answers with *reports* that name that
   * id. Host does all of it in one stream. ServeTools and ReportInvocation do the same for grpcurl, browsers and languages
   * without client streaming.
   * A host whose stream is lost has `grace` (Welcome) to come back with its token: it is then sent again what is still
   * open, with the same ids, and goes on. Otherwise its tools vanish and its open invocations fail. A host that ends its
   * requests on Host, or reports `leave`, is gone at once. A later stream with the same token takes the place of the one
   * before, which ends with ABORTED; what the earlier one says from then on does not end the host.
   * Limits: 256 hosts, 64 of one principal. Per host: 256 tools of at most 256 KiB each and 4 MiB together; 64 KiB of
   * metadata in a progress report, 1 MiB in all that is reported of a call, and 256 KiB in a result; 64 attachments of
   * 16 MiB together; 64 requests for permission in one invocation. A message is bounded by `max_message_bytes`
   * (GetServerInfo); a larger one breaks the stream, and a host must take messages as large.
   * </pre>
   */
  public static final class HostServiceFutureStub
      extends io.grpc.stub.AbstractFutureStub<HostServiceFutureStub> {
    private HostServiceFutureStub(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      super(channel, callOptions);
    }

    @java.lang.Override
    protected HostServiceFutureStub build(
        io.grpc.Channel channel, io.grpc.CallOptions callOptions) {
      return new HostServiceFutureStub(channel, callOptions);
    }

    /**
     * <pre>
     * Brings one report of a host that listens by ServeTools or Host. The order of reports is that of their arrival: wait
     * for each answer before the next report on the same invocation.
     * INVALID_ARGUMENT: a malformed report, or one that does not fit the invocation. NOT_FOUND: there is no such host, its
     * grace is over, or it is another principal's. May be retried: a report that ends an invocation counts once.
     * </pre>
     */
    public com.google.common.util.concurrent.ListenableFuture<io.toolgate.v1.ReportInvocationResponse> reportInvocation(
        io.toolgate.v1.ReportInvocationRequest request) {
      return io.grpc.stub.ClientCalls.futureUnaryCall(
          getChannel().newCall(getReportInvocationMethod(), getCallOptions()), request);
    }
  }

  private static final int METHODID_SERVE_TOOLS = 0;
  private static final int METHODID_REPORT_INVOCATION = 1;
  private static final int METHODID_HOST = 2;

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
        case METHODID_SERVE_TOOLS:
          serviceImpl.serveTools((io.toolgate.v1.ServeToolsRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.ServeToolsResponse>) responseObserver);
          break;
        case METHODID_REPORT_INVOCATION:
          serviceImpl.reportInvocation((io.toolgate.v1.ReportInvocationRequest) request,
              (io.grpc.stub.StreamObserver<io.toolgate.v1.ReportInvocationResponse>) responseObserver);
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
        case METHODID_HOST:
          return (io.grpc.stub.StreamObserver<Req>) serviceImpl.host(
              (io.grpc.stub.StreamObserver<io.toolgate.v1.HostResponse>) responseObserver);
        default:
          throw new AssertionError();
      }
    }
  }

  public static final io.grpc.ServerServiceDefinition bindService(AsyncService service) {
    return io.grpc.ServerServiceDefinition.builder(getServiceDescriptor())
        .addMethod(
          getHostMethod(),
          io.grpc.stub.ServerCalls.asyncBidiStreamingCall(
            new MethodHandlers<
              io.toolgate.v1.HostRequest,
              io.toolgate.v1.HostResponse>(
                service, METHODID_HOST)))
        .addMethod(
          getServeToolsMethod(),
          io.grpc.stub.ServerCalls.asyncServerStreamingCall(
            new MethodHandlers<
              io.toolgate.v1.ServeToolsRequest,
              io.toolgate.v1.ServeToolsResponse>(
                service, METHODID_SERVE_TOOLS)))
        .addMethod(
          getReportInvocationMethod(),
          io.grpc.stub.ServerCalls.asyncUnaryCall(
            new MethodHandlers<
              io.toolgate.v1.ReportInvocationRequest,
              io.toolgate.v1.ReportInvocationResponse>(
                service, METHODID_REPORT_INVOCATION)))
        .build();
  }

  private static abstract class HostServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoFileDescriptorSupplier, io.grpc.protobuf.ProtoServiceDescriptorSupplier {
    HostServiceBaseDescriptorSupplier() {}

    @java.lang.Override
    public com.google.protobuf.Descriptors.FileDescriptor getFileDescriptor() {
      return io.toolgate.v1.HostServiceProto.getDescriptor();
    }

    @java.lang.Override
    public com.google.protobuf.Descriptors.ServiceDescriptor getServiceDescriptor() {
      return getFileDescriptor().findServiceByName("HostService");
    }
  }

  private static final class HostServiceFileDescriptorSupplier
      extends HostServiceBaseDescriptorSupplier {
    HostServiceFileDescriptorSupplier() {}
  }

  private static final class HostServiceMethodDescriptorSupplier
      extends HostServiceBaseDescriptorSupplier
      implements io.grpc.protobuf.ProtoMethodDescriptorSupplier {
    private final java.lang.String methodName;

    HostServiceMethodDescriptorSupplier(java.lang.String methodName) {
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
      synchronized (HostServiceGrpc.class) {
        result = serviceDescriptor;
        if (result == null) {
          serviceDescriptor = result = io.grpc.ServiceDescriptor.newBuilder(SERVICE_NAME)
              .setSchemaDescriptor(new HostServiceFileDescriptorSupplier())
              .addMethod(getHostMethod())
              .addMethod(getServeToolsMethod())
              .addMethod(getReportInvocationMethod())
              .build();
        }
      }
    }
    return result;
  }
}
