package toolgate_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// breaking is a client whose connection breaks once in each RPC, after so many messages of the service: an answer is lost
// then, and what was asked for is done. Each RPC that was broken is told.
func (s *server) breaking(after int, broken func(method string)) *toolgate.Client {
	var mutex sync.Mutex
	known := map[string]bool{}
	isFirst := func(method string) bool {
		mutex.Lock()
		defer mutex.Unlock()
		first := !known[method]
		known[method] = true
		return first
	}
	unary := func(ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		err := invoke(ctx, method, request, response, conn, options...)
		if err == nil && isFirst(method) {
			broken(method)
			return errBroken
		}
		return err
	}
	streams := func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, options ...grpc.CallOption) (grpc.ClientStream, error) {
		stream, err := open(ctx, desc, conn, method, options...)
		if err == nil && isFirst(method) {
			return &breakingStream{stream, after, func() { broken(method) }}, nil
		}
		return stream, err
	}
	return s.Client(toolgate.WithTestTimes(10*time.Second), toolgate.WithDialOptions(
		grpc.WithChainUnaryInterceptor(unary), grpc.WithChainStreamInterceptor(streams),
	))
}

type breakingStream struct {
	grpc.ClientStream
	left   int
	broken func()
}

func (s *breakingStream) RecvMsg(message any) error {
	if s.left == 0 {
		if err := s.ClientStream.RecvMsg(message); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		s.broken()
		return errBroken
	}
	s.left--
	return s.ClientStream.RecvMsg(message)
}

func TestAChangeIsMadeOnceThoughItsAnswerIsLost(t *testing.T) {
	server := startServer(t)
	broken := 0
	client, ctx := server.breaking(0, func(string) { broken++ }), bounded(t)
	files := client.Files()
	var archive bytes.Buffer
	_, err := files.Upload(ctx, "up/loaded", strings.NewReader(strings.Repeat("uploaded", 30_000)), toolgate.IfAbsent())
	check(t, err)
	_, err = files.DownloadArchive(ctx, &archive, toolgate.ArchiveFilter{Path: "up"})
	check(t, err)
	for i, change := range []func() (*toolgate.Change, error){
		func() (*toolgate.Change, error) { return files.Write(ctx, "a", []byte("a"), toolgate.IfAbsent()) },
		func() (*toolgate.Change, error) { return files.CreateFolder(ctx, "folder") },
		func() (*toolgate.Change, error) { return files.Move(ctx, "a", "b") },
		func() (*toolgate.Change, error) { return files.Delete(ctx, "b") },
		func() (*toolgate.Change, error) {
			return files.UploadArchive(ctx, "copy", &archive, toolgate.IfAbsent())
		},
	} {
		made, err := change()
		check(t, err)
		calls := 0
		for call, err := range client.Calls(ctx, toolgate.CallFilter{Tools: []string{"files"}}) {
			check(t, err)
			if calls == 0 {
				expect(t, "call", call.ID, made.CallID)
			}
			calls++
		}
		expect(t, "calls", calls, i+2)
	}
	file, err := files.Digest(ctx, "copy/loaded")
	check(t, err)
	expect(t, "digest", file.SHA256, digest(strings.Repeat("uploaded", 30_000)))
	expect(t, "paths", paths(t, ctx, files, toolgate.FileFilter{}), "copy folder opencode.json up")
	// Seven kinds of changes and downloads, and what was asked meanwhile.
	expect(t, "lost answers", broken, 10)
}

func TestAFileIsReadOnWhereItWas(t *testing.T) {
	server := startServer(t)
	content := strings.Repeat("0123456789abcdef", 20_000)
	server.Write("file", content)
	for _, one := range []struct {
		name  string
		after int
		part  toolgate.Range
		want  string
	}{
		{"before anything", 0, toolgate.Range{}, content},
		{"the whole", 3, toolgate.Range{}, content},
		{"a range", 2, toolgate.Bytes(5, 200_000), content[5:200_005]},
		{"at its end", 3, toolgate.Bytes(5, 100_000), content[5:100_005]},
	} {
		t.Run(one.name, func(t *testing.T) {
			broken := 0
			files, ctx := server.breaking(one.after, func(string) { broken++ }).Files(), bounded(t)
			read, err := files.Read(ctx, "file", one.part)
			check(t, err)
			expect(t, "content", string(read.Data) == one.want, true)
			expect(t, "broken", broken, 1)
		})
	}
	for _, part := range []toolgate.Range{{}, toolgate.Bytes(5, 100_000)} {
		files := server.breaking(3, func(string) { server.Write("file", "another") }).Files()
		_, err := files.Read(bounded(t), "file", part)
		refused(t, err, "FILE_CHANGED")
		server.Write("file", content)
	}
}

func TestAWatchGoesOnBehindItsCursor(t *testing.T) {
	server := startServer(t)
	broken := 0
	ctx := bounded(t)
	files := server.breaking(1, func(string) {
		broken++
		server.Write("second", "")
	}).Files()
	began, seen := 0, map[string]bool{}
	for news, err := range files.Watch(ctx, toolgate.WatchFilter{}) {
		check(t, err)
		if news.Began {
			began++
			server.Write("first", "")
		}
		for _, file := range news.Files {
			seen[file.Path] = true
		}
		if seen["first"] && seen["second"] {
			break
		}
	}
	expect(t, "began", began, 1)
	expect(t, "broken", broken, 1)
}

func TestAnArchiveThatWasBegunIsNotBegunAgain(t *testing.T) {
	server := startServer(t)
	check(t, os.WriteFile(filepath.Join(server.Workspace(), "large"), make([]byte, 300_000), 0o644))
	files, ctx := server.breaking(2, func(string) {}).Files(), bounded(t)
	var packed bytes.Buffer
	_, err := files.DownloadArchive(ctx, &packed, toolgate.ArchiveFilter{})
	expect(t, "code", status.Code(err), codes.Unavailable)
	expect(t, "a part is written", packed.Len() > 0 && packed.Len() < 300_000, true)
}
