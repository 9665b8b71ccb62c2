package toolgate

import (
	"context"
	"io"
	"iter"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// WatchFilter says what to watch.
type WatchFilter struct {
	// Path is the folder; empty for the workspace's.
	Path string
	// Cursor is that of the last news of an earlier watch; empty for what happens from now on.
	Cursor string
}

// FileNews is what has happened to the files of a folder.
type FileNews struct {
	// Cursor is where the watch is; a later one goes on behind it.
	Cursor string
	// Began says that nothing is missed from here on: who lists the folder now, and takes in what follows, knows it. It is
	// true for the first news, and no other.
	Began bool
	// Missed says that something may have been missed, or that other files are ignored now: list the folder again.
	Missed bool
	// Partial comes with Began and Missed: there are more folders than can be watched, and what happens in some is not told.
	Partial bool
	// Files are what came or changed, as it is now. An entry may come though nothing of it has changed.
	Files []*FileInfo
	// Gone are the paths that hold nothing any more. With a folder goes all that is in it.
	Gone []string

	message *toolgatev1.WatchFilesResponse
}

// Proto returns the message of the contract.
func (n *FileNews) Proto() *toolgatev1.WatchFilesResponse { return n.message }

// newFileNews makes news of a message; nil if it has none.
func newFileNews(message *toolgatev1.WatchFilesResponse) *FileNews {
	news := &FileNews{Cursor: message.GetCursor(), message: message}
	switch told := message.GetNews().(type) {
	case *toolgatev1.WatchFilesResponse_Watched:
		news.Began, news.Partial = true, told.Watched.GetPartial()
	case *toolgatev1.WatchFilesResponse_Missed:
		news.Missed, news.Partial = true, told.Missed.GetPartial()
	case *toolgatev1.WatchFilesResponse_Changed:
		news.Files, news.Gone = each(told.Changed.GetFiles(), newFileInfo), told.Changed.GetGonePaths()
	default:
		return nil
	}
	return news
}

// Watch tells what comes, changes and goes in a folder and all that is in it, until ctx ends. After a lost connection it
// goes on behind the last cursor. If what happened since a cursor is not known any more, [ErrCursorTooOld] is behind the
// error.
func (f *Files) Watch(ctx context.Context, filter WatchFilter) iter.Seq2[*FileNews, error] {
	return func(yield func(*FileNews, error) bool) {
		named, err := f.client.context(f.options)
		if err != nil {
			yield(nil, err)
			return
		}
		cursor, began, left := filter.Cursor, false, false
		watching, leave := context.WithCancel(ctx)
		defer leave()
		err = f.client.keepOpen(watching, func(ctx context.Context, worked func()) error {
			request := &toolgatev1.WatchFilesRequest{Context: named, Path: filter.Path, Cursor: cursor}
			for message, err := range messages(ctx, f.client.config.stall, f.client.files.WatchFiles, request) {
				if err != nil {
					return err
				}
				worked()
				cursor = message.GetCursor()
				news := newFileNews(message)
				if news == nil || (news.Began && began) {
					continue
				}
				began = true
				if !yield(news, nil) {
					left = true
					leave()
					break
				}
			}
			return io.EOF
		})
		if !left {
			yield(nil, err)
		}
	}
}
