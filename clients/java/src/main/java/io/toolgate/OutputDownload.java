package io.toolgate;

import io.toolgate.v1.Output;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.file.AtomicMoveNotSupportedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;

/** Saves a stored output to a file, which appears when it is whole. */
final class OutputDownload {
    private static final int PIECE_BYTES = 64 << 10;

    private final StoredOutput output;
    private final Path file;
    private final StoredOutput.Progress progress;
    private final MessageDigest digest;

    OutputDownload(StoredOutput output, Path file, StoredOutput.Progress progress) {
        this.output = output;
        this.file = file.toAbsolutePath();
        this.progress = progress;
        this.digest = sha256();
    }

    long run() throws IOException {
        Output info = output.info();
        Path beside = Files.createTempFile(file.getParent(), "." + file.getFileName(), ".part");
        try {
            long bytes = copy(beside, info.getTotalBytes());
            check(info, bytes);
            move(beside);
            return bytes;
        } finally {
            Files.deleteIfExists(beside);
        }
    }

    private long copy(Path beside, long total) throws IOException {
        byte[] piece = new byte[PIECE_BYTES];
        long bytes = 0;
        try (InputStream source = output.read();
                OutputStream target = Files.newOutputStream(beside)) {
            for (int count = source.read(piece); count != -1; count = source.read(piece)) {
                target.write(piece, 0, count);
                digest.update(piece, 0, count);
                bytes += count;
                progress.saved(bytes, total);
            }
        }
        return bytes;
    }

    private void check(Output info, long bytes) throws IOException {
        if (!info.getComplete()) {
            return;
        }
        String found = HexFormat.of().formatHex(digest.digest());
        if (!found.equals(info.getSha256())) {
            throw new IOException("output " + info.getOutputId() + " came damaged: " + bytes + " bytes with SHA-256 "
                    + found + " instead of " + info.getTotalBytes() + " with " + info.getSha256());
        }
    }

    private void move(Path beside) throws IOException {
        try {
            Files.move(beside, file, StandardCopyOption.ATOMIC_MOVE);
        } catch (AtomicMoveNotSupportedException unsupported) {
            Files.move(beside, file, StandardCopyOption.REPLACE_EXISTING);
        }
    }

    private static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException impossible) {
            throw new IllegalStateException("every Java has SHA-256", impossible);
        }
    }
}
