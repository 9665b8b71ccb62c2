package toolgate_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/toolgate/toolgate/clients/go"
)

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

// paths lists a folder.
func paths(t *testing.T, ctx context.Context, files *toolgate.Files, filter toolgate.FileFilter) string {
	t.Helper()
	var listed []string
	for file, err := range files.List(ctx, filter) {
		check(t, err)
		listed = append(listed, file.Path)
	}
	return strings.Join(listed, " ")
}

func TestFilesAreListedAndRead(t *testing.T) {
	server := startServer(t)
	files, ctx := server.Client().Files(toolgate.WithSession("ses_files")), bounded(t)
	check(t, os.MkdirAll(filepath.Join(server.Workspace(), "src", "deep"), 0o755))
	server.Write("src/deep/a", "content")
	server.Write("src/b", strings.Repeat("0123456789", 20_000))
	server.Write("hidden", "")
	server.Write(".env", "")
	check(t, os.Symlink("b", filepath.Join(server.Workspace(), "src", "link")))

	file, err := files.Stat(ctx, "src/deep/a")
	check(t, err)
	expect(t, "path", file.Path, "src/deep/a")
	expect(t, "kind", file.Kind, toolgate.KindFile)
	expect(t, "size", file.Bytes, 7)
	expect(t, "mode", file.Mode, 0o644)
	expect(t, "time", time.Since(file.Modified) < time.Minute, true)
	expect(t, "digest", file.SHA256, "")
	file, err = files.Digest(ctx, "src/deep/a")
	check(t, err)
	expect(t, "digest", file.SHA256, digest("content"))
	file, err = files.Stat(ctx, "")
	check(t, err)
	expect(t, "kind", file.Kind, toolgate.KindFolder)
	file, err = files.Stat(ctx, "src/link")
	check(t, err)
	expect(t, "link", file.LinkTarget, "b")

	expect(t, "a folder", paths(t, ctx, files, toolgate.FileFilter{Path: "src"}), "src/b src/deep src/link")
	for size := range 4 {
		tree := paths(t, ctx, files, toolgate.FileFilter{Path: "src", Recursive: true, PageSize: size})
		expect(t, "a tree", tree, "src/b src/deep src/deep/a src/link")
	}
	expect(t, "two levels", strings.Contains(paths(t, ctx, files, toolgate.FileFilter{Depth: 2}), "src/deep/a"), false)

	read, err := files.Read(ctx, "src/b", toolgate.Range{})
	check(t, err)
	expect(t, "bytes", read.Bytes, int64(len(read.Data)))
	expect(t, "digest", read.SHA256, digest(strings.Repeat("0123456789", 20_000)))
	read, err = files.Read(ctx, "src/b", toolgate.Bytes(100_003, 4))
	check(t, err)
	expect(t, "range", string(read.Data), "3456")
	expect(t, "digest of a range", read.SHA256, "")
	reader, err := files.Open(ctx, "src/b", toolgate.Bytes(199_995, 0))
	check(t, err)
	expect(t, "size", reader.Info().Bytes, 200_000)
	end, err := io.ReadAll(reader)
	check(t, err)
	expect(t, "end", string(end), "56789")
	check(t, reader.Close())
	// One that is left before its end leaves nothing behind.
	reader, err = files.Open(ctx, "src/b", toolgate.Range{})
	check(t, err)
	check(t, reader.Close())
}

func TestWhatMayNotBeSeenIsRefused(t *testing.T) {
	server := startServer(t)
	client, ctx := server.Client(), bounded(t)
	files := client.Files()
	server.Write("hidden", "")
	server.Write(".env", "")
	for path, reason := range map[string]string{
		"none": "NOT_FOUND", "../elsewhere": "OUTSIDE_WORKSPACE", "hidden": "DENIED_BY_RULE", ".env": "PERMISSION_NEEDED",
	} {
		_, err := files.Stat(ctx, path)
		refused(t, err, reason)
		_, err = files.Read(ctx, path, toolgate.Range{})
		refused(t, err, reason)
	}
	_, err := files.Read(ctx, "", toolgate.Range{})
	refused(t, err, "IS_FOLDER")
	for _, err := range files.List(ctx, toolgate.FileFilter{Path: "opencode.json"}) {
		refused(t, err, "NOT_A_FOLDER")
	}
	for _, err := range files.Watch(ctx, toolgate.WatchFilter{Path: "none"}) {
		refused(t, err, "NOT_FOUND")
	}
	_, err = files.DownloadArchive(ctx, io.Discard, toolgate.ArchiveFilter{Path: "none"})
	refused(t, err, "NOT_FOUND")
	_, err = client.Files(toolgate.WithWorkspace("nowhere")).Stat(ctx, "")
	refused(t, err, "NOT_FOUND")
	_, err = files.Open(ctx, "opencode.json", toolgate.Tail(1))
	expect(t, "lines", err.Error(), "toolgate: INVALID_ARGUMENT: files are read by bytes, not by lines")
}

func TestFilesAreChanged(t *testing.T) {
	server := startServer(t)
	client, ctx := server.Client(), bounded(t)
	files := client.Files()
	written, err := files.Write(ctx, "new/a", []byte("one"), toolgate.WithMode(0o600), toolgate.WithCallID("first"))
	check(t, err)
	expect(t, "call", written.CallID, "first")
	expect(t, "digest", written.File.SHA256, digest("one"))
	expect(t, "mode", written.File.Mode, 0o600)
	again, err := files.Write(ctx, "new/a", []byte("one"), toolgate.WithMode(0o600), toolgate.WithCallID("first"))
	check(t, err)
	expect(t, "the same call", again.CallID, "first")
	_, err = files.Write(ctx, "new/a", []byte("two"), toolgate.WithCallID("first"))
	refused(t, err, "CALL_ID_TAKEN")

	_, err = files.Write(ctx, "new/a", []byte("two"), toolgate.IfAbsent())
	refused(t, err, "ALREADY_THERE")
	_, err = files.Write(ctx, "new/a", []byte("two"), toolgate.IfSHA256(digest("two")))
	refused(t, err, "CONTENT_DIFFERS")
	_, err = files.Write(ctx, "new/a", []byte("two"), toolgate.IfSHA256("two"))
	refused(t, err, "INVALID_FIELD")
	_, err = files.Write(ctx, "new/a", []byte("two"), toolgate.WithMode(os.ModeSetuid|0o755))
	refused(t, err, "INVALID_FIELD")
	_, err = files.Write(ctx, "new/a", []byte("two"), toolgate.IfSHA256(digest("one")))
	check(t, err)

	made, err := files.CreateFolder(ctx, "folder/in")
	check(t, err)
	expect(t, "kind", made.File.Kind, toolgate.KindFolder)
	_, err = files.CreateFolder(ctx, "new/a")
	expect(t, "a file is in the way", err != nil, true)
	_, err = files.Move(ctx, "new/a", "folder/b", toolgate.IfSHA256(digest("one")))
	refused(t, err, "CONTENT_DIFFERS")
	_, err = files.Move(ctx, "new/a", "folder/in")
	refused(t, err, "ALREADY_THERE")
	_, err = files.Move(ctx, "new/a", "folder/b", toolgate.IfSHA256(digest("two")))
	check(t, err)
	_, err = files.Move(ctx, "new/a", "folder/c")
	refused(t, err, "NOT_FOUND")

	_, err = files.Delete(ctx, "folder")
	refused(t, err, "IS_FOLDER")
	_, err = files.Delete(ctx, "folder/b", toolgate.IfSHA256(digest("one")))
	refused(t, err, "CONTENT_DIFFERS")
	_, err = files.Delete(ctx, ".")
	refused(t, err, "WORKSPACE_FOLDER")
	deleted, err := files.Delete(ctx, "folder", toolgate.WithRecursive())
	check(t, err)
	_, err = files.Stat(ctx, "folder")
	refused(t, err, "NOT_FOUND")
	call, err := client.Get(ctx, deleted.CallID)
	check(t, err)
	expect(t, "tool", call.Tool, "files")
	revert, err := client.Revert(ctx, deleted.CallID)
	check(t, err)
	result, err := revert.Result()
	check(t, err)
	check(t, result.Err())
	read, err := files.Read(ctx, "folder/b", toolgate.Range{})
	check(t, err)
	expect(t, "taken back", string(read.Data), "two")
}

func TestAChangeIsAskedFor(t *testing.T) {
	server := startServer(t)
	client, ctx := server.Client(), bounded(t)
	files := client.Files()
	_, err := files.Write(ctx, "denied/a", nil)
	refused(t, err, "DENIED_BY_RULE")
	_, err = files.Write(ctx, "asked/a", nil)
	refused(t, err, "PERMISSION_NEEDED")
	var failure *toolgate.Error
	errors.As(err, &failure)
	call, err := client.Get(ctx, failure.Metadata["call_id"])
	check(t, err)
	expect(t, "reason", call.Result.Reason, toolgate.ReasonPromptExpired)
	_, err = files.Write(ctx, "asked/a", nil, toolgate.WithWait(50*time.Millisecond))
	refused(t, err, "PERMISSION_NEEDED")

	// It waits for an approver who comes later.
	written := make(chan error, 1)
	go func() {
		_, err := files.Write(ctx, "asked/a", []byte("approved"), toolgate.WithWait(0), toolgate.WithCallID("waits"))
		written <- err
	}()
	for call := (*toolgate.Call)(nil); call == nil || call.State != toolgate.StateWaiting; {
		call, _ = client.Get(ctx, "waits")
	}
	answers := make(chan toolgate.Decision, 2)
	inBackground(t, func(ctx context.Context) error {
		return client.Approve(ctx, toolgate.Approver{
			Handle: func(_ context.Context, prompt toolgate.Prompt) (toolgate.Decision, error) {
				expect(t, "permission", prompt.(*toolgate.PermissionPrompt).Permission.Name, "edit")
				return <-answers, nil
			},
		})
	})
	answers <- toolgate.Once()
	check(t, <-written)
	answers <- toolgate.Reject("not now")
	_, err = files.Delete(ctx, "asked/a", toolgate.WithWait(0))
	refused(t, err, "REJECTED")
	expect(t, "message", strings.Contains(err.Error(), "not now"), true)
	read, err := files.Read(ctx, "asked/a", toolgate.Range{})
	check(t, err)
	expect(t, "content", string(read.Data), "approved")
}

func TestAFileIsUploaded(t *testing.T) {
	server := startServer(t)
	files, ctx := server.Client().Files(), bounded(t)
	content := strings.Repeat("0123456789abcdef", 300_000)
	uploaded, err := files.Upload(ctx, "large", iotest.HalfReader(strings.NewReader(content)), toolgate.IfAbsent())
	check(t, err)
	expect(t, "digest", uploaded.File.SHA256, digest(content))
	// What is too large for a message is uploaded, too.
	written, err := files.Write(ctx, "large", []byte(content+content), toolgate.IfSHA256(digest(content)))
	check(t, err)
	expect(t, "digest", written.File.SHA256, digest(content+content))
	_, err = files.Upload(ctx, "large", strings.NewReader(content), toolgate.IfAbsent())
	refused(t, err, "ALREADY_THERE")
	// A reader that fails, be it with an error that looks like an end, leaves the file as it was.
	for _, broken := range []error{errors.New("broken"), io.ErrUnexpectedEOF} {
		half := io.MultiReader(strings.NewReader(content), iotest.ErrReader(broken))
		_, err = files.Upload(ctx, "large", half)
		expect(t, "error", errors.Is(err, broken), true)
	}
	_, err = files.Upload(ctx, "large", io.LimitReader(zeros{}, 65<<20))
	refused(t, err, "FILE_TOO_LARGE")
	file, err := files.Digest(ctx, "large")
	check(t, err)
	expect(t, "digest", file.SHA256, digest(content+content))
	empty, err := files.Upload(ctx, "empty", strings.NewReader(""))
	check(t, err)
	expect(t, "digest", empty.File.SHA256, digest(""))
}

type zeros struct{}

func (zeros) Read(buffer []byte) (int, error) { return len(buffer), nil }

func TestFoldersTravelAsArchives(t *testing.T) {
	server := startServer(t)
	files, ctx := server.Client().Files(), bounded(t)
	large := strings.Repeat("x", 300_000)
	for path, content := range map[string]string{"src/a": "one", "src/in/b": large, "src/.env": "secret"} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(server.Workspace(), path)), 0o755))
		server.Write(path, content)
	}
	var packed bytes.Buffer
	archive, err := files.DownloadArchive(ctx, &packed, toolgate.ArchiveFilter{Path: "src"})
	check(t, err)
	expect(t, "entries", archive.Entries, 3)
	expect(t, "omitted", strings.Join(archive.Omitted, " "), "src/.env")
	var names []string
	for reader := tar.NewReader(bytes.NewReader(packed.Bytes())); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check(t, err)
		names = append(names, header.Name)
	}
	expect(t, "names", strings.Join(names, " "), "a in in/b")

	change, err := files.UploadArchive(ctx, "copy", bytes.NewReader(packed.Bytes()), toolgate.IfAbsent())
	check(t, err)
	expect(t, "call", change.CallID != "", true)
	file, err := files.Digest(ctx, "copy/in/b")
	check(t, err)
	expect(t, "digest", file.SHA256, digest(large))
	_, err = files.UploadArchive(ctx, "copy", bytes.NewReader(packed.Bytes()), toolgate.IfAbsent())
	refused(t, err, "ALREADY_THERE")
	_, err = files.UploadArchive(ctx, "copy", strings.NewReader("no archive"))
	refused(t, err, "BAD_ARCHIVE")
	broken := errors.New("broken")
	_, err = files.UploadArchive(ctx, "other", io.MultiReader(bytes.NewReader(packed.Bytes()), iotest.ErrReader(broken)))
	expect(t, "error", errors.Is(err, broken), true)
	_, err = files.Stat(ctx, "other")
	refused(t, err, "NOT_FOUND")
	_, err = files.DownloadArchive(ctx, failing{broken}, toolgate.ArchiveFilter{})
	expect(t, "error", errors.Is(err, broken), true)
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestFilesAreWatched(t *testing.T) {
	server := startServer(t)
	client, ctx := server.Client(), bounded(t)
	files := client.Files()
	check(t, os.Mkdir(filepath.Join(server.Workspace(), "src"), 0o755))
	cursor := ""
	// told watches until a path is told of, and says what the news of it are.
	told := func(filter toolgate.WatchFilter, path string, change func()) string {
		for news, err := range files.Watch(ctx, filter) {
			check(t, err)
			cursor = news.Cursor
			if news.Began {
				change()
			}
			for _, file := range news.Files {
				if file.Path == path {
					return string(file.Kind)
				}
			}
			for _, gone := range news.Gone {
				if gone == path {
					return "gone"
				}
			}
		}
		return ""
	}
	expect(t, "news", told(toolgate.WatchFilter{Path: "src"}, "src/a", func() { server.Write("src/a", "a") }), "FILE")
	check(t, os.Remove(filepath.Join(server.Workspace(), "src/a")))
	expect(t, "since the cursor", told(toolgate.WatchFilter{Path: "src", Cursor: cursor}, "src/a", func() {}), "gone")
	for _, err := range files.Watch(ctx, toolgate.WatchFilter{Cursor: "nonsense"}) {
		refused(t, err, "INVALID_FIELD")
	}

	// The service that comes back has forgotten what was told.
	var last error
	for news, err := range files.Watch(ctx, toolgate.WatchFilter{}) {
		if last = err; err == nil && news.Began {
			server.Kill()
			server.Start()
		}
	}
	expect(t, "too old", errors.Is(last, toolgate.ErrCursorTooOld), true)
	refused(t, last, "CURSOR_TOO_OLD")

	ending, end := context.WithCancel(ctx)
	defer end()
	for _, err := range files.Watch(ending, toolgate.WatchFilter{}) {
		end()
		last = err
	}
	expect(t, "end", errors.Is(last, context.Canceled), true)

	closing := server.Client()
	for _, err := range closing.Files().Watch(ctx, toolgate.WatchFilter{}) {
		if last = err; err == nil {
			check(t, closing.Close())
		}
	}
	expect(t, "end", errors.Is(last, toolgate.ErrClosed), true)
}
