package toolgate

import (
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// The closed sets of the contract are words here: the names of its enums without their prefix.

// ToolSource says where a tool comes from: BUILTIN, CUSTOM, PLUGIN, MCP or HOSTED.
type ToolSource string

// ToolEffect is something that a tool may do to the world.
type ToolEffect string

// The effects of tools.
const (
	EffectReads        ToolEffect = "READS"
	EffectWrites       ToolEffect = "WRITES"
	EffectRunsPrograms ToolEffect = "RUNS_PROGRAMS"
	EffectNetwork      ToolEffect = "NETWORK"
	EffectAsksUser     ToolEffect = "ASKS_USER"
)

// CallState says where a call is in its life.
type CallState string

// The states of calls.
const (
	StatePending   CallState = "PENDING"
	StateRunning   CallState = "RUNNING"
	StateWaiting   CallState = "WAITING"
	StateCompleted CallState = "COMPLETED"
	StateFailed    CallState = "FAILED"
)

// FailureReason says why a call failed.
type FailureReason string

// The reasons of failed calls.
const (
	ReasonInvalidArguments FailureReason = "INVALID_ARGUMENTS"
	ReasonDenied           FailureReason = "DENIED"
	ReasonRejected         FailureReason = "REJECTED"
	ReasonPromptExpired    FailureReason = "PROMPT_EXPIRED"
	ReasonCancelled        FailureReason = "CANCELLED"
	ReasonTimedOut         FailureReason = "TIMED_OUT"
	ReasonToolError        FailureReason = "TOOL_ERROR"
	ReasonDoomLoop         FailureReason = "DOOM_LOOP"
	ReasonQuota            FailureReason = "QUOTA"
	ReasonDrained          FailureReason = "DRAINED"
	ReasonLost             FailureReason = "LOST"
	ReasonInternal         FailureReason = "INTERNAL"
)

// Outcome says how the result of a completed call is to be read.
type Outcome string

// The ways to read a result.
const (
	OutcomeOK       Outcome = "OK"
	OutcomeNonZero  Outcome = "NON_ZERO"
	OutcomeTimedOut Outcome = "TIMED_OUT"
	OutcomePartial  Outcome = "PARTIAL"
	OutcomeInvalid  Outcome = "INVALID"
)

// PromptState says whether a prompt still waits.
type PromptState string

// The states of prompts.
const (
	PromptOpen      PromptState = "OPEN"
	PromptResolved  PromptState = "RESOLVED"
	PromptExpired   PromptState = "EXPIRED"
	PromptWithdrawn PromptState = "WITHDRAWN"
)

// ReplyResult says what became of a reply.
type ReplyResult string

// What may become of replies.
const (
	ReplyAccepted             ReplyResult = "ACCEPTED"
	ReplyAlreadyResolved      ReplyResult = "ALREADY_RESOLVED"
	ReplyNotFound             ReplyResult = "NOT_FOUND"
	ReplyExpired              ReplyResult = "EXPIRED"
	ReplyWithdrawn            ReplyResult = "WITHDRAWN"
	ReplyDigestMismatch       ReplyResult = "DIGEST_MISMATCH"
	ReplyInvalid              ReplyResult = "INVALID"
	ReplyOtherInstance        ReplyResult = "OTHER_INSTANCE"
	ReplyNotAllowed           ReplyResult = "NOT_ALLOWED"
	ReplySecondApprovalNeeded ReplyResult = "SECOND_APPROVAL_NEEDED"
)

// GrantReach says for whom a standing approval holds.
type GrantReach string

// The reaches of standing approvals.
const (
	// ReachRun is for the workspace, until this run of the service ends.
	ReachRun GrantReach = "RUN"
	// ReachSession is for the prompt's session, until that is ended.
	ReachSession GrantReach = "SESSION"
	// ReachWorkspace is for the workspace, in every later run of the service too.
	ReachWorkspace GrantReach = "WORKSPACE"
)

// PermissionAction is the verdict of rules and standing approvals.
type PermissionAction string

// The verdicts.
const (
	ActionAllow PermissionAction = "ALLOW"
	ActionAsk   PermissionAction = "ASK"
	ActionDeny  PermissionAction = "DENY"
)

// FileKind says what an entry of a folder is.
type FileKind string

// The kinds of entries.
const (
	KindFile   FileKind = "FILE"
	KindFolder FileKind = "FOLDER"
	KindLink   FileKind = "LINK"
	// KindOther is a pipe, a socket or a device: it is listed, and cannot be opened.
	KindOther FileKind = "OTHER"
)

// Signal is a signal for the programs of a call.
type Signal string

// The signals.
const (
	SignalInt  Signal = "INT"
	SignalTerm Signal = "TERM"
	SignalHup  Signal = "HUP"
	SignalQuit Signal = "QUIT"
	SignalUsr1 Signal = "USR1"
	SignalUsr2 Signal = "USR2"
)

const (
	toolSourcePrefix    = "TOOL_SOURCE_"
	toolEffectPrefix    = "TOOL_EFFECT_"
	callStatePrefix     = "CALL_STATE_"
	failureReasonPrefix = "FAILURE_REASON_"
	outcomePrefix       = "CALL_OUTCOME_"
	promptStatePrefix   = "PROMPT_STATE_"
	decisionPrefix      = "PROMPT_DECISION_"
	replyResultPrefix   = "REPLY_RESULT_"
	grantReachPrefix    = "GRANT_REACH_"
	actionPrefix        = "PERMISSION_ACTION_"
	outputModePrefix    = "OUTPUT_MODE_"
	fileKindPrefix      = "FILE_KIND_"
	signalPrefix        = "SIGNAL_"
)

// word is the name of an enum's value without its prefix; empty for the unspecified one.
func word[W ~string](prefix string, value interface{ String() string }) W {
	if name := strings.TrimPrefix(value.String(), prefix); name != "UNSPECIFIED" {
		return W(name)
	}
	return ""
}

// number finds the value that a word stands for; empty is the unspecified one.
func number[E ~int32, W ~string](prefix string, values map[string]int32, text W) (E, error) {
	if text == "" {
		return 0, nil
	}
	value, ok := values[prefix+string(text)]
	if !ok {
		return 0, invalid("%q is none of the words %s…", string(text), prefix)
	}
	return E(value), nil
}

func outputMode(mode OutputMode) (toolgatev1.OutputMode, error) {
	return number[toolgatev1.OutputMode](outputModePrefix, toolgatev1.OutputMode_value, mode)
}

func timeOf(stamp *timestamppb.Timestamp) time.Time {
	if stamp == nil {
		return time.Time{}
	}
	return stamp.AsTime()
}

// inputText is the JSON text of an input. Text goes as it is, since what a model wrote is for the service to judge.
func inputText(input any) (string, error) {
	var text string
	switch input := input.(type) {
	case nil:
		return "{}", nil
	case string:
		text = input
	case []byte:
		text = string(input)
	case json.RawMessage:
		text = string(input)
	default:
		encoded, err := json.Marshal(input)
		if err != nil {
			return "", invalid("the input is no JSON: %v", err)
		}
		return string(encoded), nil
	}
	if !utf8.ValidString(text) {
		return "", invalid("the input is not UTF-8")
	}
	return text, nil
}

// structOf makes the message of metadata. Values may be whatever JSON can say.
func structOf(values map[string]any) (*structpb.Struct, error) {
	if values == nil {
		return nil, nil
	}
	if message, err := structpb.NewStruct(values); err == nil {
		return message, nil
	}
	// Slices of strings and structs are no values of structpb until they have been JSON.
	encoded, err := json.Marshal(values)
	if err != nil {
		return nil, invalid("the metadata is no JSON: %v", err)
	}
	message := &structpb.Struct{}
	if err := message.UnmarshalJSON(encoded); err != nil {
		return nil, invalid("the metadata is no JSON object: %v", err)
	}
	return message, nil
}
