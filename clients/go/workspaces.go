package toolgate

import (
	"context"
	"iter"
	"time"

	toolgatev1 "github.com/toolgate/toolgate/clients/go/gen/toolgate/v1"
)

// Workspace is a folder in which tools work.
type Workspace struct {
	// Name is its name, for [WithWorkspace].
	Name string
	// Directory is the folder that relative paths are joined to, Worktree the one that titles and patterns are relative to.
	Directory, Worktree string
	// Trusted says whether code that the project brings is run.
	Trusted bool
	// Warnings are what a person should know of its configuration.
	Warnings []string
	// Problem is why its calls are refused; empty if nothing is wrong.
	Problem string
	// Opened is when it was opened; zero for one of the configuration, which cannot be closed.
	Opened time.Time
	// OpenedBy is who opened it; empty without authentication.
	OpenedBy string

	message *toolgatev1.WorkspaceInfo
}

// Proto returns the message of the contract, which has more.
func (w *Workspace) Proto() *toolgatev1.WorkspaceInfo { return w.message }

func newWorkspace(message *toolgatev1.WorkspaceInfo) *Workspace {
	return &Workspace{
		Name: message.GetName(), Directory: message.GetDirectory(), Worktree: message.GetWorktree(),
		Trusted: message.GetTrusted(), Warnings: message.GetWarnings(), Problem: message.GetProblem(),
		Opened: timeOf(message.GetOpenTime()), OpenedBy: message.GetOpenedBy(), message: message,
	}
}

// WorkspaceFolder is a folder that is to be a workspace.
type WorkspaceFolder struct {
	// Name is the name that it gets: 1 to 128 letters, digits, `-`, `_` and `.`, in parts with `/` between.
	Name string
	// Directory is its absolute path, below a folder that the operator allows.
	Directory string
	// Create makes the folder if it is not there.
	Create bool
}

// OpenWorkspace opens a folder as a workspace. What is open under this name already is returned as it is; opened says which
// of both it was. A workspace whose configuration cannot be used is opened all the same: see its Problem.
func (c *Client) OpenWorkspace(ctx context.Context, folder WorkspaceFolder) (workspace *Workspace, opened bool, err error) {
	response, err := c.workspaces.OpenWorkspace(ctx, &toolgatev1.OpenWorkspaceRequest{
		Workspace: folder.Name, Directory: folder.Directory, Create: folder.Create,
	})
	if err != nil {
		return nil, false, err
	}
	return newWorkspace(response.GetWorkspace()), response.GetOpened(), nil
}

// CloseWorkspace closes a workspace that was opened while the service ran, and returns how many of its calls were
// cancelled, once their programs are gone. Its records stay.
func (c *Client) CloseWorkspace(ctx context.Context, name string) (cancelled int, err error) {
	response, err := c.workspaces.CloseWorkspace(ctx, &toolgatev1.CloseWorkspaceRequest{Workspace: name})
	return int(response.GetCancelledCalls()), err
}

// GetWorkspace returns a workspace; an empty name means the service's default one.
func (c *Client) GetWorkspace(ctx context.Context, name string) (*Workspace, error) {
	response, err := c.workspaces.GetWorkspace(ctx, &toolgatev1.GetWorkspaceRequest{Workspace: name})
	if err != nil {
		return nil, err
	}
	return newWorkspace(response.GetWorkspace()), nil
}

// WorkspaceFilter says how workspaces are listed.
type WorkspaceFilter struct {
	// PageSize is how many are fetched at once; 0 for 50.
	PageSize int
}

// Workspaces lists the workspaces by their names, without their agents and sources of tools, which
// [Client.GetWorkspace] has.
func (c *Client) Workspaces(ctx context.Context, filter WorkspaceFilter) iter.Seq2[*Workspace, error] {
	return pages(func(token string) ([]*Workspace, string, error) {
		response, err := c.workspaces.ListWorkspaces(ctx, &toolgatev1.ListWorkspacesRequest{
			PageSize: int32(filter.PageSize), PageToken: token,
		})
		return each(response.GetWorkspaces(), newWorkspace), response.GetNextPageToken(), err
	})
}
