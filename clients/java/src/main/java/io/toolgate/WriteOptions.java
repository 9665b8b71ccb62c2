package io.toolgate;

import io.toolgate.v1.WriteTarget;

/**
 * Says what a file must be before it is written, and what it is then. Immutable: each method returns other ones.
 *
 * @param target the message; its path is filled in
 * @param callId the id of the call that writes; empty for a new one
 */
public record WriteOptions(WriteTarget target, String callId) {
    /**
     * Writes the file whatever is there.
     *
     * @return the options
     */
    public static WriteOptions anyway() {
        return new WriteOptions(WriteTarget.getDefaultInstance(), "");
    }

    /**
     * Writes the file only if nothing is there; otherwise the reason is {@code ALREADY_THERE}.
     *
     * @return the options
     */
    public static WriteOptions ifAbsent() {
        return new WriteOptions(WriteTarget.newBuilder().setIfAbsent(true).build(), "");
    }

    /**
     * Writes the file only if it still has this content; otherwise the reason is {@code CONTENT_DIFFERS}.
     *
     * @param sha256 64 hexadecimal digits, as in the {@link FileContent#info()} of what was read
     * @return the options
     */
    public static WriteOptions ifSha256(String sha256) {
        return new WriteOptions(WriteTarget.newBuilder().setIfSha256(sha256).build(), "");
    }

    /**
     * Gives the file permission bits. Without it the file keeps those that it has, or gets those of new files.
     *
     * @param mode at most 0777 (511)
     * @return the options
     */
    public WriteOptions mode(int mode) {
        return new WriteOptions(target.toBuilder().setMode(mode).build(), callId);
    }

    /**
     * Names the call that writes, so that the same change may be asked for again and is made once.
     *
     * @param callId 1 to 128 letters, digits and {@code -_.:}; a UUIDv7 unless given
     * @return the options
     */
    public WriteOptions callId(String callId) {
        return new WriteOptions(target, callId);
    }
}
