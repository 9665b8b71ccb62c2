package io.toolgate;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import com.google.protobuf.ByteString;
import io.grpc.Status;
import io.grpc.stub.StreamObserver;
import io.toolgate.v1.ArchiveEnd;
import io.toolgate.v1.ByteRange;
import io.toolgate.v1.DownloadArchiveRequest;
import io.toolgate.v1.DownloadArchiveResponse;
import io.toolgate.v1.FileInfo;
import io.toolgate.v1.FileServiceGrpc;
import io.toolgate.v1.FilesChanged;
import io.toolgate.v1.FilesHeartbeat;
import io.toolgate.v1.FilesMissed;
import io.toolgate.v1.FilesWatched;
import io.toolgate.v1.OutputServiceGrpc;
import io.toolgate.v1.ReadFileRequest;
import io.toolgate.v1.ReadFileResponse;
import io.toolgate.v1.ReadOutputRequest;
import io.toolgate.v1.ReadOutputResponse;
import io.toolgate.v1.UploadFileRequest;
import io.toolgate.v1.UploadFileResponse;
import io.toolgate.v1.WatchFilesRequest;
import io.toolgate.v1.WatchFilesResponse;
import io.toolgate.v1.WriteFileRequest;
import io.toolgate.v1.WriteFileResponse;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** How files and outputs are read, and files changed and watched, over connections that break. */
@Timeout(30)
class LostConnectionsTest {
    private static final byte[] TEXT = "0123456789".getBytes(java.nio.charset.StandardCharsets.UTF_8);

    /** What a stream carries before it ends, or breaks. */
    private record Stream(List<?> messages, Status end) {}

    private final Queue<Stream> streams = new ArrayDeque<>();
    private final List<Object> requests = new CopyOnWriteArrayList<>();
    private FakeService service;
    private ToolgateClient client;

    @BeforeEach
    void start() throws IOException {
        service = new FakeService(List.of(), List.of(new Outputs(), new Files()));
        client = service.client(Duration.ofSeconds(20), Duration.ofSeconds(20));
    }

    @AfterEach
    void stop() {
        client.close();
        service.close();
    }

    private void ends(Object... messages) {
        streams.add(new Stream(List.of(messages), Status.OK));
    }

    private void breaks(Object... messages) {
        streams.add(new Stream(List.of(messages), Status.UNAVAILABLE));
    }

    @SuppressWarnings("unchecked")
    private <T> void play(StreamObserver<T> target) {
        Stream stream = streams.remove();
        stream.messages().forEach(message -> target.onNext((T) message));
        if (stream.end().isOk()) {
            target.onCompleted();
        } else {
            target.onError(stream.end().asRuntimeException());
        }
    }

    private <Q, R> void play(Q request, StreamObserver<R> target) {
        requests.add(request);
        play(target);
    }

    private final class Outputs extends OutputServiceGrpc.OutputServiceImplBase {
        @Override
        public void readOutput(ReadOutputRequest request, StreamObserver<ReadOutputResponse> target) {
            play(request.getBytes(), target);
        }
    }

    private final class Files extends FileServiceGrpc.FileServiceImplBase {
        @Override
        public void readFile(ReadFileRequest request, StreamObserver<ReadFileResponse> target) {
            play(request.getRange(), target);
        }

        @Override
        public void watchFiles(WatchFilesRequest request, StreamObserver<WatchFilesResponse> target) {
            play(request.getCursor(), target);
        }

        @Override
        public void writeFile(WriteFileRequest request, StreamObserver<WriteFileResponse> target) {
            play(request, target);
        }

        @Override
        public StreamObserver<UploadFileRequest> uploadFile(StreamObserver<UploadFileResponse> target) {
            List<UploadFileRequest> pieces = new ArrayList<>();
            return new StreamObserver<>() {
                @Override
                public void onNext(UploadFileRequest piece) {
                    pieces.add(piece);
                }

                @Override
                public void onError(Throwable gone) {
                    requests.add(gone);
                }

                @Override
                public void onCompleted() {
                    play(List.copyOf(pieces), target);
                }
            };
        }

        @Override
        public void downloadArchive(DownloadArchiveRequest request, StreamObserver<DownloadArchiveResponse> target) {
            play(request.getPath(), target);
        }
    }

    private static ByteRange range(long offset, long limit) {
        return ByteRange.newBuilder().setOffset(offset).setLimit(limit).build();
    }

    private static ByteString part(int from, int to) {
        return ByteString.copyFrom(TEXT, from, to - from);
    }

    private static ReadOutputResponse output(int from, int to) {
        return ReadOutputResponse.newBuilder()
                .setOffset(from)
                .setData(part(from, to))
                .build();
    }

    private static ReadFileResponse file(int from, long size) {
        return ReadFileResponse.newBuilder()
                .setOffset(from)
                .setFile(FileInfo.newBuilder().setPath("f").setSizeBytes(size))
                .build();
    }

    private static ReadFileResponse bytes(int from, int to) {
        return ReadFileResponse.newBuilder()
                .setOffset(from)
                .setData(part(from, to))
                .build();
    }

    @Test
    void anOutputIsReadOnAndNotBeyondTheRange() throws Exception {
        breaks(output(2, 4));
        breaks(output(4, 6));
        ends(output(5, 6));
        try (InputStream input = client.output("o").read(2, 4)) {
            assertEquals("2345", new String(input.readAllBytes()));
        }
        assertEquals(List.of(range(2, 4), range(4, 2), range(5, 1)), requests);
    }

    @Test
    void aFileIsReadOnAndNotBeyondTheRange() {
        breaks(file(2, 10), bytes(2, 4));
        breaks(file(4, 10), bytes(4, 6));
        ends(file(5, 10), bytes(5, 6));
        FileContent content = client.files().read("f", 2, 4);
        assertEquals("2345", content.text());
        assertEquals(10, content.info().getSizeBytes());
        assertEquals(List.of(range(2, 4), range(4, 2), range(5, 1)), requests);
    }

    @Test
    void aFileThatChangedMeanwhileIsNotPutTogether() {
        breaks(file(0, 10), bytes(0, 4));
        ends(file(4, 11), bytes(4, 10));
        ToolgateException changed =
                assertThrows(ToolgateException.class, () -> client.files().read("f"));
        assertEquals(Status.Code.ABORTED, changed.code());
        assertEquals("FILE_CHANGED", changed.reason());
    }

    @Test
    void aChangeIsAskedForAgainWithItsId() {
        breaks();
        breaks();
        ends(WriteFileResponse.newBuilder().setCallId("made").build());
        assertEquals("made", client.files().write("f", "text").getCallId());
        assertEquals(3, requests.size());
        assertEquals(1, requests.stream().distinct().count());
        assertFalse(((WriteFileRequest) requests.get(0)).getCall().getCallId().isEmpty());
    }

    @Test
    void aContentIsSentAgainFromItsBeginning() throws Exception {
        breaks();
        ends(UploadFileResponse.newBuilder().setCallId("made").build());
        byte[] content = new byte[200_000];
        client.files().upload("f", new ByteArrayInputStream(content), WriteOptions.ifAbsent());
        assertEquals(2, requests.size());
        assertEquals(requests.get(0), requests.get(1));
        List<?> pieces = (List<?>) requests.get(1);
        int sent = pieces.stream()
                .mapToInt(piece -> ((UploadFileRequest) piece).getContent().size())
                .sum();
        assertEquals(content.length, sent);
        UploadFileRequest first = (UploadFileRequest) pieces.get(0);
        assertFalse(first.getCall().getCallId().isEmpty());
        assertEquals("f", first.getTarget().getPath());
    }

    private static WatchFilesResponse news(String cursor, Function<WatchFilesResponse.Builder, ?> what) {
        WatchFilesResponse.Builder news = WatchFilesResponse.newBuilder().setCursor(cursor);
        what.apply(news);
        return news.build();
    }

    @Test
    void aWatchGoesOnBehindTheLastCursor() {
        breaks();
        breaks(
                news("1", news -> news.setWatched(FilesWatched.getDefaultInstance())),
                news("2", news -> news.setChanged(FilesChanged.newBuilder().addGonePaths("gone"))),
                news("3", news -> news.setHeartbeat(FilesHeartbeat.getDefaultInstance())));
        ends(news("4", news -> news.setWatched(FilesWatched.getDefaultInstance())));
        breaks(
                news("4", news -> news.setWatched(FilesWatched.getDefaultInstance())),
                news("5", news -> news.setMissed(FilesMissed.newBuilder().setPartial(true))));
        try (FileWatch watch = client.files().watch("")) {
            Iterator<FileEvent> events = watch.iterator();
            assertInstanceOf(FileEvent.Watched.class, events.next());
            assertEquals(
                    List.of("gone"),
                    assertInstanceOf(FileEvent.Changed.class, events.next()).gonePaths());
            FileEvent.Missed missed = assertInstanceOf(FileEvent.Missed.class, events.next());
            assertEquals("5", missed.cursor());
            assertEquals(true, missed.partial());
        }
        assertEquals(List.of("", "", "3", "4"), requests.subList(0, 4));
    }

    private static DownloadArchiveResponse archive(String data) {
        return DownloadArchiveResponse.newBuilder()
                .setData(ByteString.copyFromUtf8(data))
                .build();
    }

    @Test
    void anArchiveIsAskedForAgainUntilItHasBegun() throws Exception {
        breaks();
        ends(
                archive("one "),
                archive("two"),
                DownloadArchiveResponse.newBuilder()
                        .setEnd(ArchiveEnd.newBuilder().setEntries(2))
                        .build());
        ByteArrayOutputStream target = new ByteArrayOutputStream();
        assertEquals(2, client.files().downloadArchive("", target).getEntries());
        assertEquals("one two", target.toString());
        assertEquals(2, requests.size());
    }

    @Test
    void anArchiveWithoutItsEndIsIncomplete() {
        ends(archive("one "));
        ToolgateException incomplete = assertThrows(
                ToolgateException.class, () -> client.files().downloadArchive("", new ByteArrayOutputStream()));
        assertEquals(Status.Code.UNAVAILABLE, incomplete.code());
        assertEquals(1, requests.size());
    }
}
