package io.toolgate;

import static io.toolgate.Refusals.refused;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.grpc.Status;
import io.toolgate.testing.TestServer;
import io.toolgate.v1.ArchiveEnd;
import io.toolgate.v1.ArchiveTarget;
import io.toolgate.v1.CallStart;
import io.toolgate.v1.CallState;
import io.toolgate.v1.CreateFolderRequest;
import io.toolgate.v1.DeleteFileRequest;
import io.toolgate.v1.DownloadArchiveRequest;
import io.toolgate.v1.FileInfo;
import io.toolgate.v1.FileKind;
import io.toolgate.v1.ListFilesRequest;
import io.toolgate.v1.MoveFileRequest;
import io.toolgate.v1.StatFileRequest;
import io.toolgate.v1.WriteFileResponse;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.condition.EnabledIfEnvironmentVariable;
import org.junit.jupiter.api.io.TempDir;

/** Files of a workspace of the real service, whose rules let {@code notes/} be changed and nothing else. */
@EnabledIfEnvironmentVariable(named = "TOOLGATE_BIN", matches = ".+")
@Timeout(90)
class FilesTest {
    private static TestServer server;
    private static ToolgateClient client;
    private static WorkspaceFiles files;

    @BeforeAll
    static void start() throws Exception {
        server = new TestServer(Rules.JSON);
        client = server.client();
        files = client.files();
    }

    @AfterAll
    static void stop() {
        client.close();
        server.close();
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static Path put(String path, String text) throws IOException {
        Path file = server.work().resolve(path);
        Files.createDirectories(file.getParent());
        return Files.writeString(file, text);
    }

    private static List<String> paths(Stream<FileInfo> listed) {
        return listed.map(FileInfo::getPath).toList();
    }

    @Test
    void aFileIsWrittenReadAndTakenBack() throws Exception {
        WriteFileResponse written = files.write("notes/new/a.txt", "one\n");
        assertEquals("notes/new/a.txt", written.getFile().getPath());
        FileContent content = files.read("notes/new/a.txt");
        assertEquals("one\n", content.text());
        assertEquals(written.getFile().getSha256(), content.info().getSha256());
        assertEquals("files", client.get(written.getCallId()).getTool());
        try (Execution revert = client.revert(written.getCallId())) {
            assertTrue(revert.result().ok(), revert.result().text());
        }
        refused(Status.Code.NOT_FOUND, "NOT_FOUND", () -> files.read("notes/new/a.txt"));
        refused(Status.Code.NOT_FOUND, "NOT_FOUND", () -> files.stat("notes/new/a.txt"));
        refused(Status.Code.NOT_FOUND, "NOT_FOUND", () -> files.list("notes/nowhere"));
    }

    @Test
    void whatSomebodyElseWroteIsNotOverwritten() throws Exception {
        String known = files.write(
                        "notes/shared", bytes("mine"), WriteOptions.ifAbsent().mode(0750))
                .getFile()
                .getSha256();
        Path file = server.work().resolve("notes/shared");
        assertEquals(
                PosixFilePermissions.fromString("rwxr-x---"), Files.getPosixFilePermissions(file), "the mode is set");
        refused(
                Status.Code.ALREADY_EXISTS,
                "ALREADY_THERE",
                () -> files.write("notes/shared", bytes("again"), WriteOptions.ifAbsent()));
        files.write("notes/shared", bytes("mine again"), WriteOptions.ifSha256(known));
        ToolgateException differs = refused(
                Status.Code.FAILED_PRECONDITION,
                "CONTENT_DIFFERS",
                () -> files.write("notes/shared", bytes("late"), WriteOptions.ifSha256(known)));
        assertEquals(
                CallState.CALL_STATE_FAILED,
                client.get(differs.metadata().get("call_id")).getState());
        MoveFileRequest move = MoveFileRequest.newBuilder()
                .setPath("notes/shared")
                .setNewPath("notes/moved")
                .setIfSha256(known)
                .build();
        refused(Status.Code.FAILED_PRECONDITION, "CONTENT_DIFFERS", () -> files.move(move));
        DeleteFileRequest delete = DeleteFileRequest.newBuilder()
                .setPath("notes/shared")
                .setIfSha256(known)
                .build();
        refused(Status.Code.FAILED_PRECONDITION, "CONTENT_DIFFERS", () -> files.delete(delete));
        refused(
                Status.Code.INVALID_ARGUMENT,
                "INVALID_FIELD",
                () -> files.write("notes/shared", bytes(""), WriteOptions.ifSha256("none")));
        assertEquals("mine again", Files.readString(file));
    }

    @Test
    void aChangeWithAnIdIsMadeOnce() throws Exception {
        WriteOptions once = WriteOptions.anyway().callId("write-once");
        assertEquals(
                "write-once", files.write("notes/once", bytes("first"), once).getCallId());
        put("notes/once", "meanwhile");
        assertEquals(
                "write-once", files.write("notes/once", bytes("first"), once).getCallId());
        assertEquals("meanwhile", files.read("notes/once").text());
        refused(Status.Code.ALREADY_EXISTS, "CALL_ID_TAKEN", () -> files.write("notes/once", bytes("other"), once));
        CallStart folderOnce = CallStart.newBuilder().setCallId("folder-once").build();
        CreateFolderRequest folder = CreateFolderRequest.newBuilder()
                .setCall(folderOnce)
                .setPath("notes/folder-once")
                .build();
        assertEquals("folder-once", files.createFolder(folder).getCallId());
        assertNotEquals(
                files.createFolder("notes/b").getCallId(),
                files.createFolder("notes/b").getCallId());
    }

    @Test
    void rulesAndPeopleDecide() throws Exception {
        put("sealed/a", "sealed");
        put("asked/a", "asked");
        refused(Status.Code.PERMISSION_DENIED, "DENIED_BY_RULE", () -> files.read("sealed/a"));
        refused(Status.Code.PERMISSION_DENIED, "DENIED_BY_RULE", () -> files.delete("sealed/a"));
        refused(Status.Code.PERMISSION_DENIED, "PERMISSION_NEEDED", () -> files.stat("asked/a"));
        refused(Status.Code.PERMISSION_DENIED, "OUTSIDE_WORKSPACE", () -> files.read("../outside"));
        refused(Status.Code.PERMISSION_DENIED, "OUTSIDE_WORKSPACE", () -> files.write("/tmp/outside", "x"));
        refused(Status.Code.PERMISSION_DENIED, "PERMISSION_NEEDED", () -> files.write("unanswered", "x"));
        ApprovalOptions options = ApprovalOptions.named("ann").session("files");
        PromptHandler handler = prompt -> {
            String diff = ((PermissionPrompt) prompt).diff().orElse("");
            return diff.contains("bad") ? Decision.reject("not that") : Decision.once();
        };
        WorkspaceFiles asked = files.session("files").waiting(Duration.ofSeconds(60));
        CompletableFuture<WriteFileResponse> early =
                CompletableFuture.supplyAsync(() -> asked.write("early", "waited for\n"));
        try (Approvals approvals = client.approvals(options, handler)) {
            early.get(60, TimeUnit.SECONDS);
            assertEquals("waited for\n", Files.readString(server.work().resolve("early")));
            refused(Status.Code.PERMISSION_DENIED, "REJECTED", () -> asked.write("rejected", "bad\n"));
            assertFalse(approvals.done().isDone());
        }
        assertFalse(Files.exists(server.work().resolve("rejected")));
        refused(
                Status.Code.PERMISSION_DENIED,
                "PERMISSION_NEEDED",
                () -> files.session("alone").waiting(Duration.ofMillis(300)).write("late", "x"));
    }

    @Test
    void whatIsAskedForInAnothersNameFollowsHisRules() throws Exception {
        put("notes/known", "known");
        assertEquals("known", files.agent("reader").read("notes/known").text());
        refused(
                Status.Code.PERMISSION_DENIED,
                "DENIED_BY_RULE",
                () -> files.agent("reader").write("notes/known", "changed"));
        refused(
                Status.Code.INVALID_ARGUMENT,
                "INVALID_FIELD",
                () -> files.agent("nobody").stat("notes"));
        refused(
                Status.Code.NOT_FOUND,
                "NOT_FOUND",
                () -> files.workspace("nowhere").stat(""));
        refused(Status.Code.NOT_FOUND, "NOT_FOUND", () -> files.parent("nobody").list(""));
    }

    @Test
    void aWaitingChangeOutlivesItsConnection() throws Exception {
        CompletableFuture<Void> asked = new CompletableFuture<>();
        CompletableFuture<Void> lost = new CompletableFuture<>();
        ApprovalOptions options = ApprovalOptions.named("ann").session("lost");
        try (CuttingProxy proxy = new CuttingProxy(server.socket(), Long.MAX_VALUE);
                ToolgateClient cut = ToolgateClient.connect(proxy.target());
                Approvals approvals = client.approvals(options, prompt -> {
                    asked.complete(null);
                    lost.get(30, TimeUnit.SECONDS);
                    return Decision.once();
                })) {
            WorkspaceFiles waiting = cut.files().session("lost").waiting(Duration.ofMinutes(5));
            CompletableFuture<WriteFileResponse> written =
                    CompletableFuture.supplyAsync(() -> waiting.write("lost", "lost"));
            asked.get(30, TimeUnit.SECONDS);
            proxy.cut();
            lost.complete(null);
            written.get(30, TimeUnit.SECONDS);
            assertFalse(approvals.done().isDone());
        }
        assertEquals("lost", Files.readString(server.work().resolve("lost")));
    }

    @Test
    void foldersAreListedInPagesAsDeepAsWanted() throws Exception {
        for (int index = 0; index < 5; index++) {
            put("tree/deep/" + index, "x");
        }
        put("tree/.ignore", "left-out\n");
        put("tree/left-out", "x");
        Files.createSymbolicLink(server.work().resolve("tree/link"), Path.of("deep/0"));
        assertEquals(List.of("tree/.ignore", "tree/deep", "tree/link"), paths(files.list("tree")));
        List<String> all = List.of(
                "tree/.ignore",
                "tree/deep",
                "tree/deep/0",
                "tree/deep/1",
                "tree/deep/2",
                "tree/deep/3",
                "tree/deep/4",
                "tree/link");
        assertEquals(all, paths(files.listTree("tree")));
        ListFilesRequest pages = ListFilesRequest.newBuilder()
                .setPath("tree")
                .setDepth(2)
                .setPageSize(2)
                .setIncludeIgnored(true)
                .build();
        List<String> withIgnored = new ArrayList<>(all);
        withIgnored.add(7, "tree/left-out");
        assertEquals(withIgnored, paths(files.list(pages)));
        assertEquals(FileKind.FILE_KIND_FILE, files.stat("tree/link").getKind());
        assertEquals("deep/0", files.stat("tree/link").getLinkTarget());
        StatFileRequest digested = StatFileRequest.newBuilder()
                .setPath("tree/deep/0")
                .setWithSha256(true)
                .build();
        assertEquals(
                files.read("tree/deep/0").info().getSha256(),
                files.stat(digested).getSha256());
        refused(Status.Code.FAILED_PRECONDITION, "NOT_A_FOLDER", () -> files.list("tree/deep/0"));
        refused(Status.Code.FAILED_PRECONDITION, "IS_FOLDER", () -> files.read("tree"));
    }

    @Test
    void aLargeFileIsSentAndReadOverCutConnections(@TempDir Path folder) throws Exception {
        byte[] large = new byte[3_000_000];
        new Random(1).nextBytes(large);
        Path local = Files.write(folder.resolve("large"), large);
        String sha256 = files.upload("notes/large", local, WriteOptions.anyway())
                .getFile()
                .getSha256();
        String streamed = files.upload("notes/streamed", new ByteArrayInputStream(large), WriteOptions.ifAbsent())
                .getFile()
                .getSha256();
        assertEquals(sha256, streamed);
        try (CuttingProxy proxy = new CuttingProxy(server.socket(), 700_000);
                ToolgateClient cut = ToolgateClient.connect(proxy.target());
                InputStream input = cut.files().open("notes/large")) {
            assertArrayEquals(large, input.readAllBytes());
            assertTrue(proxy.cuts() > 1, "the connection was cut");
        }
        byte[] part = java.util.Arrays.copyOfRange(large, 1_000_000, 1_000_100);
        FileContent range = files.read("notes/large", 1_000_000, 100);
        assertArrayEquals(part, range.bytes().toByteArray());
        assertEquals(3_000_000, range.info().getSizeBytes());
        try (InputStream input = files.open("notes/large", 2_999_990, 0)) {
            assertEquals(10, input.readAllBytes().length);
        }
        assertEquals(0, files.read("notes/large", 5_000_000, 10).bytes().size());
        refused(Status.Code.INVALID_ARGUMENT, "INVALID_FIELD", () -> files.read("notes/large", -1, 0));
    }

    @Test
    void whatCannotBeSentIsNotWritten(@TempDir Path folder) {
        assertThrows(
                NoSuchFileException.class,
                () -> files.upload("notes/none", folder.resolve("none"), WriteOptions.anyway()));
        InputStream broken = new InputStream() {
            @Override
            public int read() throws IOException {
                throw new FileNotFoundException("gone");
            }
        };
        assertThrows(FileNotFoundException.class, () -> files.upload("notes/none", broken, WriteOptions.anyway()));
        InputStream endless = new InputStream() {
            @Override
            public int read() {
                return 'x';
            }

            @Override
            public int read(byte[] target, int offset, int length) {
                return length;
            }
        };
        refused(
                Status.Code.FAILED_PRECONDITION,
                "FILE_TOO_LARGE",
                () -> files.upload("notes/none", endless, WriteOptions.anyway()));
        refused(
                Status.Code.INVALID_ARGUMENT,
                "INVALID_FIELD",
                () -> files.upload(
                        "notes/none",
                        new ByteArrayInputStream(new byte[0]),
                        WriteOptions.anyway().mode(01000)));
        assertFalse(Files.exists(server.work().resolve("notes/none")));
    }

    @Test
    void foldersAreMadeMovedAndDeleted() throws Exception {
        assertEquals(
                FileKind.FILE_KIND_FOLDER,
                files.createFolder("notes/from/a").getFile().getKind());
        put("notes/from/a/file", "x");
        refused(Status.Code.FAILED_PRECONDITION, "NOT_A_FOLDER", () -> files.createFolder("notes/from/a/file"));
        assertFalse(files.move("notes/from", "notes/to").getCallId().isEmpty());
        assertEquals("x", files.read("notes/to/a/file").text());
        refused(Status.Code.NOT_FOUND, "NOT_FOUND", () -> files.move("notes/from", "notes/again"));
        refused(Status.Code.ALREADY_EXISTS, "ALREADY_THERE", () -> files.move("notes/to", "notes/to/in"));
        refused(Status.Code.FAILED_PRECONDITION, "IS_FOLDER", () -> files.delete("notes/to"));
        files.delete("notes/to/a/file");
        put("notes/to/a/other", "x");
        files.deleteTree("notes/to");
        assertFalse(Files.exists(server.work().resolve("notes/to")));
        refused(Status.Code.NOT_FOUND, "NOT_FOUND", () -> files.delete("notes/to"));
    }

    @Test
    void archivesAreFetchedAndWritten() throws Exception {
        put("packed/a", "a");
        put("packed/in/b", "b");
        put("packed/.ignore", "left-out\n");
        put("packed/left-out", "x");
        ByteArrayOutputStream archive = new ByteArrayOutputStream();
        ArchiveEnd end = files.downloadArchive("packed", archive);
        assertEquals(4, end.getEntries());
        assertFalse(files.uploadArchive("notes/unpacked", new ByteArrayInputStream(archive.toByteArray()))
                .getCallId()
                .isEmpty());
        assertEquals("b", files.read("notes/unpacked/in/b").text());
        assertFalse(Files.exists(server.work().resolve("notes/unpacked/left-out")));
        ArchiveTarget absent = ArchiveTarget.newBuilder()
                .setPath("notes/unpacked")
                .setIfAbsent(true)
                .build();
        refused(
                Status.Code.ALREADY_EXISTS,
                "ALREADY_THERE",
                () -> files.uploadArchive(absent, new ByteArrayInputStream(archive.toByteArray())));
        refused(
                Status.Code.FAILED_PRECONDITION,
                "BAD_ARCHIVE",
                () -> files.uploadArchive("notes/unpacked", new ByteArrayInputStream(bytes("x".repeat(2000)))));
        DownloadArchiveRequest whole = DownloadArchiveRequest.newBuilder()
                .setPath("packed")
                .setIncludeIgnored(true)
                .build();
        assertEquals(
                5, files.downloadArchive(whole, new ByteArrayOutputStream()).getEntries());
        refused(
                Status.Code.FAILED_PRECONDITION,
                "NOT_A_FOLDER",
                () -> files.downloadArchive("packed/a", new ByteArrayOutputStream()));
    }

    @Test
    void anArchiveWhoseConnectionIsCutIsNoArchive() throws Exception {
        byte[] large = new byte[2_000_000];
        new Random(2).nextBytes(large);
        files.upload("notes/heavy/large", new ByteArrayInputStream(large), WriteOptions.anyway());
        try (CuttingProxy proxy = new CuttingProxy(server.socket(), 700_000);
                ToolgateClient cut = ToolgateClient.connect(proxy.target())) {
            ByteArrayOutputStream target = new ByteArrayOutputStream();
            ToolgateException lost =
                    assertThrows(ToolgateException.class, () -> cut.files().downloadArchive("notes/heavy", target));
            assertEquals(Status.Code.UNAVAILABLE, lost.code());
            assertTrue(target.size() > 0 && target.size() < large.length, target.size() + " bytes came");
        }
    }

    /** Collects the paths that are told to be there until this one is. */
    private static Set<String> until(String path, Iterator<FileEvent> events) {
        Set<String> there = new HashSet<>();
        while (!there.contains(path)) {
            if (events.next() instanceof FileEvent.Changed changed) {
                there.addAll(paths(changed.files().stream()));
                there.addAll(
                        changed.gonePaths().stream().map(gone -> "-" + gone).toList());
            }
        }
        return there;
    }

    @Test
    void aFolderIsWatchedOverCutConnections() throws Exception {
        put("seen/old", "old");
        String cursor;
        try (CuttingProxy proxy = new CuttingProxy(server.socket(), Long.MAX_VALUE);
                ToolgateClient cut = ToolgateClient.connect(proxy.target());
                FileWatch watch = cut.files().watch("seen")) {
            Iterator<FileEvent> events = watch.iterator();
            FileEvent.Watched watched = assertInstanceOf(FileEvent.Watched.class, events.next());
            assertFalse(watched.partial());
            put("seen/one", "one");
            until("seen/one", events);
            proxy.cut();
            put("seen/two", "two");
            Files.delete(server.work().resolve("seen/old"));
            Set<String> told = until("-seen/old", events);
            if (!told.contains("seen/two")) {
                until("seen/two", events);
            }
            put("seen/three", "three");
            FileEvent last = events.next();
            cursor = last.cursor();
            CompletableFuture.delayedExecutor(200, TimeUnit.MILLISECONDS).execute(watch::close);
            while (events.hasNext()) {
                cursor = events.next().cursor();
            }
        }
        put("seen/four", "four");
        try (FileWatch again = files.watch("seen", cursor)) {
            until("seen/four", again.iterator());
        }
    }

    @Test
    void aCursorThatIsTooOldIsAnExceptionOfItsOwn() throws Exception {
        try (TestServer mortal = new TestServer(Rules.JSON);
                ToolgateClient survivor = mortal.client();
                FileWatch watch = survivor.files().watch("")) {
            Iterator<FileEvent> events = watch.iterator();
            events.next();
            mortal.kill();
            mortal.start();
            CursorTooOldException old = assertThrows(CursorTooOldException.class, events::hasNext);
            assertEquals("CURSOR_TOO_OLD", old.reason());
            assertEquals(Status.Code.OUT_OF_RANGE, old.code());
            try (FileWatch anew = survivor.files().watch("")) {
                assertInstanceOf(FileEvent.Watched.class, anew.iterator().next());
            }
        }
    }

    @Test
    void whatCannotBeWatchedIsRefused() throws Exception {
        put("seen-not/file", "x");
        try (FileWatch nowhere = files.watch("nowhere");
                FileWatch file = files.watch("seen-not/file");
                FileWatch strange = files.watch("", "strange")) {
            refused(Status.Code.NOT_FOUND, "NOT_FOUND", () -> nowhere.iterator().next());
            refused(
                    Status.Code.FAILED_PRECONDITION,
                    "NOT_A_FOLDER",
                    () -> file.iterator().next());
            refused(
                    Status.Code.INVALID_ARGUMENT,
                    "INVALID_FIELD",
                    () -> strange.iterator().next());
        }
    }

    @Test
    void aClientThatIsClosedEndsItsWatches() throws Exception {
        ToolgateClient closing = server.client();
        Iterator<FileEvent> events = closing.files().watch("").iterator();
        events.next();
        CompletableFuture.delayedExecutor(200, TimeUnit.MILLISECONDS).execute(closing::close);
        while (events.hasNext()) {
            events.next();
        }
    }
}
