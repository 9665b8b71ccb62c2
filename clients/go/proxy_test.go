package toolgate_test

import (
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
)

// cuttingProxy passes bytes on to a socket, and cuts every connection after some of them.
func cuttingProxy(t *testing.T, socket string) (path string, cuts func() int) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "p")
	listener, err := net.Listen("unix", path)
	check(t, err)
	var serving sync.WaitGroup
	var mutex sync.Mutex
	random, count := rand.New(rand.NewPCG(1, 2)), 0
	serving.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", socket)
			if err != nil {
				_ = near.Close()
				continue
			}
			mutex.Lock()
			length := 2000 + random.Int64N(40000)
			count++
			mutex.Unlock()
			serving.Go(func() { _, _ = io.Copy(far, near); _ = far.Close() })
			serving.Go(func() { _, _ = io.CopyN(near, far, length); _ = near.Close() })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		serving.Wait()
	})
	return path, func() int {
		mutex.Lock()
		defer mutex.Unlock()
		return count
	}
}

func TestOutputIsWholeThoughConnectionsAreCut(t *testing.T) {
	server := startServer(t)
	path, connections := cuttingProxy(t, server.Socket)
	var want strings.Builder
	for i := range 5000 {
		want.WriteString(strings.Repeat("x", 3))
		want.WriteString(string(rune('0' + i%10)))
		want.WriteString("\n")
	}
	client, err := toolgate.NewClient("unix:"+path, toolgate.WithTestTimes(10*time.Second))
	check(t, err)
	defer client.Close()
	server.Write("data", want.String())
	for range 20 {
		execution, err := client.Execute(bounded(t), "bash", run("exec cat data"))
		check(t, err)
		var printed strings.Builder
		next := int64(1)
		for event, err := range execution.Events() {
			check(t, err)
			expect(t, "sequence", event.Header().Sequence, next)
			next++
			if output, ok := event.(*toolgate.OutputEvent); ok {
				expect(t, "offset", output.Offset, int64(printed.Len()))
				printed.Write(output.Data)
			}
		}
		expect(t, "the same output", printed.String() == want.String(), true)
		result, err := execution.Result()
		check(t, err)
		check(t, result.Err())
	}
	t.Logf("%d connections", connections())
	expect(t, "connections were cut", connections() > 5, true)
}
