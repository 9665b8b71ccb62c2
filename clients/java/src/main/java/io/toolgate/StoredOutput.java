package io.toolgate;

import io.toolgate.v1.ByteRange;
import io.toolgate.v1.GetOutputRequest;
import io.toolgate.v1.LineRange;
import io.toolgate.v1.Output;
import io.toolgate.v1.OutputServiceGrpc;
import io.toolgate.v1.ReadOutputRequest;
import io.toolgate.v1.SearchOutputRequest;
import io.toolgate.v1.SearchOutputResponse;
import io.toolgate.v1.Tail;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Path;

/** The whole output that a call stored, while it is written and after. */
public final class StoredOutput {
    private final Rpc rpc;
    private final String id;

    /** Is told how far a download has come. */
    @FunctionalInterface
    public interface Progress {
        /**
         * More has been saved.
         *
         * @param bytes how much is saved so far
         * @param total how much there was when the download began
         */
        void saved(long bytes, long total);
    }

    StoredOutput(Rpc rpc, String id) {
        this.rpc = rpc;
        this.id = id;
    }

    /**
     * Returns the output's id.
     *
     * @return the id
     */
    public String id() {
        return id;
    }

    /**
     * Returns what is known of the output: its size, its call, its digest.
     *
     * @return the message
     */
    public Output info() {
        GetOutputRequest request = GetOutputRequest.newBuilder().setOutputId(id).build();
        return rpc.call(OutputServiceGrpc.getGetOutputMethod(), request).getOutput();
    }

    /**
     * Reads all of it.
     *
     * @return the bytes as the tool wrote them; goes on by itself after a lost connection
     */
    public InputStream read() {
        return read(0, 0);
    }

    /**
     * Reads a range of bytes.
     *
     * @param offset the first byte, from 0
     * @param limit at most this many; 0 for all that follow
     * @return the bytes
     */
    public InputStream read(long offset, long limit) {
        return open(request()
                .setBytes(ByteRange.newBuilder().setOffset(offset).setLimit(limit))
                .build());
    }

    /**
     * Reads a range of lines.
     *
     * @param first the first line, from 1
     * @param limit at most this many; 0 for all that follow
     * @return the bytes of the lines
     */
    public InputStream lines(long first, long limit) {
        return open(request()
                .setLines(LineRange.newBuilder().setFirstLine(first).setLimit(limit))
                .build());
    }

    /**
     * Reads the last lines.
     *
     * @param lines this many, at most 1,000,000
     * @return the bytes of the lines
     */
    public InputStream tail(long lines) {
        return open(request().setTail(Tail.newBuilder().setLines(lines)).build());
    }

    /**
     * Searches for a regular expression, line by line.
     *
     * @param pattern the expression, in the syntax of Rust's {@code regex}; {@code (?i)} at its beginning ignores case
     * @return the first 100 matching lines
     */
    public SearchOutputResponse search(String pattern) {
        return search(SearchOutputRequest.newBuilder().setPattern(pattern).build());
    }

    /**
     * Searches as the request says: with lines of context, or for more matches.
     *
     * @param request what to search for; the output's id is filled in
     * @return what was found
     */
    public SearchOutputResponse search(SearchOutputRequest request) {
        return rpc.call(
                OutputServiceGrpc.getSearchOutputMethod(),
                request.toBuilder().setOutputId(id).build());
    }

    /**
     * Saves all of it to a file. The file appears when it is whole: until then it is written beside, and it is checked
     * against the output's digest if the output is complete.
     *
     * @param file the file; one that exists is replaced
     * @return how many bytes were saved
     * @throws IOException if the file cannot be written, or what came is not what the service stored
     */
    public long saveTo(Path file) throws IOException {
        return saveTo(file, (bytes, total) -> {});
    }

    /**
     * Saves all of it to a file, and tells how far it has come.
     *
     * @param file the file; one that exists is replaced
     * @param progress is told after each piece
     * @return how many bytes were saved
     * @throws IOException if the file cannot be written, or what came is not what the service stored
     */
    public long saveTo(Path file, Progress progress) throws IOException {
        return new OutputDownload(this, file, progress).run();
    }

    private ReadOutputRequest.Builder request() {
        return ReadOutputRequest.newBuilder().setOutputId(id);
    }

    private InputStream open(ReadOutputRequest request) {
        return new OutputInput(rpc, request);
    }
}
