package toolgate

import (
	"context"
	"io"
	"iter"
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// Output is a stored output: everything that a call printed.
type Output struct {
	client *Client
	id     string
}

// Output returns the output with this id, which is the one of [Truncation] or [OutputEvent]. It asks nothing yet.
func (c *Client) Output(id string) *Output { return &Output{c, id} }

// ID returns the output's id.
func (o *Output) ID() string { return o.id }

// OutputInfo is what is known of an output.
type OutputInfo struct {
	// ID is the output's id.
	ID string
	// CallID is the call that wrote it.
	CallID string
	// Path is its file on the service's machine.
	Path string
	// Bytes is its size so far.
	Bytes int64
	// Lines is how many lines it has; 0 while it is being written.
	Lines int64
	// SHA256 is its digest in hexadecimal digits; empty while it is being written.
	SHA256 string
	// Complete says whether its writer is done.
	Complete bool
	// Created is when it was begun; Expires when it may be deleted.
	Created, Expires time.Time

	message *toolgatev1.Output
}

// Proto returns the message of the contract.
func (i *OutputInfo) Proto() *toolgatev1.Output { return i.message }

func newOutputInfo(message *toolgatev1.Output) *OutputInfo {
	return &OutputInfo{
		ID: message.GetOutputId(), CallID: message.GetCallId(), Path: message.GetPath(), Bytes: message.GetTotalBytes(),
		Lines: message.GetTotalLines(), SHA256: message.GetSha256(), Complete: message.GetComplete(),
		Created: timeOf(message.GetCreateTime()), Expires: timeOf(message.GetExpireTime()), message: message,
	}
}

// Info returns what is known of the output.
func (o *Output) Info(ctx context.Context) (*OutputInfo, error) {
	response, err := o.client.outputs.GetOutput(ctx, &toolgatev1.GetOutputRequest{OutputId: o.id})
	if err != nil {
		return nil, err
	}
	return newOutputInfo(response.GetOutput()), nil
}

// Delete deletes the output.
func (o *Output) Delete(ctx context.Context) error {
	_, err := o.client.outputs.DeleteOutput(ctx, &toolgatev1.DeleteOutputRequest{OutputId: o.id})
	return err
}

// OutputFilter says which outputs to list. What is set must all match.
type OutputFilter struct {
	// Workspace is the workspace: empty for that of the call, or else for the service's default one; "-" for all.
	Workspace string
	// SessionID and CallID are whose outputs are listed; empty for all.
	SessionID, CallID string
	// PageSize is how many are fetched at once; 0 for 50.
	PageSize int
}

// Outputs lists outputs, newest first.
func (c *Client) Outputs(ctx context.Context, filter OutputFilter) iter.Seq2[*OutputInfo, error] {
	return pages(func(token string) ([]*OutputInfo, string, error) {
		response, err := c.outputs.ListOutputs(ctx, &toolgatev1.ListOutputsRequest{
			Workspace: filter.Workspace, SessionId: filter.SessionID, CallId: filter.CallID,
			PageSize: int32(filter.PageSize), PageToken: token,
		})
		return each(response.GetOutputs(), newOutputInfo), response.GetNextPageToken(), err
	})
}

// Search says what to look for in an output.
type Search struct {
	// Pattern is a regular expression in Rust's syntax, matched against each line.
	Pattern string
	// Before and After are how many lines to show around each match, at most 20 each.
	Before, After int
	// Limit is how many matching lines are returned at most; 0 for 100.
	Limit int
}

// Found is what a search found.
type Found struct {
	// Lines are the matching lines and their context, in order.
	Lines []OutputLine
	// Matches is how many lines matched, up to the limit.
	Matches int
	// Truncated says that there are more.
	Truncated bool

	message *toolgatev1.SearchOutputResponse
}

// Proto returns the message of the contract.
func (f *Found) Proto() *toolgatev1.SearchOutputResponse { return f.message }

// OutputLine is one line of an output.
type OutputLine struct {
	// Number counts from 1.
	Number int64
	// Offset is where its first byte is.
	Offset int64
	// Text is its text without the line ending.
	Text string
	// Match says whether it matches; otherwise it is context.
	Match bool
}

// Search searches the output line by line.
func (o *Output) Search(ctx context.Context, search Search) (*Found, error) {
	response, err := o.client.outputs.SearchOutput(ctx, &toolgatev1.SearchOutputRequest{
		OutputId: o.id, Pattern: search.Pattern, BeforeContext: int32(search.Before), AfterContext: int32(search.After),
		MaxMatches: int32(search.Limit),
	})
	if err != nil {
		return nil, err
	}
	return &Found{
		Lines: each(response.GetLines(), func(line *toolgatev1.OutputLine) OutputLine {
			return OutputLine{line.GetLine(), line.GetOffset(), line.GetText(), line.GetIsMatch()}
		}),
		Matches: int(response.GetMatches()), Truncated: response.GetTruncated(), message: response,
	}, nil
}

// Range is a part of an output or of a file; the zero value is all of it.
type Range struct {
	kind         rangeKind
	first, limit int64
}

type rangeKind int

const (
	byteRange rangeKind = iota
	lineRange
	tailRange
)

// Bytes is at most limit bytes from offset on; 0 for all that follow.
func Bytes(offset, limit int64) Range { return Range{byteRange, offset, limit} }

// Lines is at most limit lines from the first one on, which counts from 1; 0 for all that follow.
func Lines(first, limit int64) Range { return Range{lineRange, first, limit} }

// Tail is the last lines.
func Tail(lines int64) Range { return Range{tailRange, 0, lines} }

// request asks for what is left of the range when everything before reached has been read; reached is -1 before that.
func (r Range) request(id string, reached int64) *toolgatev1.ReadOutputRequest {
	request := &toolgatev1.ReadOutputRequest{OutputId: id}
	rest := &toolgatev1.ByteRange{Offset: r.first, Limit: r.limit}
	switch {
	case r.kind == lineRange && (reached < 0 || r.limit > 0):
		// What is known of its lines again is skipped as it comes.
		request.Range = &toolgatev1.ReadOutputRequest_Lines{
			Lines: &toolgatev1.LineRange{FirstLine: r.first, Limit: r.limit},
		}
		return request
	case r.kind == tailRange && reached < 0:
		request.Range = &toolgatev1.ReadOutputRequest_Tail{Tail: &toolgatev1.Tail{Lines: r.limit}}
		return request
	case r.kind != byteRange:
		rest = &toolgatev1.ByteRange{Offset: reached}
	case reached >= 0:
		rest.Offset = reached
		if r.limit > 0 {
			rest.Limit = r.first + r.limit - reached
		}
	}
	request.Range = &toolgatev1.ReadOutputRequest_Bytes{Bytes: rest}
	return request
}

// Read returns a part of the output in pieces of at most 64 KiB. After a lost connection it goes on where it was.
func (o *Output) Read(ctx context.Context, part Range) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		bound, end := o.client.bind(ctx)
		defer end(nil)
		patience := o.client.patience(o.client.config.retryTimeout)
		reached := int64(-1)
		for part.kind != byteRange || part.limit == 0 || reached < part.first+part.limit {
			var failure *Error
			for piece, err := range messages(bound, o.client.config.stall, o.client.outputs.ReadOutput, part.request(o.id, reached)) {
				if err != nil {
					failure = err
					break
				}
				patience.limit = o.client.config.reconnectTimeout
				patience.succeeded()
				data := piece.GetData()
				if skip := reached - piece.GetOffset(); reached >= 0 && skip > 0 {
					data = data[min(skip, int64(len(data))):]
				}
				reached = max(reached, piece.GetOffset()+int64(len(piece.GetData())))
				if len(data) > 0 && !yield(data, nil) {
					return
				}
			}
			if failure == nil {
				return
			}
			if bound.Err() != nil || !failure.passes() {
				yield(nil, failure)
				return
			}
			if err := patience.wait(bound, failure); err != nil {
				yield(nil, err)
				return
			}
		}
	}
}

// Open returns a part of the output as a reader. It must be closed, and is not for concurrent use.
func (o *Output) Open(ctx context.Context, part Range) io.ReadCloser {
	next, stop := iter.Pull2(o.Read(ctx, part))
	return &pieceReader{next: next, stop: stop}
}

// pieceReader reads what comes in pieces.
type pieceReader struct {
	next func() ([]byte, error, bool)
	stop func()
	rest []byte
}

func (r *pieceReader) Read(buffer []byte) (int, error) {
	if len(r.rest) == 0 {
		piece, err, ok := r.next()
		if !ok {
			return 0, io.EOF
		}
		if err != nil {
			return 0, err
		}
		r.rest = piece
	}
	count := copy(buffer, r.rest)
	r.rest = r.rest[count:]
	return count, nil
}

func (r *pieceReader) Close() error {
	r.stop()
	return nil
}
