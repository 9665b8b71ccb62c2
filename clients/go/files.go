package toolgate

import (
	"context"
	"io/fs"
	"iter"
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// maxDepth is how deep the service looks into a tree.
const maxDepth = 64

// Files shows and changes the files of a workspace, in somebody's name. Paths are relative to the workspace's folder, or
// absolute and inside it.
//
// Looking asks nobody: what a person would have to be asked about is refused, with the reason PERMISSION_NEEDED. Each change
// is a call of the tool `files`, which asks like any other: see [WithWait]. What it could not do is an [*Error], with the
// call's id as `call_id` in its Metadata. After a lost connection a change is sent again and made once, by its id, which
// the library makes unless [WithCallID] does.
type Files struct {
	client  *Client
	options []ContextOption
}

// Files returns the files of a workspace, as the options and those of the client say. It asks nothing yet.
func (c *Client) Files(options ...ContextOption) *Files { return &Files{c, options} }

// FileInfo is a file, a folder, or what else stands in one.
type FileInfo struct {
	// Path is its path relative to the workspace's folder, `.` for that folder itself.
	Path string
	// Kind is what it is.
	Kind FileKind
	// Bytes is its size; of what is no file, what the system says.
	Bytes int64
	// Mode has its permission bits.
	Mode fs.FileMode
	// Modified is when its content was last modified.
	Modified time.Time
	// LinkTarget is where a link leads, as it is written in it.
	LinkTarget string
	// SHA256 is the digest of its content in hexadecimal digits, where it was asked for; empty for files of more than 64 MiB.
	SHA256 string
	// Lossy says that the name is not UTF-8, so that Path names nothing.
	Lossy bool
	// Unreadable says that it is a folder that the service may not list.
	Unreadable bool

	message *toolgatev1.FileInfo
}

// Proto returns the message of the contract.
func (i *FileInfo) Proto() *toolgatev1.FileInfo { return i.message }

func newFileInfo(message *toolgatev1.FileInfo) *FileInfo {
	if message == nil {
		return nil
	}
	return &FileInfo{
		Path: message.GetPath(), Kind: word[FileKind](fileKindPrefix, message.GetKind()), Bytes: message.GetSizeBytes(),
		Mode: fs.FileMode(message.GetMode()), Modified: timeOf(message.GetModifyTime()),
		LinkTarget: message.GetLinkTarget(), SHA256: message.GetSha256(), Lossy: message.GetPathIsLossy(),
		Unreadable: message.GetUnreadable(), message: message,
	}
}

// Stat says what is at a path; an empty one is the workspace's folder. Of a link it is what that leads to.
func (f *Files) Stat(ctx context.Context, path string) (*FileInfo, error) {
	return f.stat(ctx, path, false)
}

// Digest is [Files.Stat] with the SHA-256 of a file, for which the service reads all of it.
func (f *Files) Digest(ctx context.Context, path string) (*FileInfo, error) {
	return f.stat(ctx, path, true)
}

func (f *Files) stat(ctx context.Context, path string, digest bool) (*FileInfo, error) {
	named, err := f.client.context(f.options)
	if err != nil {
		return nil, err
	}
	request := &toolgatev1.StatFileRequest{Context: named, Path: path, WithSha256: digest}
	response, err := f.client.files.StatFile(ctx, request)
	if err != nil {
		return nil, err
	}
	return newFileInfo(response.GetFile()), nil
}

// FileFilter says which files to list.
type FileFilter struct {
	// Path is the folder; empty for the workspace's.
	Path string
	// Depth is how deep to look: 1, as 0, for what is in the folder itself, 2 for what is in its folders as well; at most 64.
	Depth int
	// Recursive looks as deep as that goes.
	Recursive bool
	// IncludeIgnored lists what ignore rules name, and `.git`, as well.
	IncludeIgnored bool
	// PageSize is how many are fetched at once; 0 for 1000.
	PageSize int
}

// List lists a folder in the order of the paths, a folder before what is in it. What comes or goes meanwhile is listed or
// not. Links are not entered, and what a rule denies to read is left out.
func (f *Files) List(ctx context.Context, filter FileFilter) iter.Seq2[*FileInfo, error] {
	if filter.Recursive {
		filter.Depth = maxDepth
	}
	return pages(func(token string) ([]*FileInfo, string, error) {
		named, err := f.client.context(f.options)
		if err != nil {
			return nil, "", err
		}
		response, err := f.client.files.ListFiles(ctx, &toolgatev1.ListFilesRequest{
			Context: named, Path: filter.Path, Depth: int32(filter.Depth), IncludeIgnored: filter.IncludeIgnored,
			PageSize: int32(filter.PageSize), PageToken: token,
		})
		return each(response.GetFiles(), newFileInfo), response.GetNextPageToken(), err
	})
}
