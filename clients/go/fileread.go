package toolgate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"iter"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc/codes"
)

// FileContent is a file, or a range of it, that was read.
type FileContent struct {
	// FileInfo is the file. Its SHA256 is that of Data, if that is the whole file: what [IfSHA256] takes.
	*FileInfo
	// Data is what was read.
	Data []byte
}

// FileReader reads a file. It must be closed, and is not for concurrent use.
type FileReader struct {
	pieceReader
	info *FileInfo
}

// Info returns the file as it was when it was opened, without its SHA-256.
func (r *FileReader) Info() *FileInfo { return r.info }

// Read reads a file, whatever it holds: all of it, or a range of [Bytes]. If somebody writes to the file meanwhile, the
// error has the reason FILE_CHANGED.
func (f *Files) Read(ctx context.Context, path string, part Range) (*FileContent, error) {
	reader, err := f.Open(ctx, path, part)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	data, err := io.ReadAll(reader)
	if err != nil {
		return nil, err
	}
	if part == (Range{}) {
		sum := sha256.Sum256(data)
		reader.info.SHA256 = hex.EncodeToString(sum[:])
	}
	return &FileContent{reader.info, data}, nil
}

// Open opens a file for reading, as [Files.Read] does, for files that are large. After a lost connection reading goes on
// where it was, if the file is as it was: otherwise, and if somebody has written to it when all is read, the error has the
// reason FILE_CHANGED.
func (f *Files) Open(ctx context.Context, path string, part Range) (*FileReader, error) {
	if part.kind != byteRange {
		return nil, invalid("files are read by bytes, not by lines")
	}
	named, err := f.client.context(f.options)
	if err != nil {
		return nil, err
	}
	reader := &FileReader{}
	request := &toolgatev1.ReadFileRequest{Context: named, Path: path}
	reader.next, reader.stop = iter.Pull2(f.pieces(ctx, request, part, &reader.info))
	// The first piece says what the file is, and has no bytes.
	if _, err, _ := reader.next(); err != nil {
		reader.stop()
		return nil, err
	}
	return reader, nil
}

// pieces reads a file over as many streams as that takes. Its first piece is empty, and comes when info is set.
func (f *Files) pieces(
	ctx context.Context, request *toolgatev1.ReadFileRequest, part Range, info **FileInfo,
) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		bound, end := f.client.bind(ctx)
		defer end(nil)
		patience := f.client.patience(f.client.config.retryTimeout)
		reached := part.first
		for {
			request.Range = &toolgatev1.ByteRange{Offset: reached}
			if part.limit > 0 {
				request.Range.Limit = part.first + part.limit - reached
				if request.Range.Limit == 0 {
					// All bytes are here, but not yet whether the file has stayed as it was.
					request.Range.Offset = (*info).Bytes
				}
			}
			var failure *Error
			for message, err := range messages(bound, f.client.config.stall, f.client.files.ReadFile, request) {
				if err != nil {
					failure = err
					break
				}
				patience.limit = f.client.config.reconnectTimeout
				patience.succeeded()
				if file := newFileInfo(message.GetFile()); file != nil {
					if *info != nil && (file.Bytes != (*info).Bytes || !file.Modified.Equal((*info).Modified)) {
						yield(nil, &Error{
							Code: codes.Aborted, Reason: "FILE_CHANGED", Message: "somebody has written to the file while it was read",
						})
						return
					}
					if *info == nil {
						*info = file
						if !yield(nil, nil) {
							return
						}
					}
				}
				data := message.GetData()
				reached += int64(len(data))
				if len(data) > 0 && !yield(data, nil) {
					return
				}
			}
			if failure == nil {
				return
			}
			// What is ABORTED is another file by now: what was read is of no use.
			if bound.Err() != nil || !failure.passes() || failure.Code == codes.Aborted {
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
