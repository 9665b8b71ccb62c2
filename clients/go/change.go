package toolgate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc"
)

const (
	// maxWrite is the most that is written by one message, well below the largest that a service takes.
	maxWrite = 1 << 20
	// uploadPiece is how many bytes one message of a stream brings.
	uploadPiece = 64 << 10
)

// Change is what a change of files has made.
type Change struct {
	// CallID is the call that made it, for [Client.Get] and [Client.Revert].
	CallID string
	// File is the file or the folder as it is now, with the SHA-256 of a file; nil if it may not be shown, and for changes
	// that leave no single one.
	File *FileInfo
}

// changeConfig is what a change is made with, besides its call.
type changeConfig struct {
	ifSHA256  string
	ifAbsent  bool
	recursive bool
	mode      *uint32
}

// IfSHA256 lets a file be written, moved or deleted only if it has this digest, 64 hexadecimal digits. Otherwise the error
// has the reason CONTENT_DIFFERS.
func IfSHA256(digest string) CallOption {
	return callOption(func(c *callConfig) { c.change.ifSHA256 = digest })
}

// IfAbsent lets a file be written only if nothing is there, and an archive only if none of its files is. Otherwise the
// error has the reason ALREADY_THERE.
func IfAbsent() CallOption {
	return callOption(func(c *callConfig) { c.change.ifAbsent = true })
}

// WithMode sets the permission bits of a file that is written, at most 0777. Without it they stay as they are.
func WithMode(mode fs.FileMode) CallOption {
	bits := uint32(mode)
	return callOption(func(c *callConfig) { c.change.mode = &bits })
}

// WithRecursive lets [Files.Delete] delete a folder, with all that is in it.
func WithRecursive() CallOption {
	return callOption(func(c *callConfig) { c.change.recursive = true })
}

// changeOf says how a change is made.
func (f *Files) changeOf(options []CallOption) (changeConfig, *toolgatev1.CallStart, error) {
	call, message, err := f.client.callStart(f.options, options)
	return call.change, message, err
}

func (c changeConfig) target(path string) *toolgatev1.WriteTarget {
	return &toolgatev1.WriteTarget{Path: path, Mode: c.mode, IfSha256: c.ifSHA256, IfAbsent: c.ifAbsent}
}

// Write writes a file, as a whole or not at all: creates it, with the folders above it, or replaces its content. See
// [IfSHA256], [IfAbsent] and [WithMode]. A file may have at most 64 MiB.
func (f *Files) Write(ctx context.Context, path string, content []byte, options ...CallOption) (*Change, error) {
	if len(content) > maxWrite {
		return f.Upload(ctx, path, bytes.NewReader(content), options...)
	}
	change, call, err := f.changeOf(options)
	if err != nil {
		return nil, err
	}
	response, err := f.client.files.WriteFile(ctx, &toolgatev1.WriteFileRequest{
		Call: call, Target: change.target(path), Content: content,
	})
	if err != nil {
		return nil, err
	}
	return &Change{response.GetCallId(), newFileInfo(response.GetFile())}, nil
}

// Upload is [Files.Write] of what a reader has, to its end. What was read is kept until the service has it all, so that it
// can be sent again. Nothing is written if the reader fails.
func (f *Files) Upload(ctx context.Context, path string, content io.Reader, options ...CallOption) (*Change, error) {
	change, call, err := f.changeOf(options)
	if err != nil {
		return nil, err
	}
	first := &toolgatev1.UploadFileRequest{Call: call, Target: change.target(path)}
	response, err := upload(ctx, f.client, f.client.files.UploadFile, first, content, func(data []byte) *toolgatev1.UploadFileRequest {
		return &toolgatev1.UploadFileRequest{Content: data}
	})
	if err != nil {
		return nil, err
	}
	return &Change{response.GetCallId(), newFileInfo(response.GetFile())}, nil
}

// CreateFolder makes a folder, with those above it. One that is there already is left as it is. [Client.Revert] leaves it,
// too.
func (f *Files) CreateFolder(ctx context.Context, path string, options ...CallOption) (*Change, error) {
	_, call, err := f.changeOf(options)
	if err != nil {
		return nil, err
	}
	response, err := f.client.files.CreateFolder(ctx, &toolgatev1.CreateFolderRequest{Call: call, Path: path})
	if err != nil {
		return nil, err
	}
	return &Change{response.GetCallId(), newFileInfo(response.GetFile())}, nil
}

// Move moves a file, a link, or a folder with all that is in it to a path where nothing is. See [IfSHA256].
func (f *Files) Move(ctx context.Context, path, newPath string, options ...CallOption) (*Change, error) {
	change, call, err := f.changeOf(options)
	if err != nil {
		return nil, err
	}
	response, err := f.client.files.MoveFile(ctx, &toolgatev1.MoveFileRequest{
		Call: call, Path: path, NewPath: newPath, IfSha256: change.ifSHA256,
	})
	if err != nil {
		return nil, err
	}
	return &Change{CallID: response.GetCallId()}, nil
}

// Delete deletes a file or a link, or with [WithRecursive] a folder. See [IfSHA256].
func (f *Files) Delete(ctx context.Context, path string, options ...CallOption) (*Change, error) {
	change, call, err := f.changeOf(options)
	if err != nil {
		return nil, err
	}
	response, err := f.client.files.DeleteFile(ctx, &toolgatev1.DeleteFileRequest{
		Call: call, Path: path, Recursive: change.recursive, IfSha256: change.ifSHA256,
	})
	if err != nil {
		return nil, err
	}
	return &Change{CallID: response.GetCallId()}, nil
}

// upload sends a content behind a first message, over as many streams as that takes. Only the last one counts, and the
// call's id keeps what it does from being done twice.
func upload[Request, Response any](
	ctx context.Context, c *Client,
	open func(context.Context, ...grpc.CallOption) (grpc.ClientStreamingClient[Request, Response], error),
	first *Request, content io.Reader, piece func(data []byte) *Request,
) (*Response, error) {
	bound, end := c.bind(ctx)
	defer end(nil)
	patience := c.patience(c.config.retryTimeout)
	var sent bytes.Buffer
	rest := io.TeeReader(content, &sent)
	for {
		// Cancelling ends a stream whose content could not be read.
		own, cancel := context.WithCancel(bound)
		response, err := uploadOnce(own, open, first, io.MultiReader(bytes.NewReader(sent.Bytes()), rest), piece)
		cancel()
		var unread *contentError
		if err == nil || errors.As(err, &unread) {
			return response, err
		}
		failure := toError(bound, err)
		if !mayPass(failure) {
			return nil, failure
		}
		if err := patience.wait(bound, failure); err != nil {
			return nil, err
		}
	}
}

// contentError is a failure of the caller's reader.
type contentError struct{ cause error }

func (e *contentError) Error() string {
	return fmt.Sprintf("toolgate: the content cannot be read: %v", e.cause)
}

func (e *contentError) Unwrap() error { return e.cause }

func uploadOnce[Request, Response any](
	ctx context.Context, open func(context.Context, ...grpc.CallOption) (grpc.ClientStreamingClient[Request, Response], error),
	first *Request, content io.Reader, piece func(data []byte) *Request,
) (*Response, error) {
	stream, err := open(ctx)
	if err != nil {
		return nil, err
	}
	// What cannot be sent says why when the answer is received.
	for err = stream.Send(first); err == nil; {
		data := make([]byte, uploadPiece)
		count, failed := content.Read(data)
		if count > 0 {
			err = stream.Send(piece(data[:count]))
		}
		if errors.Is(failed, io.EOF) {
			break
		}
		if failed != nil {
			return nil, &contentError{failed}
		}
	}
	return stream.CloseAndRecv()
}
