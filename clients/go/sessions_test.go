package toolgate_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

func added(id string) *toolgatev1.ChannelResponse {
	return &toolgatev1.ChannelResponse{Message: &toolgatev1.ChannelResponse_PromptAdded{
		PromptAdded: &toolgatev1.PromptAdded{Prompt: &toolgatev1.Prompt{PromptId: id, InputDigest: "digest of " + id}},
	}}
}

func listed() *toolgatev1.ChannelResponse {
	return &toolgatev1.ChannelResponse{Message: &toolgatev1.ChannelResponse_SnapshotEnd{SnapshotEnd: &toolgatev1.SnapshotEnd{}}}
}

func TestARepliesConnectionBreaks(t *testing.T) {
	streams, replies := 0, make(chan *toolgatev1.PromptReply, 10)
	fake := &fake{channel: func(stream toolgatev1.PermissionService_ChannelServer) error {
		streams++
		open, err := stream.Recv()
		if err != nil || open.GetOpen() == nil {
			return status.Error(codes.InvalidArgument, "the first message is not open")
		}
		// The prompt `other` ends while nobody is told.
		for _, message := range []*toolgatev1.ChannelResponse{added("per_1"), added("other"), listed()} {
			if streams > 1 && message.GetPromptAdded().GetPrompt().GetPromptId() == "other" {
				continue
			}
			if err := stream.Send(message); err != nil {
				return err
			}
		}
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		replies <- message.GetReply()
		if streams == 1 {
			return errBroken
		}
		result := &toolgatev1.PromptReplyResult{
			PromptId: "per_1", ReplyId: message.GetReply().GetReplyId(),
			Result: toolgatev1.ReplyResult_REPLY_RESULT_ACCEPTED,
		}
		if err := stream.Send(&toolgatev1.ChannelResponse{
			Message: &toolgatev1.ChannelResponse_ReplyResult{ReplyResult: result},
		}); err != nil {
			return err
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	}}
	client := fake.start(t)
	handled, gone, results := make(chan string, 10), make(chan error, 1), make(chan toolgate.Reply, 1)
	ready := make(chan struct{}, 10)
	inBackground(t, func(ctx context.Context) error {
		return client.Approve(ctx, toolgate.Approver{
			Handle: func(ctx context.Context, prompt toolgate.Prompt) (toolgate.Decision, error) {
				handled <- prompt.Info().ID
				if prompt.Info().ID == "other" {
					<-ctx.Done()
					gone <- context.Cause(ctx)
				}
				return toolgate.Once(), nil
			},
			OnReady: func() { ready <- struct{}{} },
			OnReply: func(reply toolgate.Reply) { results <- reply },
		})
	})
	first, second := <-replies, <-replies
	expect(t, "the same reply", second.GetReplyId(), first.GetReplyId())
	expect(t, "digest", first.GetInputDigest(), "digest of per_1")
	expect(t, "result", (<-results).Result, toolgate.ReplyAccepted)
	expect(t, "cause", <-gone, toolgate.ErrPromptEnded)
	expect(t, "handled", len(handled), 2)
	expect(t, "ready", len(ready), 2)
}

func TestAHandlerThatFailsLeavesThePrompt(t *testing.T) {
	fake := &fake{channel: func(stream toolgatev1.PermissionService_ChannelServer) error {
		for _, message := range []*toolgatev1.ChannelResponse{added("error"), added("panic"), added("leave"), listed()} {
			if err := stream.Send(message); err != nil {
				return err
			}
		}
		for {
			if message, err := stream.Recv(); err != nil {
				return err
			} else if message.GetReply() != nil {
				t.Errorf("a reply: %v", message)
			}
		}
	}}
	client := fake.start(t)
	failed := make(chan error, 2)
	inBackground(t, func(ctx context.Context) error {
		return client.Approve(ctx, toolgate.Approver{
			Handle: func(_ context.Context, prompt toolgate.Prompt) (toolgate.Decision, error) {
				switch prompt.Info().ID {
				case "error":
					return toolgate.Once(), errors.New("no idea")
				case "panic":
					panic("broken")
				}
				return toolgate.Leave(), nil
			},
			OnError: func(_ toolgate.Prompt, err error) { failed <- err },
		})
	})
	for range 2 {
		t.Log(<-failed)
	}
}

// notTaken is a channel whose replies get these results, with the prompt if there is one.
func notTaken(prompt *toolgatev1.Prompt, results ...toolgatev1.ReplyResult) (*fake, chan *toolgatev1.PromptReply) {
	replies := make(chan *toolgatev1.PromptReply, len(results))
	return &fake{channel: func(stream toolgatev1.PermissionService_ChannelServer) error {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		shown := added("per_1")
		shown.GetPromptAdded().Prompt.State = toolgatev1.PromptState_PROMPT_STATE_OPEN
		for _, message := range []*toolgatev1.ChannelResponse{shown, listed()} {
			if err := stream.Send(message); err != nil {
				return err
			}
		}
		for _, result := range results {
			message, err := stream.Recv()
			if err != nil {
				return err
			}
			replies <- message.GetReply()
			if err := stream.Send(&toolgatev1.ChannelResponse{Message: &toolgatev1.ChannelResponse_ReplyResult{
				ReplyResult: &toolgatev1.PromptReplyResult{
					PromptId: "per_1", ReplyId: message.GetReply().GetReplyId(), Result: result, Prompt: prompt,
					Message: "it does not fit",
				},
			}}); err != nil {
				return err
			}
		}
		<-stream.Context().Done()
		return stream.Context().Err()
	}}, replies
}

func TestAHandlerIsAskedAgain(t *testing.T) {
	newer := &toolgatev1.Prompt{
		PromptId: "per_1", InputDigest: "another", State: toolgatev1.PromptState_PROMPT_STATE_OPEN,
	}
	for digest, prompt := range map[string]*toolgatev1.Prompt{"digest of per_1": nil, "another": newer} {
		t.Run(digest, func(t *testing.T) {
			fake, replies := notTaken(
				prompt, toolgatev1.ReplyResult_REPLY_RESULT_INVALID, toolgatev1.ReplyResult_REPLY_RESULT_DIGEST_MISMATCH,
				toolgatev1.ReplyResult_REPLY_RESULT_NOT_ALLOWED,
			)
			client := fake.start(t)
			problems, results := make(chan string, 3), make(chan toolgate.ReplyResult, 3)
			inBackground(t, func(ctx context.Context) error {
				return client.Approve(ctx, toolgate.Approver{
					Handle: func(_ context.Context, prompt toolgate.Prompt) (toolgate.Decision, error) {
						problems <- prompt.Info().Problem
						return toolgate.Once(), nil
					},
					OnReply: func(reply toolgate.Reply) { results <- reply.Result },
				})
			})
			for _, problem := range []string{"", "it does not fit", "it does not fit"} {
				expect(t, "problem", <-problems, problem)
			}
			expect(t, "digest", (<-replies).GetInputDigest(), "digest of per_1")
			expect(t, "digest", (<-replies).GetInputDigest(), digest)
			expect(t, "result", <-results, toolgate.ReplyInvalid)
			expect(t, "result", <-results, toolgate.ReplyDigestMismatch)
			expect(t, "result", <-results, toolgate.ReplyNotAllowed)
		})
	}
}

func TestAHandlerIsNotAskedForEver(t *testing.T) {
	results := slices.Repeat([]toolgatev1.ReplyResult{toolgatev1.ReplyResult_REPLY_RESULT_INVALID}, 6)
	fake, replies := notTaken(nil, results...)
	client := fake.start(t)
	failed := make(chan error, 1)
	inBackground(t, func(ctx context.Context) error {
		return client.Approve(ctx, toolgate.Approver{
			Handle: func(context.Context, toolgate.Prompt) (toolgate.Decision, error) {
				return toolgate.Once(), nil
			},
			OnError: func(_ toolgate.Prompt, err error) { failed <- err },
		})
	})
	text := "toolgate: no decision about prompt per_1: 6 replies were not taken: it does not fit"
	expect(t, "error", (<-failed).Error(), text)
	expect(t, "replies", len(replies), 6)
}

func TestWhatDoesNotPassEndsApprovals(t *testing.T) {
	fake := &fake{channel: func(toolgatev1.PermissionService_ChannelServer) error {
		return status.Error(codes.PermissionDenied, "the scope is missing")
	}}
	err := fake.start(t).Approve(bounded(t), toolgate.Approver{
		Handle: func(context.Context, toolgate.Prompt) (toolgate.Decision, error) { return toolgate.Once(), nil },
	})
	expect(t, "code", status.Code(err), codes.PermissionDenied)
}

func told(event *toolgatev1.HostEvent) *toolgatev1.HostResponse {
	return &toolgatev1.HostResponse{Event: event}
}

func welcome(resumed bool) *toolgatev1.HostResponse {
	return told(&toolgatev1.HostEvent{Event: &toolgatev1.HostEvent_Welcome{Welcome: &toolgatev1.HostWelcome{
		Token: "token", Resumed: resumed, Grace: durationpb.New(time.Second),
	}}})
}

func invoke(id string, resent bool) *toolgatev1.HostResponse {
	return told(&toolgatev1.HostEvent{Event: &toolgatev1.HostEvent_Invoke{Invoke: &toolgatev1.HostInvoke{
		InvocationId: id, Tool: id, InputJson: "{}", Resent: resent,
	}}})
}

func TestAHostComesBack(t *testing.T) {
	streams, answers := 0, make(chan *toolgatev1.HostReport, 10)
	fake := &fake{host: func(stream toolgatev1.HostService_HostServer) error {
		streams++
		hello, err := stream.Recv()
		if err != nil {
			return err
		}
		messages := []*toolgatev1.HostResponse{welcome(false), invoke("quick", false), invoke("slow", false), invoke("lost", false)}
		if streams > 1 {
			expect(t, "token", hello.GetHello().GetToken(), "token")
			messages = []*toolgatev1.HostResponse{welcome(true), invoke("quick", true), invoke("slow", true), invoke("new", false)}
		}
		for _, message := range messages {
			if err := stream.Send(message); err != nil {
				return err
			}
		}
		for {
			request, err := stream.Recv()
			if err != nil {
				// The host has left.
				return nil
			}
			answers <- request.GetReport()
			if streams == 1 {
				return errBroken
			}
		}
	}}
	client := fake.start(t)
	runs, back, lost := make(chan string, 10), make(chan struct{}), make(chan error, 1)
	tool := func(name string, run func(ctx context.Context)) toolgate.Tool {
		return toolgate.NewTool(name, "", func(ctx context.Context, call *toolgate.Invocation, _ struct{}) (string, error) {
			runs <- name
			run(ctx)
			return name + " ran", nil
		})
	}
	inBackground(t, func(ctx context.Context) error {
		return client.Host(ctx, toolgate.Host{Name: "tests", Tools: []toolgate.Tool{
			tool("quick", func(context.Context) {}),
			tool("slow", func(context.Context) { <-back }),
			tool("new", func(context.Context) { close(back) }),
			tool("lost", func(ctx context.Context) { <-ctx.Done(); lost <- context.Cause(ctx) }),
		}})
	})
	expect(t, "first answer", (<-answers).GetInvocationId(), "quick")
	again := map[string]string{}
	for len(again) < 3 {
		report := <-answers
		again[report.GetInvocationId()] = report.GetCompleted().GetOutput()
	}
	expect(t, "answered again", again["quick"], "quick ran")
	expect(t, "goes on", again["slow"], "slow ran")
	expect(t, "new", again["new"], "new ran")
	expect(t, "cause", <-lost, toolgate.ErrInvocationCancelled)
	expect(t, "runs", len(runs), 4)
}

func TestAReadGoesOnWhereItWas(t *testing.T) {
	content := []byte("one\ntwo\nthree\nfour\n")
	sum := sha256.Sum256(content)
	var requests []*toolgatev1.ReadOutputRequest
	fake := &fake{
		info: &toolgatev1.Output{TotalBytes: int64(len(content)), Sha256: hex.EncodeToString(sum[:]), Complete: true},
		output: func(request *toolgatev1.ReadOutputRequest, stream toolgatev1.OutputService_ReadOutputServer) error {
			requests = append(requests, request)
			offset := request.GetBytes().GetOffset()
			if request.GetLines() != nil {
				offset = 4
			}
			if request.GetTail() != nil {
				offset = 14
			}
			// Three bytes for each stream.
			all := int64(len(content))
			if limit := request.GetBytes().GetLimit(); limit > 0 {
				all = offset + limit
			}
			end := min(offset+3, all)
			if request.GetLines() != nil {
				end = min(offset+3*int64(len(requests)), 14)
			}
			if err := stream.Send(&toolgatev1.ReadOutputResponse{Offset: offset, Data: content[offset:end]}); err != nil {
				return err
			}
			if end == all || (request.GetLines() != nil && end == 14) {
				return nil
			}
			return errBroken
		},
	}
	client := fake.start(t)
	cases := []struct {
		name string
		part toolgate.Range
		want string
	}{
		{"everything", toolgate.Range{}, string(content)},
		{"bytes", toolgate.Bytes(1, 7), "ne\ntwo\n"},
		{"lines", toolgate.Lines(2, 2), "two\nthree\n"},
		{"tail", toolgate.Tail(1), "four\n"},
	}
	for _, one := range cases {
		t.Run(one.name, func(t *testing.T) {
			requests = nil
			var read bytes.Buffer
			for piece, err := range client.Output("x").Read(bounded(t), one.part) {
				check(t, err)
				read.Write(piece)
			}
			expect(t, "content", read.String(), one.want)
		})
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "saved")
	_, err := client.Output("x").Save(bounded(t), path, nil)
	check(t, err)
	saved, err := os.ReadFile(path)
	check(t, err)
	expect(t, "saved", string(saved), string(content))

	fake.info.Sha256 = hex.EncodeToString(make([]byte, 32))
	_, err = client.Output("x").Save(bounded(t), filepath.Join(folder, "other"), nil)
	expect(t, "digest", errors.Is(err, toolgate.ErrDigest), true)
	left, err := os.ReadDir(folder)
	check(t, err)
	expect(t, "files", len(left), 1)
}
