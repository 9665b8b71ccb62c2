package toolgate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/clients/go"
	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errBroken = status.Error(codes.Unavailable, "the connection broke")

func pending() *toolgatev1.CallEvent {
	return &toolgatev1.CallEvent{Sequence: 1, Event: &toolgatev1.CallEvent_Pending{Pending: &toolgatev1.CallPending{}}}
}

func printed(sequence int64) *toolgatev1.CallEvent {
	return &toolgatev1.CallEvent{Sequence: sequence, Event: &toolgatev1.CallEvent_Output{Output: &toolgatev1.CallOutput{}}}
}

func gap(first, last int64) *toolgatev1.CallEvent {
	return &toolgatev1.CallEvent{Sequence: last, Event: &toolgatev1.CallEvent_Gap{
		Gap: &toolgatev1.CallGap{FirstSequence: first, LastSequence: last},
	}}
}

func beat() *toolgatev1.CallEvent {
	return &toolgatev1.CallEvent{Event: &toolgatev1.CallEvent_Heartbeat{Heartbeat: &toolgatev1.CallHeartbeat{}}}
}

func completed(sequence int64) *toolgatev1.CallEvent {
	return &toolgatev1.CallEvent{Sequence: sequence, Event: &toolgatev1.CallEvent_Completed{
		Completed: &toolgatev1.CallCompleted{Output: "done"},
	}}
}

func events(list ...*toolgatev1.CallEvent) []*toolgatev1.CallEvent { return list }

func TestNoEventIsLostOrRepeated(t *testing.T) {
	cases := []struct {
		name    string
		streams []script
		// What is delivered: numbers, and first-last for gaps.
		want    string
		started int
		watched string
	}{
		{"one stream", []script{{events: events(pending(), beat(), printed(2), completed(3))}}, "1 2 3", 1, "[]"},
		{"broken", []script{
			{events: events(pending(), printed(2)), end: errBroken}, {end: errBroken},
			{events: events(printed(3), completed(4))},
		}, "1 2 3 4", 1, "[2 2]"},
		{"ended without an end", []script{
			{events: events(pending())}, {events: events(completed(2))},
		}, "1 2", 1, "[1]"},
		{"reset", []script{
			{events: events(pending()), end: status.Error(codes.Internal, "stream terminated by RST_STREAM")},
			{events: events(completed(2))},
		}, "1 2", 1, "[1]"},
		{"before the first event", []script{
			{end: errBroken}, {events: events(beat()), end: errBroken}, {events: events(pending(), completed(2))},
		}, "1 2", 3, "[]"},
		{"repeated", []script{
			{events: events(pending(), printed(2)), end: errBroken}, {events: events(pending(), printed(2), completed(3))},
		}, "1 2 3", 1, "[2]"},
		{"a hole", []script{
			{events: events(pending(), printed(3))}, {events: events(printed(2), printed(3), completed(4))},
		}, "1 2 3 4", 1, "[1]"},
		{"a gap", []script{
			{events: events(pending(), gap(2, 5)), end: errBroken}, {events: events(completed(6))},
		}, "1 2-5 6", 1, "[5]"},
		{"a gap over what was seen", []script{
			{events: events(pending(), printed(2)), end: errBroken}, {events: events(gap(1, 4), completed(5))},
		}, "1 2 3-4 5", 1, "[2]"},
	}
	for _, one := range cases {
		t.Run(one.name, func(t *testing.T) {
			fake := &fake{streams: one.streams}
			client := fake.start(t)
			execution, err := client.Execute(bounded(t), "bash", nil)
			check(t, err)
			var seen []string
			for event, err := range execution.Events() {
				check(t, err)
				text := fmt.Sprint(event.Header().Sequence)
				if gap, ok := event.(*toolgate.GapEvent); ok {
					text = fmt.Sprintf("%d-%d", gap.First, gap.Last)
				}
				seen = append(seen, text)
			}
			result, err := execution.Result()
			check(t, err)
			expect(t, "output", result.Output, "done")
			expect(t, "events", strings.Join(seen, " "), one.want)
			expect(t, "starts", len(fake.started), one.started)
			expect(t, "watches", fmt.Sprint(fake.watched), one.watched)
			for _, request := range fake.started {
				expect(t, "call id", request.GetCallId(), execution.CallID())
				expect(t, "policy", request.GetOnDisconnect(), toolgatev1.OnDisconnect_ON_DISCONNECT_KEEP)
			}
			expect(t, "cancellations", fake.cancelled, 0)
		})
	}
}

func TestASilentStreamIsGivenUp(t *testing.T) {
	fake := &fake{streams: []script{{events: events(pending()), silent: true}, {events: events(completed(2))}}}
	client := fake.start(t, toolgate.WithTestTimes(2*time.Second))
	result, err := client.Run(bounded(t), "bash", nil)
	check(t, err)
	expect(t, "output", result.Output, "done")
}

func TestWhatDoesNotPassEndsTheExecution(t *testing.T) {
	refused := status.Error(codes.NotFound, "there is no workspace x")
	client := (&fake{streams: []script{{end: refused}}}).start(t)
	_, err := client.Execute(bounded(t), "bash", nil)
	expect(t, "code", status.Code(err), codes.NotFound)

	lost := &fake{streams: []script{{events: events(pending()), end: errBroken}, {end: refused}}}
	execution, err := lost.start(t).Execute(bounded(t), "bash", nil)
	check(t, err)
	_, err = execution.Result()
	expect(t, "code", status.Code(err), codes.NotFound)
	_, again := execution.Result()
	expect(t, "the same error", errors.Is(again, err), true)
	expect(t, "starts", len(lost.started), 1)
}

func TestReconnectingIsBounded(t *testing.T) {
	streams := []script{{events: events(pending()), end: errBroken}}
	for range 200 {
		streams = append(streams, script{end: errBroken})
	}
	client := (&fake{streams: streams}).start(t, toolgate.WithReconnectTimeout(100*time.Millisecond))
	_, err := client.Run(bounded(t), "bash", nil)
	expect(t, "code", status.Code(err), codes.Unavailable)
}

func TestCancellationDoesNotNeedTheEndOfTheStream(t *testing.T) {
	fake := &fake{streams: []script{{events: events(pending()), silent: true}}}
	client := fake.start(t)
	ctx, cancel := context.WithCancel(bounded(t))
	execution, err := client.Execute(ctx, "bash", nil)
	check(t, err)
	cancel()
	_, err = execution.Result()
	expect(t, "cause", errors.Is(err, context.Canceled), true)
	check(t, execution.Close())
	expect(t, "cancellations", fake.cancelled, 1)
	_, err = client.Execute(ctx, "bash", nil)
	expect(t, "an ended context", errors.Is(err, context.Canceled), true)
}

func TestClosingTheClientCancelsWhatRuns(t *testing.T) {
	fake := &fake{streams: []script{{events: events(pending()), silent: true}}}
	client := fake.start(t)
	execution, err := client.Execute(bounded(t), "bash", nil)
	check(t, err)
	check(t, client.Close())
	expect(t, "cancellations", fake.cancelled, 1)
	_, err = execution.Result()
	expect(t, "cause", errors.Is(err, toolgate.ErrClosed), true)
}

func TestUnaryCallsAreRetriedWhereTheContractAllowsIt(t *testing.T) {
	fake := &fake{}
	tools, err := fake.start(t).Tools(bounded(t))
	check(t, err)
	expect(t, "tool", tools[0].Name, "read")
	expect(t, "tries", fake.listed, 3)
}
