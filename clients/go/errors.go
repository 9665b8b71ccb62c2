package toolgate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var (
	// ErrClosed is behind the errors of a client that was closed.
	ErrClosed = errors.New("toolgate: the client is closed")
	// ErrPromptEnded is the cause of the context of a [PromptHandler] whose prompt was settled elsewhere.
	ErrPromptEnded = errors.New("toolgate: the prompt has ended otherwise")
	// ErrInvocationCancelled is the cause of the context of a lent function whose call was cancelled.
	ErrInvocationCancelled = errors.New("toolgate: the invocation was cancelled")
	// ErrDigest is behind the error of [Output.Save] when what arrived is not what the service stored.
	ErrDigest = errors.New("toolgate: the digest is not that of the output")
	// ErrCursorTooOld is behind the error of [Files.Watch] when what happened since the cursor is not known any more: list
	// the folder, and watch it without a cursor.
	ErrCursorTooOld = errors.New("toolgate: the cursor is too old")

	errStalled = status.Error(codes.Unavailable, "nothing was heard for three heartbeats")
)

// Error is a failed RPC: the request was refused, or the service could not be reached. errors.Is finds the end of the
// caller's context behind it, where that was the cause.
type Error struct {
	// Code is the status of gRPC.
	Code codes.Code
	// Reason is the stable word of the service for it, or empty.
	Reason string
	// Metadata is what the service adds to the reason.
	Metadata map[string]string
	// RetryAfter is how long the service asks to wait before the next try, or 0.
	RetryAfter time.Duration
	// Message is the text for people.
	Message string

	status *status.Status
	cause  error
}

// Error describes the failure, and what to do about it.
func (e *Error) Error() string {
	var text strings.Builder
	text.WriteString("toolgate: ")
	text.WriteString(e.CodeName())
	if e.Reason != "" {
		fmt.Fprintf(&text, " (%s)", e.Reason)
	}
	if e.Message != "" {
		text.WriteString(": " + e.Message)
	}
	if hint := e.hint(); hint != "" {
		text.WriteString("; " + hint)
	}
	return text.String()
}

// CodeName returns the code as the contract writes it, for instance NOT_FOUND.
func (e *Error) CodeName() string { return codeName(e.Code) }

// Unwrap returns the cause, if it is known.
func (e *Error) Unwrap() error { return e.cause }

// GRPCStatus makes the functions of gRPC's status package understand the error.
func (e *Error) GRPCStatus() *status.Status {
	if e.status != nil {
		return e.status
	}
	return status.New(e.Code, e.Message)
}

func (e *Error) hint() string {
	switch e.Code {
	case codes.Unauthenticated:
		return "show a token that the service accepts: WithToken, WithTokenSource or TOOLGATE_TOKEN"
	case codes.PermissionDenied:
		if scope := e.Metadata["scope"]; scope != "" {
			return "use a token with the scope " + scope
		}
	case codes.Unavailable:
		if e.Reason == "" {
			return "check that the service runs and that the address is right"
		}
	case codes.ResourceExhausted:
		if e.RetryAfter > 0 {
			return fmt.Sprintf("try again in %v", e.RetryAfter)
		}
	}
	return ""
}

// codeName writes a code as the contract does, for instance NOT_FOUND.
func codeName(code codes.Code) string {
	var name strings.Builder
	for i, char := range code.String() {
		if i > 0 && char >= 'A' && char <= 'Z' && code != codes.OK {
			name.WriteByte('_')
		}
		name.WriteRune(char)
	}
	if code == codes.Canceled {
		return "CANCELLED"
	}
	return strings.ToUpper(name.String())
}

// toError makes an Error of whatever an RPC gave. ctx is the RPC's own: if it has ended, that is the cause.
func toError(ctx context.Context, err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if ctx.Err() != nil {
		cause := context.Cause(ctx)
		if errors.As(cause, &known) {
			return known
		}
		if errors.Is(cause, errStalled) {
			return fromStatus(errStalled)
		}
		ended := fromStatus(status.FromContextError(ctx.Err()).Err())
		ended.cause = cause
		return ended
	}
	if errors.Is(err, io.EOF) {
		return &Error{Code: codes.Unavailable, Message: "the stream ended too early"}
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		ended := fromStatus(status.FromContextError(err).Err())
		ended.cause = err
		return ended
	}
	return fromStatus(err)
}

func fromStatus(err error) *Error {
	state := status.Convert(err)
	failure := &Error{Code: state.Code(), Message: state.Message(), status: state}
	for _, detail := range state.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			failure.Reason, failure.Metadata = detail.GetReason(), detail.GetMetadata()
		case *errdetails.RetryInfo:
			failure.RetryAfter = detail.GetRetryDelay().AsDuration()
		}
	}
	if failure.Reason == "CURSOR_TOO_OLD" {
		failure.cause = ErrCursorTooOld
	}
	return failure
}

// invalid is a request that is not worth sending.
func invalid(format string, arguments ...any) *Error {
	return &Error{Code: codes.InvalidArgument, Message: fmt.Sprintf(format, arguments...)}
}

// passes says whether a failure may go away by itself: the connection, or a service that is busy or starting.
func (e *Error) passes() bool {
	switch e.Code {
	case codes.Unavailable, codes.Aborted:
		return true
	case codes.ResourceExhausted:
		return e.RetryAfter > 0
	case codes.Internal, codes.Unknown, codes.Canceled:
		// Proxies and transports break streams with these; the service itself always gives a reason.
		return e.Reason == "" && e.cause == nil
	}
	return false
}
