package toolgate

import (
	"context"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// retryable has the unary RPCs of which the contract says that they may be retried.
var retryable = map[string]bool{
	toolgatev1.AuditService_GetAuditHead_FullMethodName:           true,
	toolgatev1.FileService_ListFiles_FullMethodName:               true,
	toolgatev1.FileService_StatFile_FullMethodName:                true,
	toolgatev1.InfoService_GetServerInfo_FullMethodName:           true,
	toolgatev1.McpService_CompleteMcpArgument_FullMethodName:      true,
	toolgatev1.McpService_ListMcpPrompts_FullMethodName:           true,
	toolgatev1.McpService_ListMcpResources_FullMethodName:         true,
	toolgatev1.McpService_ListMcpResourceTemplates_FullMethodName: true,
	toolgatev1.OutputService_GetOutput_FullMethodName:             true,
	toolgatev1.OutputService_ListOutputs_FullMethodName:           true,
	toolgatev1.OutputService_SearchOutput_FullMethodName:          true,
	toolgatev1.PermissionService_GetPrompt_FullMethodName:         true,
	toolgatev1.PermissionService_ListGrants_FullMethodName:        true,
	toolgatev1.PermissionService_ListPrompts_FullMethodName:       true,
	toolgatev1.PermissionService_ReplyPrompt_FullMethodName:       true,
	toolgatev1.SessionService_EndSession_FullMethodName:           true,
	toolgatev1.SessionService_GetSession_FullMethodName:           true,
	toolgatev1.SessionService_ListSessions_FullMethodName:         true,
	toolgatev1.ToolService_CancelCall_FullMethodName:              true,
	toolgatev1.ToolService_EvaluateCall_FullMethodName:            true,
	toolgatev1.ToolService_GetCall_FullMethodName:                 true,
	toolgatev1.ToolService_GetTerminal_FullMethodName:             true,
	toolgatev1.ToolService_ListCalls_FullMethodName:               true,
	toolgatev1.ToolService_ListTools_FullMethodName:               true,
	toolgatev1.ToolService_ResizeTerminal_FullMethodName:          true,
	toolgatev1.ToolService_SendInput_FullMethodName:               true,
	toolgatev1.WorkspaceService_CloseWorkspace_FullMethodName:     true,
	toolgatev1.WorkspaceService_CreateWorkspace_FullMethodName:    true,
	toolgatev1.WorkspaceService_DeleteWorkspace_FullMethodName:    true,
	toolgatev1.WorkspaceService_GetWorkspace_FullMethodName:       true,
	toolgatev1.WorkspaceService_ListWorkspaces_FullMethodName:     true,
	toolgatev1.WorkspaceService_OpenWorkspace_FullMethodName:      true,
	toolgatev1.WorkspaceService_ResumeWorkspace_FullMethodName:    true,
	toolgatev1.WorkspaceService_SuspendWorkspace_FullMethodName:   true,
}

// patient has the RPCs that return when a call has ended or a person has answered, which takes as long as it takes.
var patient = map[string]bool{
	toolgatev1.FileService_CreateFolder_FullMethodName:          true,
	toolgatev1.FileService_DeleteFile_FullMethodName:            true,
	toolgatev1.FileService_MoveFile_FullMethodName:              true,
	toolgatev1.FileService_WriteFile_FullMethodName:             true,
	toolgatev1.McpService_GetMcpPrompt_FullMethodName:           true,
	toolgatev1.McpService_ReadMcpResource_FullMethodName:        true,
	toolgatev1.PortService_OpenPort_FullMethodName:              true,
	toolgatev1.ToolService_CancelCall_FullMethodName:            true,
	toolgatev1.ToolService_RunTool_FullMethodName:               true,
	toolgatev1.WorkspaceService_CloseWorkspace_FullMethodName:   true,
	toolgatev1.WorkspaceService_CreateWorkspace_FullMethodName:  true,
	toolgatev1.WorkspaceService_DeleteWorkspace_FullMethodName:  true,
	toolgatev1.WorkspaceService_ResumeWorkspace_FullMethodName:  true,
	toolgatev1.WorkspaceService_SuspendWorkspace_FullMethodName: true,
}

// mayRetry says whether an RPC may be sent again. One that makes a call is attached to it then, if the request names it.
func mayRetry(method string, request any) bool {
	switch request := request.(type) {
	case *toolgatev1.RunToolRequest:
		return request.GetCallId() != ""
	case interface {
		GetCall() *toolgatev1.CallStart
	}:
		return request.GetCall().GetCallId() != ""
	}
	return retryable[method]
}

// unary gives every unary RPC a deadline, retries where the contract allows it, and makes its failure an Error.
func (c *Client) unary(
	ctx context.Context, method string, request, response any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker,
	options ...grpc.CallOption,
) error {
	if _, has := ctx.Deadline(); !has && !patient[method] && c.config.rpcTimeout > 0 {
		bound, cancel := context.WithTimeout(ctx, c.config.rpcTimeout)
		defer cancel()
		ctx = bound
	}
	patience := c.patience(c.config.retryTimeout)
	for {
		err := invoke(ctx, method, request, response, conn, options...)
		if err == nil {
			return nil
		}
		failure := toError(ctx, err)
		if !mayRetry(method, request) || !mayPass(failure) {
			return failure
		}
		if err := patience.wait(ctx, failure); err != nil {
			return err
		}
	}
}

// mayPass is stricter than for streams: what a unary RPC reports as INTERNAL or ABORTED is its answer.
func mayPass(failure *Error) bool {
	return failure.Code == codes.Unavailable || (failure.Code == codes.ResourceExhausted && failure.RetryAfter > 0)
}
