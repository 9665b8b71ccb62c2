// Plays the published SDK of agent-sandbox for Go, and the stubs that it has of process.v1, against the service at $SERVICE.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"sigs.k8s.io/agent-sandbox/clients/go/sandbox"
	processv1 "sigs.k8s.io/agent-sandbox/packages/sandboxd/spec/process/v1"
)

// signed shows the token, which the SDK itself has no place for.
type signed struct{ token string }

func (s signed) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	if s.token != "" {
		request.Header.Set("Authorization", "Bearer "+s.token)
	}
	return http.DefaultTransport.RoundTrip(request)
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	if err := play(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func play(ctx context.Context) error {
	address, token := os.Getenv("SERVICE"), os.Getenv("TOKEN")
	options := sandbox.Options{
		WarmPoolName:  "pool",
		APIURL:        address,
		HTTPTransport: signed{token},
		Quiet:         true,
		// Shorter than the person takes, so that requests are sent again.
		PerAttemptTimeout: 2 * time.Second,
	}
	box, err := sandbox.New(ctx, options)
	if err != nil {
		return err
	}
	if err := box.Open(ctx); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer box.Close(ctx)
	if err := files(ctx, box); err != nil {
		return fmt.Errorf("files: %w", err)
	}
	if err := commands(ctx, box); err != nil {
		return fmt.Errorf("commands: %w", err)
	}
	return process(ctx, strings.TrimPrefix(address, "http://"), token)
}

func files(ctx context.Context, box *sandbox.Sandbox) error {
	content := bytes.Repeat([]byte{0, 255, 10, 13, 128}, 300_000)
	if err := box.Write(ctx, "go file.bin", content); err != nil {
		return err
	}
	read, err := box.Read(ctx, "go file.bin")
	if err != nil {
		return err
	}
	if !bytes.Equal(read, content) {
		return errors.New("the content is another one")
	}
	entries, err := box.List(ctx, ".")
	if err != nil {
		return err
	}
	found := false
	for _, entry := range entries {
		found = found || (entry.Name == "go file.bin" && entry.Type == sandbox.FileTypeFile && entry.Size == int64(len(content)))
	}
	if !found {
		return fmt.Errorf("not listed: %v", entries)
	}
	if there, err := box.Exists(ctx, "go file.bin"); err != nil || !there {
		return fmt.Errorf("exists: %v, %w", there, err)
	}
	if there, err := box.Exists(ctx, "nothing/here"); err != nil || there {
		return fmt.Errorf("exists: %v, %w", there, err)
	}
	return refused(403, func() error { _, err := box.Read(ctx, "../outside"); return err })
}

func commands(ctx context.Context, box *sandbox.Sandbox) error {
	ran, err := box.Run(ctx, "echo out; echo err >&2; exit 3")
	if err != nil {
		return err
	}
	if ran.Stdout != "out\nerr\n" || ran.ExitCode != 3 {
		return fmt.Errorf("%+v", ran)
	}
	if err := refused(403, func() error { _, err := box.Run(ctx, "forbidden"); return err }); err != nil {
		return err
	}
	// A person takes longer than an attempt: all attempts are one call, which runs once.
	ran, err = box.Run(ctx, "touch asked && echo 1 >> counted && cat counted", sandbox.WithMaxAttempts(6))
	if err != nil {
		return err
	}
	if ran.Stdout != "1\n" {
		return fmt.Errorf("%+v", ran)
	}
	return nil
}

// refused says whether an error has a code of HTTP.
func refused(code int, work func() error) error {
	err := work()
	var answer *sandbox.HTTPError
	if !errors.As(err, &answer) || answer.StatusCode != code {
		return fmt.Errorf("expected %d: %w", code, err)
	}
	return nil
}

func process(ctx context.Context, address, token string) error {
	connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	client := processv1.NewProcessServiceClient(connection)
	config := &processv1.ProcessConfig{Command: []string{"printf", "%s|", "a b", "$HOME"}}
	ran, err := client.Execute(ctx, &processv1.ExecuteRequest{Config: config})
	if err != nil {
		return fmt.Errorf("execute: %w", err)
	}
	if string(ran.GetStdout()) != "a b|$HOME|" || ran.GetExitCode() != 0 {
		return fmt.Errorf("execute: %v", ran)
	}
	config = &processv1.ProcessConfig{Command: []string{"cat"}}
	stream, err := client.Start(ctx, &processv1.StartRequest{Config: config})
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	first, err := stream.Recv()
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	id := first.GetInit().GetProcessId()
	input := &processv1.WriteStdinRequest_Input{Input: []byte("typed")}
	if _, err := client.WriteStdin(ctx, &processv1.WriteStdinRequest{ProcessId: id, Payload: input}); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	eof := &processv1.WriteStdinRequest{ProcessId: id, Payload: &processv1.WriteStdinRequest_Eof{}}
	if _, err := client.WriteStdin(ctx, eof); err != nil {
		return fmt.Errorf("eof: %w", err)
	}
	var shown []byte
	for {
		event, err := stream.Recv()
		if err == io.EOF {
			break
		}
		if err != nil {
			return fmt.Errorf("stream: %w", err)
		}
		shown = append(shown, event.GetStdout()...)
	}
	if string(shown) != "typed" {
		return fmt.Errorf("shown: %q", shown)
	}
	return nil
}
