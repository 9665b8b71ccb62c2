/** What reaches the programs of a running call: input, signals, the size and the picture of their terminal. */
import { type GetTerminalResponse, Signal } from "./gen/toolgate/v1/terminal_pb.js";
import type { Link } from "./link.js";
import type { SignalName } from "./names.js";
import type { SendInputOptions, SignalOptions } from "./options.js";
import { bytesOf } from "./streams.js";

/** The size of a terminal, in characters. */
export interface TerminalSize {
  /** 1 to 500. */
  readonly columns: number;
  /** 1 to 200. */
  readonly rows: number;
}

/** What a terminal shows, and where to go on. */
export interface TerminalPicture {
  /** Its size. */
  readonly size: TerminalSize;
  /** Text and escape sequences that draw it, in a terminal of this size that was just reset. */
  readonly contents: Uint8Array;
  /** The cursor's place, from 0. */
  readonly cursor: { readonly column: number; readonly row: number; readonly visible: boolean };
  /** The title that the programs gave the terminal. */
  readonly title: string;
  /** How many bytes of the call's output `contents` takes into account: of what follows, leave out what is before. */
  readonly outputOffset: number;
  /** Where to go on: for `after` of {@link Client.watch}. */
  readonly lastSequence: number;
  /** The message of the contract. */
  readonly message: GetTerminalResponse;
}

/** What became of input. */
export interface InputSent {
  /** How many bytes were accepted so far. */
  readonly nextOffset: number;
  /** Whether nothing more is accepted. */
  readonly closed: boolean;
}

/** Sends bytes to the standard input of a command in the background. */
export async function sendInput(
  link: Link,
  callId: string,
  data: string | Uint8Array,
  options: SendInputOptions,
): Promise<InputSent> {
  const { signal, close = false } = options;
  const send = (offset: bigint, part: Uint8Array, last: boolean) => {
    const request = { callId, offset, data: part, close: last };
    return link.retrying((call) => link.rpc.tools.sendInput(request, call), { signal });
  };
  const offset =
    options.offset === undefined ? (await send(0n, new Uint8Array(), false)).nextOffset : BigInt(options.offset);
  const { nextOffset, closed } = await send(offset, bytesOf(data), close);
  return { nextOffset: Number(nextOffset), closed };
}

/** Sends a signal to a command in the background: once, since nobody can say whether a lost one has arrived. */
export async function sendSignal(link: Link, callId: string, name: SignalName, options: SignalOptions): Promise<void> {
  await link.once((call) => link.rpc.tools.signalCall({ callId, signal: Signal[name] }, call), options);
}

/** Gives a terminal another size. */
export async function resizeTerminal(
  link: Link,
  callId: string,
  { columns, rows }: TerminalSize,
  options: SignalOptions,
): Promise<void> {
  const request = { callId, size: { columns, rows } };
  await link.retrying((call) => link.rpc.tools.resizeTerminal(request, call), options);
}

/** Returns what a terminal shows. */
export async function terminal(link: Link, callId: string, options: SignalOptions): Promise<TerminalPicture> {
  const message = await link.retrying((call) => link.rpc.tools.getTerminal({ callId }, call), options);
  const { contents, title, cursorColumn: column, cursorRow: row, cursorVisible: visible } = message;
  return {
    size: { columns: message.size?.columns ?? 0, rows: message.size?.rows ?? 0 },
    contents,
    cursor: { column, row, visible },
    title,
    outputOffset: Number(message.outputOffset),
    lastSequence: Number(message.lastSequence),
    message,
  };
}
