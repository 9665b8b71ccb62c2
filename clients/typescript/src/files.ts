/** The files of a workspace: shown, read, watched and changed, for the person beside the model. */
import type { MessageInitShape } from "@bufbuild/protobuf";
import type { CallOptions } from "@connectrpc/connect";
import { ToolgateError } from "./errors.js";
import type { CallContextSchema } from "./gen/toolgate/v1/call_pb.js";
import {
  type FileInfo as FileInfoMessage,
  FileKind,
  type WatchFilesResponse,
  type WriteTargetSchema,
} from "./gen/toolgate/v1/file_service_pb.js";
import { ANY_TIME, type Link } from "./link.js";
import { type FileKindName, nameOf } from "./names.js";
import type { ChangeOptions, SignalOptions } from "./options.js";
import type { ReadOptions } from "./outputs.js";
import { callMessage } from "./requests.js";
import { bytesOf, cut, joined, piecesOf, readableOf, textOf } from "./streams.js";
import { date } from "./time.js";

/** What the contract allows in one file, and in one archive. */
const MAX_CONTENT_BYTES = 64 * 1024 * 1024;
const PIECE_BYTES = 256 * 1024;
/** As deep as the service looks. */
const MAX_DEPTH = 64;

/** A file, a folder, or what else stands in one. */
export interface FileInfo {
  /** Its path relative to the workspace's folder, `.` for that folder itself. */
  readonly path: string;
  /** The last part of the path. */
  readonly name: string;
  /** What it is. */
  readonly kind: FileKindName;
  /** Bytes; of a folder, a link or something else what the system says. */
  readonly sizeBytes: number;
  /** The permission bits, such as 0o644. */
  readonly mode: number;
  /** When the content was last modified. */
  readonly modifyTime: Date | undefined;
  /** Where a link leads, as it is written in it; empty for everything else. */
  readonly linkTarget: string;
  /** SHA-256 of the content, 64 hexadecimal digits, where it was asked for; empty for files of more than 64 MiB. */
  readonly sha256: string;
  /** The name is not UTF-8: `path` shows it, and names nothing. */
  readonly pathIsLossy: boolean;
  /** It is a folder that the service may not list. */
  readonly unreadable: boolean;
  /** The message of the contract. */
  readonly message: FileInfoMessage;
}

/** What {@link Files.stat} looks up. */
export interface StatOptions extends SignalOptions {
  /** Whether to return the SHA-256 of a file, which reads all of it; false by default. */
  readonly sha256?: boolean | undefined;
}

/** What {@link Files.list} lists. */
export interface ListOptions extends SignalOptions {
  /** Everything below the folder, 64 levels at most; false by default. */
  readonly recursive?: boolean | undefined;
  /** How deep to look: 1, the default, for what is in the folder itself. */
  readonly depth?: number | undefined;
  /** Whether to list what ignore rules name, and `.git`, as well; false by default. */
  readonly includeIgnored?: boolean | undefined;
  /** How many files one RPC lists. */
  readonly pageSize?: number | undefined;
}

/** A file, or a part of it. */
export interface FileContent {
  /** The file, with the SHA-256 of all of it, for `ifSha256`. */
  readonly file: FileInfo;
  /** The bytes that were read. */
  readonly data: Uint8Array;
}

/** What {@link Files.watch} watches. */
export interface WatchFilesOptions extends SignalOptions {
  /** The cursor of the last change of an earlier watch; by default what happens from now on is told. */
  readonly cursor?: string | undefined;
}

interface NewsBase {
  /** Where the watch is: another one goes on behind it. */
  readonly cursor: string;
}

/** The watch has begun: who lists the folder now, and takes in what follows, knows it. Comes once, also after lost connections. */
export interface FilesWatched extends NewsBase {
  readonly type: "watched";
  /** The workspace has too many folders: what happens in some of them is not told. */
  readonly partial: boolean;
}

/** Files came, changed or went. */
export interface FilesChanged extends NewsBase {
  readonly type: "changed";
  /** What is there now; an entry may come though nothing of it has changed. */
  readonly files: readonly FileInfo[];
  /** The paths that hold nothing any more. With a folder goes all that is in it. */
  readonly gonePaths: readonly string[];
}

/** Something may have been missed: list the folder again. The watch goes on. */
export interface FilesMissed extends NewsBase {
  readonly type: "missed";
  /** As in {@link FilesWatched}. */
  readonly partial: boolean;
}

/** What a watch tells; `type` says what it is. */
export type FilesNews = FilesWatched | FilesChanged | FilesMissed;

/** What happened since a cursor is not known any more. List the folder, and watch without a cursor. */
export class CursorTooOldError extends ToolgateError {
  /** @internal */
  constructor(error: ToolgateError) {
    super(error.code, error.message, { ...error, cause: error });
    this.name = "CursorTooOldError";
  }
}

/** How a file is written. */
export interface WriteOptions extends ChangeOptions {
  /** The permission bits that it gets, at most 0o777; by default those that it has, or that new files get. */
  readonly mode?: number | undefined;
  /** The file must be there and have this SHA-256: otherwise the reason is CONTENT_DIFFERS. */
  readonly ifSha256?: string | undefined;
  /** Nothing may be there: otherwise the reason is ALREADY_THERE. */
  readonly ifAbsent?: boolean | undefined;
}

/** How a file is moved. */
export interface MoveOptions extends ChangeOptions, Pick<WriteOptions, "ifSha256"> {}

/** What is deleted. */
export interface DeleteOptions extends MoveOptions {
  /** Whether to delete a folder, with all that is in it; false by default. */
  readonly recursive?: boolean | undefined;
}

/** What a change was. */
export interface Change {
  /** The call that made it, for {@link Client.revert}. */
  readonly callId: string;
}

/** A change that leaves something. */
export interface FileChange extends Change {
  /** The file as it is now, with its SHA-256; undefined if it may not be shown, or is gone already. */
  readonly file: FileInfo | undefined;
}

/** Bytes or text, whole or as they come: a `ReadStream` of Node, for instance. */
export type Content = string | Uint8Array | Blob | ReadableStream<Uint8Array> | AsyncIterable<string | Uint8Array>;

/** What {@link Files.downloadArchive} sends. */
export interface DownloadOptions extends SignalOptions {
  /** Whether to send what ignore rules name, and `.git`, as well; false by default. */
  readonly includeIgnored?: boolean | undefined;
  /** Called when the archive is whole. */
  readonly onEnd?: ((end: ArchiveEnd) => void) | undefined;
}

/** What is said at the end of an archive. */
export interface ArchiveEnd {
  /** How many entries it has. */
  readonly entries: number;
  /** What was left out, as far as it is named: at most 1000 paths. */
  readonly omittedPaths: readonly string[];
}

/** How the files of an archive are written. */
export interface UploadArchiveOptions extends ChangeOptions, Pick<WriteOptions, "ifAbsent"> {}

type Context = MessageInitShape<typeof CallContextSchema>;

/**
 * The files of a workspace, in the name of one session and agent. Made by {@link Client.files}.
 *
 * A path is relative to the workspace's folder, or absolute and inside it. What the rules do not allow is refused
 * (PERMISSION_NEEDED, DENIED_BY_RULE, OUTSIDE_WORKSPACE).
 *
 * Each change is a call, which people may be asked about. After a lost connection it is asked for again under the same id,
 * so that it is made once. The metadata of its errors has `call_id`.
 */
export class Files {
  readonly #link: Link;
  readonly #context: Context;
  readonly #streams: boolean;

  /** @internal `streams` says whether the transport streams from the client. */
  constructor(link: Link, context: Context, streams: boolean) {
    this.#link = link;
    this.#context = context;
    this.#streams = streams;
  }

  /** Returns what is at a path; of a link what it leads to. */
  async stat(path: string, { sha256 = false, signal }: StatOptions = {}): Promise<FileInfo> {
    const request = { context: this.#context, path, withSha256: sha256 };
    const answer = await this.#link.retrying((call) => this.#link.rpc.files.statFile(request, call), { signal });
    // The contract sets it in every answer.
    return fileInfoOf(answer.file as FileInfoMessage);
  }

  /** Lists a folder, by default the workspace's; folders come before what is in them. */
  async *list(path = "", options: ListOptions = {}): AsyncGenerator<FileInfo, void, undefined> {
    const { recursive = false, includeIgnored = false, pageSize = 0, signal } = options;
    const depth = options.depth ?? (recursive ? MAX_DEPTH : 1);
    const request = { context: this.#context, path, depth, includeIgnored, pageSize };
    const pages = this.#link.pages(
      (pageToken, call) => this.#link.rpc.files.listFiles({ ...request, pageToken }, call),
      signal,
    );
    for await (const { files } of pages) {
      yield* files.map(fileInfoOf);
    }
  }

  /** Reads a file, or a part of it, into memory. */
  async read(path: string, options: ReadOptions = {}): Promise<FileContent> {
    let file: FileInfoMessage | undefined;
    const pieces: Uint8Array[] = [];
    const onFile = (found: FileInfoMessage) => {
      file = found;
    };
    for await (const piece of this.#pieces(path, options, onFile)) {
      pieces.push(piece);
    }
    if (!file) {
      throw new ToolgateError("DATA_LOSS", "the service sent no file");
    }
    return { file: fileInfoOf(file), data: joined(pieces) };
  }

  /** Reads a file, or a part of it, as text. What is not UTF-8 is replaced. */
  text(path: string, options: ReadOptions = {}): Promise<string> {
    return textOf(this.bytes(path, options));
  }

  /**
   * Reads a file, or a part of it, in pieces of at most 64 KiB. It goes on where it was after a lost connection. If somebody
   * writes to the file meanwhile it fails, with the reason FILE_CHANGED.
   */
  bytes(path: string, options: ReadOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    return this.#pieces(path, options);
  }

  /** Reads a file, or a part of it, as a web stream, for `Response`, `Blob` and pipes. */
  stream(path: string, options: ReadOptions = {}): ReadableStream<Uint8Array> {
    return readableOf(this.bytes(path, options));
  }

  /**
   * Watches a folder, by default the workspace's, and all that is in it. After a lost connection it goes on behind the last
   * cursor. Throws {@link CursorTooOldError} if what happened meanwhile is not known any more.
   */
  async *watch(path = "", options: WatchFilesOptions = {}): AsyncGenerator<FilesNews, void, undefined> {
    let cursor = options.cursor ?? "";
    let watched = false;
    const messages = this.#link.resuming(
      (call) => this.#link.rpc.files.watchFiles({ context: this.#context, path, cursor }, call),
      options.signal,
    );
    try {
      for await (const message of messages) {
        cursor = message.cursor;
        const news = newsOf(message);
        if (news && !(news.type === "watched" && watched)) {
          yield news;
        }
        watched = true;
      }
    } catch (error) {
      const isTooOld = error instanceof ToolgateError && error.reason === "CURSOR_TOO_OLD";
      throw isTooOld ? new CursorTooOldError(error) : error;
    }
  }

  /**
   * Writes a file that fits into one message (32 MiB unless the service is configured): creates it, with the folders above it,
   * or replaces its content.
   */
  async write(path: string, content: string | Uint8Array, options: WriteOptions = {}): Promise<FileChange> {
    const request = { ...this.#call(options), target: target(path, options), content: bytesOf(content) };
    const answer = await this.#change((call) => this.#link.rpc.files.writeFile(request, call), options);
    return fileChangeOf(answer);
  }

  /**
   * Writes a file of up to 64 MiB. The content is read to its end first, and kept so that it can be sent again. Where the
   * transport does not stream from the client, as in browsers, the file must fit into one message.
   */
  async upload(path: string, content: Content, options: WriteOptions = {}): Promise<FileChange> {
    const whole = await collect(content);
    if (!this.#streams) {
      return this.write(path, whole, options);
    }
    const first = { ...this.#call(options), target: target(path, options) };
    async function* messages() {
      yield first;
      for (const piece of cut(whole, PIECE_BYTES)) {
        yield { content: piece };
      }
    }
    const answer = await this.#change((call) => this.#link.rpc.files.uploadFile(messages(), call), options);
    return fileChangeOf(answer);
  }

  /** Makes a folder, with those above it. One that is there already is left as it is. */
  async createFolder(path: string, options: ChangeOptions = {}): Promise<FileChange> {
    const request = { ...this.#call(options), path };
    const answer = await this.#change((call) => this.#link.rpc.files.createFolder(request, call), options);
    return fileChangeOf(answer);
  }

  /** Moves a file, a link, or a folder with all that is in it to a path where nothing is. */
  async move(path: string, newPath: string, options: MoveOptions = {}): Promise<Change> {
    const request = { ...this.#call(options), path, newPath, ifSha256: options.ifSha256 ?? "" };
    const { callId } = await this.#change((call) => this.#link.rpc.files.moveFile(request, call), options);
    return { callId };
  }

  /** Deletes a file or a link, or with `recursive` a folder. */
  async delete(path: string, options: DeleteOptions = {}): Promise<Change> {
    const { recursive = false, ifSha256 = "" } = options;
    const request = { ...this.#call(options), path, recursive, ifSha256 };
    const { callId } = await this.#change((call) => this.#link.rpc.files.deleteFile(request, call), options);
    return { callId };
  }

  /**
   * Reads a folder, by default the workspace's, as a tar archive that is not compressed, in pieces of at most 64 KiB. An
   * archive that was begun cannot be gone on with after a lost connection: then it fails, and is to be read from its
   * beginning.
   */
  async *downloadArchive(path = "", options: DownloadOptions = {}): AsyncGenerator<Uint8Array, void, undefined> {
    const { includeIgnored = false, signal, onEnd } = options;
    const request = { context: this.#context, path, includeIgnored };
    let begun = false;
    const messages = this.#link.resuming((call) => {
      if (begun) {
        throw new ToolgateError("ABORTED", "the connection was lost within the archive; read it from its beginning");
      }
      return this.#link.rpc.files.downloadArchive(request, call);
    }, signal);
    for await (const { data, end } of messages) {
      begun = true;
      if (end) {
        onEnd?.({ entries: Number(end.entries), omittedPaths: end.omittedPaths });
        return;
      }
      yield data;
    }
    throw new ToolgateError("DATA_LOSS", "the archive is incomplete");
  }

  /**
   * Writes the files and folders of a tar archive of up to 64 MiB into a folder, which is made if it is not there: all of
   * them, or none. Needs a transport that streams from the client, which `toolgate/node` has and browsers have not.
   */
  async uploadArchive(path: string, archive: Content, options: UploadArchiveOptions = {}): Promise<Change> {
    if (!this.#streams) {
      const text =
        "archives are streamed from the client, which gRPC-Web cannot do; use toolgate/node, or upload each file";
      throw new ToolgateError("UNIMPLEMENTED", text);
    }
    const whole = await collect(archive);
    const first = { ...this.#call(options), target: { path, ifAbsent: options.ifAbsent ?? false } };
    async function* messages() {
      yield first;
      for (const data of cut(whole, PIECE_BYTES)) {
        yield { data };
      }
    }
    const { callId } = await this.#change((call) => this.#link.rpc.files.uploadArchive(messages(), call), options);
    return { callId };
  }

  #call(options: ChangeOptions) {
    return { call: callMessage(this.#context, options) };
  }

  #change<T>(call: (options: CallOptions) => Promise<T>, { signal }: ChangeOptions): Promise<T> {
    return this.#link.retrying(call, { signal, timeoutMs: ANY_TIME });
  }

  async *#pieces(
    path: string,
    { offset = 0, limit = 0, signal }: ReadOptions,
    onFile?: (file: FileInfoMessage) => void,
  ): AsyncGenerator<Uint8Array, void, undefined> {
    let next = BigInt(offset);
    const end = limit > 0 ? next + BigInt(limit) : undefined;
    let known: FileInfoMessage | undefined;
    const messages = this.#link.resuming((call) => {
      // A limit of 0 would be none: when only the end of the stream is missing, a byte more is asked for and left out.
      const range = { offset: next, limit: end === undefined ? 0n : end - next || 1n };
      const withSha256 = onFile !== undefined && known === undefined;
      return this.#link.rpc.files.readFile({ context: this.#context, path, range, withSha256 }, call);
    }, signal);
    for await (const { file, data } of messages) {
      if (file && known && !isSame(file, known)) {
        throw new ToolgateError("ABORTED", `${path} was changed while it was read`, { reason: "FILE_CHANGED" });
      }
      if (file && !known) {
        known = file;
        onFile?.(file);
      }
      if (data.length > 0 && next !== end) {
        next += BigInt(data.length);
        yield data;
      }
    }
  }
}

/** Whether nobody has written to the file meanwhile, as far as its size and time tell. */
function isSame(one: FileInfoMessage, other: FileInfoMessage): boolean {
  const [time, before] = [one.modifyTime, other.modifyTime];
  return one.sizeBytes === other.sizeBytes && time?.seconds === before?.seconds && time?.nanos === before?.nanos;
}

async function collect(content: Content): Promise<Uint8Array> {
  if (typeof content === "string" || content instanceof Uint8Array) {
    return bytesOf(content);
  }
  const source = content instanceof Blob ? content.stream() : content;
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of source instanceof ReadableStream ? piecesOf(source) : source) {
    const bytes = bytesOf(piece);
    pieces.push(bytes);
    length += bytes.length;
    if (length > MAX_CONTENT_BYTES) {
      throw new ToolgateError("FAILED_PRECONDITION", "the content has more than 64 MiB", { reason: "FILE_TOO_LARGE" });
    }
  }
  return joined(pieces);
}

function target(path: string, options: WriteOptions): MessageInitShape<typeof WriteTargetSchema> {
  const { mode, ifSha256 = "", ifAbsent = false } = options;
  return { path, ifSha256, ifAbsent, ...(mode === undefined ? {} : { mode }) };
}

function fileInfoOf(message: FileInfoMessage): FileInfo {
  const { path, mode, linkTarget, sha256, pathIsLossy, unreadable } = message;
  return {
    path,
    name: path.slice(path.lastIndexOf("/") + 1),
    kind: nameOf(FileKind, message.kind),
    sizeBytes: Number(message.sizeBytes),
    mode,
    modifyTime: date(message.modifyTime),
    linkTarget,
    sha256,
    pathIsLossy,
    unreadable,
    message,
  };
}

function fileChangeOf({ callId, file }: { callId: string; file?: FileInfoMessage | undefined }): FileChange {
  return { callId, file: file && fileInfoOf(file) };
}

/** Returns what a message tells; undefined for a heartbeat and for what the library does not know. */
function newsOf({ cursor, news }: WatchFilesResponse): FilesNews | undefined {
  switch (news.case) {
    case "watched":
    case "missed":
      return { type: news.case, cursor, partial: news.value.partial };
    case "changed":
      return { type: "changed", cursor, files: news.value.files.map(fileInfoOf), gonePaths: news.value.gonePaths };
    case "heartbeat":
    case undefined:
      return undefined;
  }
}
