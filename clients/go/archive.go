package toolgate

import (
	"context"
	"fmt"
	"io"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// ArchiveFilter says what an archive is made of.
type ArchiveFilter struct {
	// Path is the folder; empty for the workspace's. The names in the archive are relative to it.
	Path string
	// IncludeIgnored puts in what ignore rules name, and `.git`, as well.
	IncludeIgnored bool
}

// Archive is what is said of an archive at its end.
type Archive struct {
	// Entries is how many it has.
	Entries int64
	// Omitted are paths that were left out, at most 1000: what a person would have to be asked about, what is neither file,
	// folder nor link, and what went meanwhile.
	Omitted []string
}

// DownloadArchive writes a folder as a tar archive, not compressed. What was written counts only if there is no error.
// After a lost connection it begins again, unless something was written already.
func (f *Files) DownloadArchive(ctx context.Context, target io.Writer, filter ArchiveFilter) (*Archive, error) {
	named, err := f.client.context(f.options)
	if err != nil {
		return nil, err
	}
	request := &toolgatev1.DownloadArchiveRequest{Context: named, Path: filter.Path, IncludeIgnored: filter.IncludeIgnored}
	bound, end := f.client.bind(ctx)
	defer end(nil)
	patience := f.client.patience(f.client.config.retryTimeout)
	for written := false; ; {
		failure := toError(bound, io.EOF)
		for message, err := range messages(bound, f.client.config.stall, f.client.files.DownloadArchive, request) {
			if err != nil {
				failure = err
				break
			}
			if end := message.GetEnd(); end != nil {
				return &Archive{end.GetEntries(), end.GetOmittedPaths()}, nil
			}
			written = true
			if _, err := target.Write(message.GetData()); err != nil {
				return nil, fmt.Errorf("toolgate: the archive cannot be written: %w", err)
			}
		}
		if written || !mayPass(failure) {
			return nil, failure
		}
		if err := patience.wait(bound, failure); err != nil {
			return nil, err
		}
	}
}

// UploadArchive writes the files and folders of a tar archive, at most 64 MiB and not compressed, into a folder, which is
// made if it is not there, the workspace's if the path is empty: all of them, or none. See [IfAbsent], and [Files.Upload] for the reader.
func (f *Files) UploadArchive(ctx context.Context, path string, archive io.Reader, options ...CallOption) (*Change, error) {
	change, call, err := f.changeOf(options)
	if err != nil {
		return nil, err
	}
	first := &toolgatev1.UploadArchiveRequest{
		Call: call, Target: &toolgatev1.ArchiveTarget{Path: path, IfAbsent: change.ifAbsent},
	}
	response, err := upload(ctx, f.client, f.client.files.UploadArchive, first, archive, func(data []byte) *toolgatev1.UploadArchiveRequest {
		return &toolgatev1.UploadArchiveRequest{Data: data}
	})
	if err != nil {
		return nil, err
	}
	return &Change{CallID: response.GetCallId()}, nil
}
