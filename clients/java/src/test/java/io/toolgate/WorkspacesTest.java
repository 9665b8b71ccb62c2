package io.toolgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.toolgate.testing.TestServer;
import io.toolgate.v1.ListWorkspacesRequest;
import io.toolgate.v1.OpenWorkspaceRequest;
import io.toolgate.v1.WorkspaceInfo;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.function.Executable;

/** Workspaces of the real service that are opened and closed while it runs. */
@EnabledIfEnvironmentVariable(named = "TOOLGATE_BIN", matches = ".+")
@Timeout(90)
class WorkspacesTest {
    private static TestServer server;
    private static ToolgateClient client;
    private static Workspaces workspaces;

    @BeforeAll
    static void start() throws Exception {
        server = new TestServer(Rules.JSON);
        client = server.client();
        workspaces = client.workspaces();
    }

    @AfterAll
    static void stop() {
        client.close();
        server.close();
    }

    private static void refused(Status.Code code, String reason, Executable action) {
        ToolgateException refused = assertThrows(ToolgateException.class, action);
        assertEquals(code, refused.code(), refused.getMessage());
        assertEquals(reason, refused.reason(), refused.getMessage());
    }

    private static String folder(String name) throws Exception {
        return Files.createDirectories(server.roots().resolve(name))
                .toRealPath()
                .toString();
    }

    @Test
    void aFolderIsOpenedUsedAndClosed() throws Exception {
        String shop = folder("shop");
        assertTrue(workspaces.open("shop", shop).getOpened());
        assertFalse(workspaces.open("shop", shop).getOpened(), "it is open already");
        assertEquals(shop, workspaces.get("shop").getDirectory());
        ToolCall pwd = ToolCall.of("bash", Map.of("command", "pwd", "description", "Tests"));
        assertEquals(shop + "\n", client.run(pwd.workspace("shop")).text());
        Files.writeString(Path.of(shop, "stock"), "3");
        assertEquals("3", client.files().workspace("shop").read("stock").text());

        ToolCall sleeps = ToolCall.of("bash", Map.of("command", "echo up; exec sleep 1000", "description", "Tests"));
        try (Execution execution = client.execute(sleeps.workspace("shop"))) {
            for (CallEvent event : execution) {
                if (event instanceof CallEvent.Output) {
                    break;
                }
            }
            assertEquals(1, workspaces.close("shop").getCancelledCalls());
            assertFalse(execution.result().ok());
        }
        refused(Status.Code.NOT_FOUND, "NOT_FOUND", () -> workspaces.get("shop"));
        refused(Status.Code.NOT_FOUND, "NOT_FOUND", () -> workspaces.close("shop"));
    }

    @Test
    void allPagesAreListed() throws Exception {
        for (String name : List.of("page-a", "page-b", "page-c")) {
            workspaces.open(name, folder(name));
        }
        ListWorkspacesRequest small =
                ListWorkspacesRequest.newBuilder().setPageSize(1).build();
        List<String> names = workspaces.list(small).map(WorkspaceInfo::getName).toList();
        assertTrue(names.containsAll(List.of("default", "page-a", "page-b", "page-c")), names.toString());
        assertTrue(workspaces.list().map(WorkspaceInfo::getName).toList().containsAll(names));
        assertEquals("default", workspaces.get("").getName());
    }

    @Test
    void whatMayNotBeOpenedIsRefused() throws Exception {
        String taken = folder("taken");
        workspaces.open("taken", taken);
        refused(Status.Code.NOT_FOUND, "FOLDER_MISSING", () -> workspaces.open("made", taken + "-not-there"));
        OpenWorkspaceRequest made = OpenWorkspaceRequest.newBuilder()
                .setWorkspace("made")
                .setDirectory(taken + "-not-there")
                .setCreate(true)
                .build();
        assertTrue(workspaces.open(made).getOpened());
        String another = folder("another");
        refused(Status.Code.ALREADY_EXISTS, "WORKSPACE_NAME_TAKEN", () -> workspaces.open("taken", another));
        refused(Status.Code.FAILED_PRECONDITION, "WORKSPACES_OVERLAP", () -> workspaces.open("double", taken));
        refused(Status.Code.PERMISSION_DENIED, "OUTSIDE_ROOTS", () -> workspaces.open("outside", "/usr"));
        refused(Status.Code.INVALID_ARGUMENT, "INVALID_FIELD", () -> workspaces.open("..", another));
        refused(Status.Code.FAILED_PRECONDITION, "WORKSPACE_CONFIGURED", () -> workspaces.close("default"));
    }
}
