/** Uploads files of this machine. */
import { createReadStream } from "node:fs";
import type { FileChange, Files, WriteOptions } from "./files.js";

/** Uploads the file `from` of this machine to `path`, as {@link Files.upload} does. */
export function uploadFile(files: Files, from: string, path: string, options: WriteOptions = {}): Promise<FileChange> {
  return files.upload(path, createReadStream(from), options);
}
