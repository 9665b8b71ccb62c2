package io.toolgate;

import io.toolgate.v1.FileInfo;
import io.toolgate.v1.WatchFilesResponse;
import java.util.List;

/** Something that a {@link FileWatch} tells. */
public sealed interface FileEvent {
    /**
     * Returns the event as the contract has it.
     *
     * @return the message
     */
    WatchFilesResponse proto();

    /**
     * Returns where the watch is: a later one goes on behind it.
     *
     * @return the cursor, for {@link WorkspaceFiles#watch(String, String)}
     */
    default String cursor() {
        return proto().getCursor();
    }

    /**
     * The first event: from here on nothing is missed. Who lists the folder now, and takes in what follows, knows it.
     *
     * @param proto the message
     */
    record Watched(WatchFilesResponse proto) implements FileEvent {
        /**
         * Returns whether there are too many folders to watch all of them.
         *
         * @return whether something may happen that is not told
         */
        public boolean partial() {
            return proto.getWatched().getPartial();
        }
    }

    /**
     * Files came, changed or went.
     *
     * @param proto the message
     */
    record Changed(WatchFilesResponse proto) implements FileEvent {
        /**
         * Returns what is there now.
         *
         * @return files, folders and links, as they are now; some of them may not have changed
         */
        public List<FileInfo> files() {
            return proto.getChanged().getFilesList();
        }

        /**
         * Returns what is gone. With a folder goes all that was in it.
         *
         * @return paths relative to the workspace's folder
         */
        public List<String> gonePaths() {
            return proto.getChanged().getGonePathsList();
        }
    }

    /**
     * Something may have been missed, or what is ignored has changed: list the folder again.
     *
     * @param proto the message
     */
    record Missed(WatchFilesResponse proto) implements FileEvent {
        /**
         * Returns whether there are too many folders to watch all of them.
         *
         * @return whether something may happen that is not told
         */
        public boolean partial() {
            return proto.getMissed().getPartial();
        }
    }
}
