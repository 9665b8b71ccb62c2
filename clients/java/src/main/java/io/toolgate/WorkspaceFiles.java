package io.toolgate;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.toolgate.v1.ArchiveEnd;
import io.toolgate.v1.ArchiveTarget;
import io.toolgate.v1.ByteRange;
import io.toolgate.v1.CallContext;
import io.toolgate.v1.CallStart;
import io.toolgate.v1.CreateFolderRequest;
import io.toolgate.v1.CreateFolderResponse;
import io.toolgate.v1.DeleteFileRequest;
import io.toolgate.v1.DeleteFileResponse;
import io.toolgate.v1.DownloadArchiveRequest;
import io.toolgate.v1.FileInfo;
import io.toolgate.v1.FileServiceGrpc;
import io.toolgate.v1.ListFilesRequest;
import io.toolgate.v1.MoveFileRequest;
import io.toolgate.v1.MoveFileResponse;
import io.toolgate.v1.ReadFileRequest;
import io.toolgate.v1.StatFileRequest;
import io.toolgate.v1.Unattended;
import io.toolgate.v1.UploadArchiveRequest;
import io.toolgate.v1.UploadArchiveResponse;
import io.toolgate.v1.UploadFileRequest;
import io.toolgate.v1.UploadFileResponse;
import io.toolgate.v1.WatchFilesRequest;
import io.toolgate.v1.WriteFileRequest;
import io.toolgate.v1.WriteFileResponse;
import io.toolgate.v1.WriteTarget;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.jspecify.annotations.Nullable;

/**
 * The files of a workspace, for front ends that show and change them. Immutable: {@link #workspace} and the other methods that
 * say in whose name return another one.
 *
 * <p>A path is relative to the workspace's folder, or absolute and inside it; an empty one is that folder. What leads out of
 * it is refused with the reason {@code OUTSIDE_WORKSPACE}. Looking asks nobody: what a person would have to be asked about
 * is refused with {@code PERMISSION_NEEDED}.
 *
 * <p>A change is a call of the tool {@code files}, whose id its answer has, and which {@link ToolgateClient#revert(String)}
 * takes back. It returns when the call has ended, is done whole or not at all, and is asked for again after a lost connection
 * without being made twice. Where a person is asked and nobody listens it is refused at once, unless it is {@link #waiting}.
 * What the call could not do is a {@link ToolgateException} whose metadata have the {@code call_id}.
 */
public final class WorkspaceFiles {
    /** The deepest that the service looks. */
    private static final int ANY_DEPTH = 64;

    private final Rpc rpc;
    private final CallStart options;
    private final Set<AutoCloseable> open;

    WorkspaceFiles(Rpc rpc, CallStart options, Set<AutoCloseable> open) {
        this.rpc = rpc;
        this.options = options;
        this.open = open;
    }

    /**
     * Names the workspace.
     *
     * @param workspace its name
     * @return its files
     */
    public WorkspaceFiles workspace(String workspace) {
        return withContext(context -> context.setWorkspace(workspace));
    }

    /**
     * Names the session.
     *
     * @param session its id
     * @return the files as it sees them
     */
    public WorkspaceFiles session(String session) {
        return withContext(context -> context.setSessionId(session));
    }

    /**
     * Names the agent, whose rules hold.
     *
     * @param agent its name
     * @return the files as it sees them
     */
    public WorkspaceFiles agent(String agent) {
        return withContext(context -> context.setAgent(agent));
    }

    /**
     * Names the call on whose behalf files are looked at and changed.
     *
     * @param callId its id
     * @return the files as it sees them
     */
    public WorkspaceFiles parent(String callId) {
        return withContext(context -> context.setParentCallId(callId));
    }

    /**
     * Has changes wait for a person who is not there yet.
     *
     * @param longest how long each prompt waits, more than zero and at most 24 hours
     * @return files whose changes wait
     */
    public WorkspaceFiles waiting(Duration longest) {
        return with(
                changes -> changes.setUnattended(Unattended.UNATTENDED_WAIT).setWaitTimeout(Protos.duration(longest)));
    }

    private WorkspaceFiles with(Consumer<CallStart.Builder> change) {
        CallStart.Builder changed = options.toBuilder();
        change.accept(changed);
        return new WorkspaceFiles(rpc, changed.build(), open);
    }

    private WorkspaceFiles withContext(Consumer<CallContext.Builder> change) {
        return with(changed -> change.accept(changed.getContextBuilder()));
    }

    /** How a change makes its call, however often it must be asked for. */
    private CallStart call(CallStart asked) {
        return filled(asked, options);
    }

    private CallStart call(String callId) {
        return call(CallStart.newBuilder().setCallId(callId).build());
    }

    /** Fills in what is left out, an id for the call included. */
    static CallStart filled(CallStart asked, CallStart defaults) {
        CallStart.Builder filled = defaults.toBuilder().mergeFrom(asked);
        if (filled.getCallId().isEmpty()) {
            filled.setCallId(Uuid7.next());
        }
        return filled.build();
    }

    private CallContext context(CallContext asked) {
        return ToolCall.filled(asked, options.getContext());
    }

    /**
     * Says what is at a path.
     *
     * @param path the path
     * @return it; of a link what it leads to
     */
    public FileInfo stat(String path) {
        return stat(StatFileRequest.newBuilder().setPath(path).build());
    }

    /**
     * Says what is at a path as the request wants it, with the SHA-256 of a file for instance.
     *
     * @param request the path; what it leaves out of the context is as here
     * @return it; of a link what it leads to
     */
    public FileInfo stat(StatFileRequest request) {
        StatFileRequest sent =
                request.toBuilder().setContext(context(request.getContext())).build();
        return rpc.call(FileServiceGrpc.getStatFileMethod(), sent).getFile();
    }

    /**
     * Lists what is in a folder, without what ignore rules name.
     *
     * @param folder the folder
     * @return by path, fetched as the stream comes to it
     */
    public Stream<FileInfo> list(String folder) {
        return list(ListFilesRequest.newBuilder().setPath(folder).build());
    }

    /**
     * Lists what is in a folder and in all folders below it, without what ignore rules name.
     *
     * @param folder the folder
     * @return by path, a folder before what is in it, fetched as the stream comes to it
     */
    public Stream<FileInfo> listTree(String folder) {
        return list(ListFilesRequest.newBuilder()
                .setPath(folder)
                .setDepth(ANY_DEPTH)
                .build());
    }

    /**
     * Lists as the request says: down to a depth, or with what ignore rules name.
     *
     * @param request what to list; its page size says how much is fetched at a time, what it leaves out of the context is as
     *     here
     * @return by path, a folder before what is in it, fetched as the stream comes to it
     */
    public Stream<FileInfo> list(ListFilesRequest request) {
        ListFilesRequest sent =
                request.toBuilder().setContext(context(request.getContext())).build();
        return Pages.stream(
                token -> rpc.call(
                        FileServiceGrpc.getListFilesMethod(),
                        sent.toBuilder().setPageToken(token).build()),
                page -> page.getFilesList().stream(),
                page -> page.getNextPageToken());
    }

    /**
     * Reads a file into memory.
     *
     * @param path the file
     * @return all of it, with its SHA-256
     */
    public FileContent read(String path) {
        return read(reading(path).setWithSha256(true).build());
    }

    /**
     * Reads a range of a file into memory.
     *
     * @param path the file
     * @param offset the first byte, from 0
     * @param limit at most this many; 0 for all that follow
     * @return the bytes, without the SHA-256
     */
    public FileContent read(String path, long offset, long limit) {
        return read(reading(path).setRange(range(offset, limit)).build());
    }

    /** Returns what the service says of something that was read to its end. */
    private static <T> T whole(@Nullable T said, String path) {
        if (said == null) {
            throw ToolgateException.of(
                    Status.Code.UNAVAILABLE, "the service ended the stream of " + path + "; read it again");
        }
        return said;
    }

    private FileContent read(ReadFileRequest request) {
        try (FileInput input = new FileInput(rpc, request)) {
            ByteString bytes = ByteString.readFrom(input);
            return new FileContent(whole(input.info(), request.getPath()), bytes);
        } catch (IOException impossible) {
            throw new IllegalStateException("a file that is read throws no checked exceptions", impossible);
        }
    }

    /**
     * Reads a file as a stream.
     *
     * @param path the file
     * @return its bytes; goes on by itself after a lost connection, and throws {@link ToolgateException} with {@code
     *     FILE_CHANGED}, at its end at the latest, if somebody has written to the file meanwhile
     */
    public InputStream open(String path) {
        return open(path, 0, 0);
    }

    /**
     * Reads a range of a file as a stream.
     *
     * @param path the file
     * @param offset the first byte, from 0
     * @param limit at most this many; 0 for all that follow
     * @return the bytes, as {@link #open(String)} does
     */
    public InputStream open(String path, long offset, long limit) {
        return new FileInput(rpc, reading(path).setRange(range(offset, limit)).build());
    }

    private ReadFileRequest.Builder reading(String path) {
        return ReadFileRequest.newBuilder().setContext(options.getContext()).setPath(path);
    }

    private static ByteRange range(long offset, long limit) {
        return ByteRange.newBuilder().setOffset(offset).setLimit(limit).build();
    }

    /**
     * Writes a text, whatever is there.
     *
     * @param path the file; folders above it are made
     * @param text the whole content
     * @return the call, and the file as it is then
     */
    public WriteFileResponse write(String path, String text) {
        return write(path, text, WriteOptions.anyway());
    }

    /**
     * Writes a text.
     *
     * @param path the file; folders above it are made
     * @param text the whole content
     * @param how what the file must be before, and what it is then
     * @return the call, and the file as it is then
     */
    public WriteFileResponse write(String path, String text, WriteOptions how) {
        return write(path, text.getBytes(StandardCharsets.UTF_8), how);
    }

    /**
     * Writes a file that fits into one message; {@link #upload} writes larger ones.
     *
     * @param path the file; folders above it are made
     * @param content the whole content
     * @param how what the file must be before, and what it is then
     * @return the call, and the file as it is then
     */
    public WriteFileResponse write(String path, byte[] content, WriteOptions how) {
        WriteFileRequest request = WriteFileRequest.newBuilder()
                .setCall(call(how.callId()))
                .setTarget(target(path, how))
                .setContent(ByteString.copyFrom(content))
                .build();
        return rpc.await(FileServiceGrpc.getWriteFileMethod(), request);
    }

    /**
     * Writes a file of at most 64 MiB.
     *
     * @param path the file; folders above it are made
     * @param content the whole content; it is kept in memory until it is written, and not closed
     * @param how what the file must be before, and what it is then
     * @return the call, and the file as it is then
     * @throws IOException if the content cannot be read
     */
    public UploadFileResponse upload(String path, InputStream content, WriteOptions how) throws IOException {
        return upload(path, Upload.kept(content), how);
    }

    /**
     * Writes a copy of a file of this machine, of at most 64 MiB.
     *
     * @param path the file; folders above it are made
     * @param content the file to copy
     * @param how what the file must be before, and what it is then
     * @return the call, and the file as it is then
     * @throws IOException if the content cannot be read
     */
    public UploadFileResponse upload(String path, Path content, WriteOptions how) throws IOException {
        return upload(path, () -> Files.newInputStream(content), how);
    }

    private UploadFileResponse upload(String path, Upload.Source content, WriteOptions how) throws IOException {
        UploadFileRequest first = UploadFileRequest.newBuilder()
                .setCall(call(how.callId()))
                .setTarget(target(path, how))
                .build();
        return new Upload<>(
                        rpc,
                        FileServiceGrpc.getUploadFileMethod(),
                        bytes ->
                                UploadFileRequest.newBuilder().setContent(bytes).build())
                .send(first, content);
    }

    private static WriteTarget target(String path, WriteOptions how) {
        return how.target().toBuilder().setPath(path).build();
    }

    /**
     * Makes a folder, with those above it. One that is there is left as it is.
     *
     * @param path the folder
     * @return the call, and the folder as it is then
     */
    public CreateFolderResponse createFolder(String path) {
        return createFolder(CreateFolderRequest.newBuilder().setPath(path).build());
    }

    /**
     * Makes a folder as the request says.
     *
     * @param request the folder; what it leaves out of the call is as here
     * @return the call, and the folder as it is then
     */
    public CreateFolderResponse createFolder(CreateFolderRequest request) {
        CreateFolderRequest sent =
                request.toBuilder().setCall(call(request.getCall())).build();
        return rpc.await(FileServiceGrpc.getCreateFolderMethod(), sent);
    }

    /**
     * Moves a file, a link, or a folder with all that is in it to a path where nothing is.
     *
     * @param path what to move
     * @param newPath its new path, not only the folder that it comes into
     * @return the call
     */
    public MoveFileResponse move(String path, String newPath) {
        return move(
                MoveFileRequest.newBuilder().setPath(path).setNewPath(newPath).build());
    }

    /**
     * Moves as the request says, only a file with a known SHA-256 for instance.
     *
     * @param request what to move where; what it leaves out of the call is as here
     * @return the call
     */
    public MoveFileResponse move(MoveFileRequest request) {
        MoveFileRequest sent =
                request.toBuilder().setCall(call(request.getCall())).build();
        return rpc.await(FileServiceGrpc.getMoveFileMethod(), sent);
    }

    /**
     * Deletes a file or a link. A folder is refused with {@code IS_FOLDER}: see {@link #deleteTree}.
     *
     * @param path what to delete
     * @return the call
     */
    public DeleteFileResponse delete(String path) {
        return delete(DeleteFileRequest.newBuilder().setPath(path).build());
    }

    /**
     * Deletes what is at a path: also a folder with all that is in it.
     *
     * @param path what to delete
     * @return the call
     */
    public DeleteFileResponse deleteTree(String path) {
        return delete(
                DeleteFileRequest.newBuilder().setPath(path).setRecursive(true).build());
    }

    /**
     * Deletes as the request says, only a file with a known SHA-256 for instance.
     *
     * @param request what to delete; what it leaves out of the call is as here
     * @return the call
     */
    public DeleteFileResponse delete(DeleteFileRequest request) {
        DeleteFileRequest sent =
                request.toBuilder().setCall(call(request.getCall())).build();
        return rpc.await(FileServiceGrpc.getDeleteFileMethod(), sent);
    }

    /**
     * Watches a folder and all that is in it from now on.
     *
     * @param folder the folder
     * @return the watch, which has begun; close it
     */
    public FileWatch watch(String folder) {
        return watch(folder, "");
    }

    /**
     * Watches a folder from where an earlier watch was.
     *
     * @param folder the folder
     * @param cursor the cursor of the last event that is known, of the same workspace
     * @return the watch, which has begun; close it
     */
    public FileWatch watch(String folder, String cursor) {
        WatchFilesRequest request = WatchFilesRequest.newBuilder()
                .setContext(options.getContext())
                .setPath(folder)
                .setCursor(cursor)
                .build();
        FileWatch watch = new FileWatch(rpc, request, open::remove);
        open.add(watch);
        return watch;
    }

    /**
     * Fetches a folder as a tar archive, not compressed, without what ignore rules name.
     *
     * @param folder the folder
     * @param target takes the archive; it is not closed
     * @return how many entries there are, and what was left out
     * @throws IOException if the target cannot be written to
     */
    public ArchiveEnd downloadArchive(String folder, OutputStream target) throws IOException {
        return downloadArchive(
                DownloadArchiveRequest.newBuilder().setPath(folder).build(), target);
    }

    /**
     * Fetches a folder as a tar archive as the request says: with what ignore rules name, for instance.
     *
     * <p>When the connection is lost after a part has been written, that is thrown: begin again, with another target.
     *
     * @param request the folder; what it leaves out of the context is as here
     * @param target takes the archive; it is not closed
     * @return how many entries there are, and what was left out
     * @throws IOException if the target cannot be written to
     */
    public ArchiveEnd downloadArchive(DownloadArchiveRequest request, OutputStream target) throws IOException {
        DownloadArchiveRequest sent =
                request.toBuilder().setContext(context(request.getContext())).build();
        try (ArchiveInput input = ArchiveInput.begin(rpc, sent)) {
            input.transferTo(target);
            return whole(input.end(), request.getPath());
        }
    }

    /**
     * Writes the files and folders of a tar archive, not compressed and of at most 64 MiB, into a folder: all or none.
     *
     * @param folder the folder, made if it is not there; files in it that the archive has are replaced
     * @param archive the archive; it is kept in memory until it is written, and not closed
     * @return the call
     * @throws IOException if the archive cannot be read
     */
    public UploadArchiveResponse uploadArchive(String folder, InputStream archive) throws IOException {
        return uploadArchive(ArchiveTarget.newBuilder().setPath(folder).build(), archive);
    }

    /**
     * Writes the files and folders of a tar archive as the target says: only if none of the files is there, for instance.
     *
     * @param target the folder
     * @param archive the archive; it is kept in memory until it is written, and not closed
     * @return the call
     * @throws IOException if the archive cannot be read
     */
    public UploadArchiveResponse uploadArchive(ArchiveTarget target, InputStream archive) throws IOException {
        UploadArchiveRequest first = UploadArchiveRequest.newBuilder()
                .setCall(call(""))
                .setTarget(target)
                .build();
        return new Upload<>(
                        rpc,
                        FileServiceGrpc.getUploadArchiveMethod(),
                        bytes ->
                                UploadArchiveRequest.newBuilder().setData(bytes).build())
                .send(first, Upload.kept(archive));
    }
}
