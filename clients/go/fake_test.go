package toolgate_test

import (
	"context"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fake is a service whose streams do what a test says.
type fake struct {
	toolgatev1.UnimplementedToolServiceServer
	toolgatev1.UnimplementedPermissionServiceServer
	toolgatev1.UnimplementedHostServiceServer
	toolgatev1.UnimplementedOutputServiceServer

	mutex sync.Mutex
	// The streams to come: each one sends its events and ends with its error.
	streams []script
	// The requests that came, and those to cancel a call.
	started   []*toolgatev1.ExecuteToolRequest
	watched   []int64
	cancelled int
	getCall   func() (*toolgatev1.Call, error)
	listed    int
	channel   func(toolgatev1.PermissionService_ChannelServer) error
	host      func(toolgatev1.HostService_HostServer) error
	output    func(*toolgatev1.ReadOutputRequest, toolgatev1.OutputService_ReadOutputServer) error
	info      *toolgatev1.Output
}

// script is what one stream does.
type script struct {
	events []*toolgatev1.CallEvent
	end    error
	// The stream stays silent until its client gives up.
	silent bool
}

func (f *fake) start(t *testing.T, options ...toolgate.Option) *toolgate.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	check(t, err)
	server := grpc.NewServer()
	toolgatev1.RegisterToolServiceServer(server, f)
	toolgatev1.RegisterPermissionServiceServer(server, f)
	toolgatev1.RegisterHostServiceServer(server, f)
	toolgatev1.RegisterOutputServiceServer(server, f)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	options = append([]toolgate.Option{toolgate.WithTestTimes(10 * time.Second)}, options...)
	client, err := toolgate.NewClient("unix:"+socket, options...)
	check(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (f *fake) next() script {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if len(f.streams) == 0 {
		return script{end: status.Error(codes.FailedPrecondition, "the script is over")}
	}
	next := f.streams[0]
	f.streams = f.streams[1:]
	return next
}

func (s script) play(ctx context.Context, send func(*toolgatev1.CallEvent) error) error {
	for _, event := range s.events {
		if err := send(event); err != nil {
			return err
		}
	}
	if s.silent {
		<-ctx.Done()
	}
	return s.end
}

func (f *fake) ExecuteTool(request *toolgatev1.ExecuteToolRequest, stream toolgatev1.ToolService_ExecuteToolServer) error {
	f.mutex.Lock()
	f.started = append(f.started, request)
	f.mutex.Unlock()
	return f.next().play(stream.Context(), func(event *toolgatev1.CallEvent) error {
		return stream.Send(&toolgatev1.ExecuteToolResponse{Event: event})
	})
}

func (f *fake) WatchCall(request *toolgatev1.WatchCallRequest, stream toolgatev1.ToolService_WatchCallServer) error {
	f.mutex.Lock()
	f.watched = append(f.watched, request.GetAfterSequence())
	f.mutex.Unlock()
	return f.next().play(stream.Context(), func(event *toolgatev1.CallEvent) error {
		return stream.Send(&toolgatev1.WatchCallResponse{Event: event})
	})
}

func (f *fake) CancelCall(context.Context, *toolgatev1.CancelCallRequest) (*toolgatev1.CancelCallResponse, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.cancelled++
	return &toolgatev1.CancelCallResponse{}, nil
}

func (f *fake) GetCall(context.Context, *toolgatev1.GetCallRequest) (*toolgatev1.GetCallResponse, error) {
	if f.getCall == nil {
		return &toolgatev1.GetCallResponse{Call: &toolgatev1.Call{}}, nil
	}
	call, err := f.getCall()
	return &toolgatev1.GetCallResponse{Call: call}, err
}

func (f *fake) ListTools(context.Context, *toolgatev1.ListToolsRequest) (*toolgatev1.ListToolsResponse, error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.listed++; f.listed < 3 {
		return nil, status.Error(codes.Unavailable, "starting")
	}
	return &toolgatev1.ListToolsResponse{Tools: []*toolgatev1.ToolDefinition{{Name: "read"}}}, nil
}

func (f *fake) Channel(stream toolgatev1.PermissionService_ChannelServer) error {
	return f.channel(stream)
}

func (f *fake) Host(stream toolgatev1.HostService_HostServer) error { return f.host(stream) }

func (f *fake) ReadOutput(request *toolgatev1.ReadOutputRequest, stream toolgatev1.OutputService_ReadOutputServer) error {
	return f.output(request, stream)
}

func (f *fake) GetOutput(context.Context, *toolgatev1.GetOutputRequest) (*toolgatev1.GetOutputResponse, error) {
	return &toolgatev1.GetOutputResponse{Output: f.info}, nil
}
