package io.toolgate;

import io.toolgate.v1.CloseWorkspaceRequest;
import io.toolgate.v1.CloseWorkspaceResponse;
import io.toolgate.v1.GetWorkspaceRequest;
import io.toolgate.v1.ListWorkspacesRequest;
import io.toolgate.v1.OpenWorkspaceRequest;
import io.toolgate.v1.OpenWorkspaceResponse;
import io.toolgate.v1.WorkspaceInfo;
import io.toolgate.v1.WorkspaceServiceGrpc;
import java.util.stream.Stream;

/** The folders in which tools work: those of the service's configuration, and those that clients open and close. */
public final class Workspaces {
    private final Rpc rpc;

    Workspaces(Rpc rpc) {
        this.rpc = rpc;
    }

    /**
     * Opens a folder as a workspace. The same name with the same folder returns what is open already.
     *
     * @param name 1 to 128 letters, digits, {@code -}, {@code _} and {@code .}, in parts with {@code /} between
     * @param directory the folder on the service's machine, absolute, below one that the operator allows
     * @return the workspace, and whether it was opened now; if its configuration cannot be used, {@code problem} says why
     */
    public OpenWorkspaceResponse open(String name, String directory) {
        return open(OpenWorkspaceRequest.newBuilder()
                .setWorkspace(name)
                .setDirectory(directory)
                .build());
    }

    /**
     * Opens a workspace as the request says: with a folder that is made, for instance.
     *
     * @param request its name and its folder
     * @return the workspace, and whether it was opened now
     */
    public OpenWorkspaceResponse open(OpenWorkspaceRequest request) {
        return rpc.call(WorkspaceServiceGrpc.getOpenWorkspaceMethod(), request);
    }

    /**
     * Closes a workspace that was opened while the service ran: cancels its calls, ends what they left running, and returns
     * when that is done. Records stay.
     *
     * @param name the workspace
     * @return how many calls were cancelled
     */
    public CloseWorkspaceResponse close(String name) {
        CloseWorkspaceRequest request =
                CloseWorkspaceRequest.newBuilder().setWorkspace(name).build();
        return rpc.await(WorkspaceServiceGrpc.getCloseWorkspaceMethod(), request);
    }

    /**
     * Returns a workspace: its folder, its agents, its sources of tools, what its calls use.
     *
     * @param name its name; empty for the service's default
     * @return the message
     */
    public WorkspaceInfo get(String name) {
        GetWorkspaceRequest request =
                GetWorkspaceRequest.newBuilder().setWorkspace(name).build();
        return rpc.call(WorkspaceServiceGrpc.getGetWorkspaceMethod(), request).getWorkspace();
    }

    /**
     * Lists the workspaces that the client may see.
     *
     * @return by name, fetched as the stream comes to them; without agents, sources of tools and language servers, which
     *     {@link #get} has
     */
    public Stream<WorkspaceInfo> list() {
        return list(ListWorkspacesRequest.getDefaultInstance());
    }

    /**
     * Lists workspaces.
     *
     * @param request its page size says how many are fetched at a time
     * @return as {@link #list()}
     */
    public Stream<WorkspaceInfo> list(ListWorkspacesRequest request) {
        return Pages.stream(
                token -> rpc.call(
                        WorkspaceServiceGrpc.getListWorkspacesMethod(),
                        request.toBuilder().setPageToken(token).build()),
                page -> page.getWorkspacesList().stream(),
                page -> page.getNextPageToken());
    }
}
