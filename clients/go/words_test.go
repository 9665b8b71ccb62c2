package toolgate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestTargets(t *testing.T) {
	for _, one := range []struct {
		target string
		want   endpoint
		bad    string
	}{
		{"unix:/run/a b%.sock", endpoint{socket: "/run/a b%.sock"}, ""},
		{"unix:///run/s", endpoint{socket: "/run/s"}, ""},
		{"http://127.0.0.1:1", endpoint{address: "127.0.0.1:1"}, ""},
		{"http://[::1]:1/", endpoint{address: "[::1]:1"}, ""},
		{"http://tools", endpoint{address: "tools:50551"}, ""},
		{"https://tools", endpoint{address: "tools:443", tls: true}, ""},
		{"tools:1", endpoint{address: "tools:1", tls: true}, ""},
		{"localhost:1", endpoint{address: "localhost:1"}, ""},
		{"127.0.0.1:1", endpoint{address: "127.0.0.1:1"}, ""},
		{"unix:", endpoint{}, "the path is missing"},
		{"tools", endpoint{}, "write unix:/PATH"},
		{"ftp://tools", endpoint{}, "the scheme"},
		{"http://", endpoint{}, "the host is missing"},
		{"http://tools/path", endpoint{}, "nothing but host and port"},
		{"http://user@tools", endpoint{}, "nothing but host and port"},
	} {
		got, err := parseTarget(one.target)
		if one.bad == "" && (err != nil || got != one.want) {
			t.Errorf("%s: %+v, %v", one.target, got, err)
		}
		if one.bad != "" && (err == nil || !strings.Contains(err.Error(), one.bad)) {
			t.Errorf("%s: %v, want %s", one.target, err, one.bad)
		}
	}
}

func TestErrorsCarryWhatTheServiceSays(t *testing.T) {
	state, err := status.New(codes.ResourceExhausted, "too many calls").WithDetails(
		&errdetails.ErrorInfo{Reason: "TOO_MANY_CALLS", Domain: "toolgate", Metadata: map[string]string{"limit": "1"}},
		&errdetails.RetryInfo{RetryDelay: durationpb.New(3 * time.Second)},
	)
	if err != nil {
		t.Fatal(err)
	}
	failure := toError(t.Context(), fmt.Errorf("wrapped: %w", state.Err()))
	want := "toolgate: RESOURCE_EXHAUSTED (TOO_MANY_CALLS): too many calls; try again in 3s"
	if !strings.HasSuffix(failure.Error(), "try again in 3s") || failure.Reason != "TOO_MANY_CALLS" {
		t.Errorf("%v, want %s", failure, want)
	}
	if failure.RetryAfter != 3*time.Second || failure.Metadata["limit"] != "1" || !failure.passes() {
		t.Errorf("%+v", failure)
	}
	if status.Code(failure) != codes.ResourceExhausted {
		t.Errorf("the status is %v", status.Convert(failure))
	}

	cause := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	ended := toError(ctx, status.Error(codes.Canceled, "context canceled"))
	if !errors.Is(ended, cause) || ended.CodeName() != "CANCELLED" || ended.passes() {
		t.Errorf("%+v", ended)
	}
}

func TestInputs(t *testing.T) {
	for _, one := range []struct {
		input any
		want  string
	}{
		{nil, "{}"},
		{`{"a": `, `{"a": `},
		{[]byte("{ }"), "{ }"},
		{json.RawMessage("[1]"), "[1]"},
		{map[string]any{"a": 1}, `{"a":1}`},
		{struct{ A int }{2}, `{"A":2}`},
	} {
		if got, err := inputText(one.input); err != nil || got != one.want {
			t.Errorf("%v: %s, %v", one.input, got, err)
		}
	}
	for _, bad := range []any{"\xff", func() {}} {
		if text, err := inputText(bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%T: %q, %v", bad, text, err)
		}
	}
}

func TestMetadataMayBeWhateverJSONCanSay(t *testing.T) {
	message, err := structOf(map[string]any{"list": []string{"a"}, "one": struct{ A int }{1}, "none": nil})
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(message.AsMap()); got != "map[list:[a] none:<nil> one:map[A:1]]" {
		t.Error(got)
	}
	if _, err := structOf(map[string]any{"bad": func() {}}); err == nil {
		t.Error("a function is no metadata")
	}
}

func TestWaitsGrowAndEnd(t *testing.T) {
	backoff := backoff{first: 100 * time.Millisecond, most: 5 * time.Second}
	for failures, most := range []time.Duration{1: 100, 2: 200, 4: 800, 7: 5000, 1000: 5000} {
		if most == 0 {
			continue
		}
		most *= time.Millisecond
		if wait := backoff.after(failures); wait < most/2 || wait > most {
			t.Errorf("after %d failures %v", failures, wait)
		}
	}
	failure := &Error{Code: codes.Unavailable, RetryAfter: time.Hour}
	patience := patience{backoff: backoff, limit: time.Minute}
	if err := patience.wait(t.Context(), failure); !errors.Is(err, failure) {
		t.Errorf("%v, though the service asks for an hour", err)
	}
}

type node struct {
	Name     string  `json:"name" jsonschema:"enum=a,enum=b"`
	Children []*node `json:"children,omitempty"`
}

func TestSchemasAreMadeOfTags(t *testing.T) {
	type greeting struct {
		Name  string `json:"name" jsonschema_description:"Who is greeted."`
		Times int    `json:"times,omitempty" jsonschema:"default=1" jsonschema_description:"How often."`
	}
	greet := NewTool("greet", "", func(_ context.Context, _ *Invocation, input greeting) (string, error) {
		return strings.Repeat(input.Name, input.Times), nil
	})
	want := `{"properties":{"name":{"type":"string","description":"Who is greeted."},` +
		`"times":{"type":"integer","description":"How often.","default":1}},` +
		`"additionalProperties":false,"type":"object","required":["name"]}`
	if got := string(greet.Schema); greet.Err != nil || got != want {
		t.Errorf("%s\n%s %v", got, want, greet.Err)
	}
	for input, want := range map[string]string{`{"name":"a"}`: "a", `{"name":"a","times":2}`: "aa"} {
		result, err := greet.Run(t.Context(), &Invocation{Input: json.RawMessage(input)})
		if err != nil || result.Output != want {
			t.Errorf("%s: %v, %v", input, result, err)
		}
	}

	tree := NewTool("tree", "", func(context.Context, *Invocation, node) (ToolResult, error) { return ToolResult{}, nil })
	if tree.Err != nil || !json.Valid(tree.Schema) || !strings.Contains(string(tree.Schema), `"type":"object"`) {
		t.Errorf("%s, %v", tree.Schema, tree.Err)
	}
	free := NewTool("free", "", func(context.Context, *Invocation, map[string]any) (string, error) { return "", nil })
	if free.Err != nil {
		t.Error(free.Err)
	}
	type impossible struct{ Done chan int }
	bad := NewTool("bad", "", func(context.Context, *Invocation, impossible) (string, error) { return "", nil })
	if bad.Err == nil {
		t.Errorf("a channel has the schema %s", bad.Schema)
	}
}

func TestAToolWithoutSchemaIsNotLent(t *testing.T) {
	client, err := NewClient("unix:/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	broken := errors.New("broken")
	if err := client.Host(t.Context(), Host{Tools: []Tool{{Name: "bad", Err: broken}}}); !errors.Is(err, broken) {
		t.Error(err)
	}
}

func TestWhatMayBeRepeatedIsRetried(t *testing.T) {
	found := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("toolgate.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for i := range methods.Len() {
				method := methods.Get(i)
				options, _ := method.Options().(*descriptorpb.MethodOptions)
				name := fmt.Sprintf("/%s/%s", method.Parent().FullName(), method.Name())
				level := options.GetIdempotencyLevel()
				if level == descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN || method.IsStreamingServer() {
					continue
				}
				found++
				if !retryable[name] {
					t.Errorf("%s is %v, and not retried", name, level)
				}
			}
		}
		return true
	})
	if found < 15 {
		t.Errorf("%d methods are idempotent", found)
	}
	for _, one := range []struct {
		request any
		want    bool
	}{
		{&toolgatev1.WriteFileRequest{Call: &toolgatev1.CallStart{CallId: "a"}}, true},
		{&toolgatev1.WriteFileRequest{}, false},
		{&toolgatev1.OpenPortRequest{Call: &toolgatev1.CallStart{CallId: "a"}}, true},
		{&toolgatev1.RunToolRequest{}, false},
	} {
		if got := mayRetry("", one.request); got != one.want {
			t.Errorf("%T: %v", one.request, got)
		}
	}
}
