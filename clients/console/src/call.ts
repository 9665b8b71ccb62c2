// One call, as the page shows it: its record, its events, its output.

import { signal } from "@preact/signals";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { ALL, at, tools, transport } from "./api";
import { outcome, reason, take } from "./calls";
import { objectOf } from "./input";
import type { Turn } from "./live";
import { Screen } from "./screen";
import { bytes, count, duration, short } from "./text";
import { MOST_BYTES, Window } from "./window";
import { OutputMode, type Call, type CallEvent, type ListeningPort } from "./gen/toolgate/v1/call_pb";
import { PromptDecision, PromptState } from "./gen/toolgate/v1/prompt_pb";
import { OutputService, type OutputLine } from "./gen/toolgate/v1/output_service_pb";

/** One line of the list of events. */
export interface Entry {
  sequence: string;
  time: number;
  kind: string;
  text: string;
}

/** What became of a prompt of the call. */
export interface Decided {
  /** What was asked, or empty. */
  permission: string;
  state: PromptState;
  decision: PromptDecision;
  by: string;
}

/** When a part of the output came: from `offset` on, until the next one. */
interface Came {
  offset: number;
  /** None if nobody knows. */
  time: number | undefined;
}

/** Events that are kept; of more, the first and the latest. */
const MOST_ENTRIES = 5_000;
/** Bytes of an output that are read at once. */
const PIECE = 128 * 1024;
/** The most times of output that are kept, and how far they lie apart. */
const MOST_TIMES = 20_000;
const APART = 100;
/** Calls that this call made of which the records are fetched. */
const CHILDREN = 200;

const outputs = createClient(OutputService, transport);

/** The tools whose work is calls that they make. */
const MAKERS: ReadonlySet<string> = new Set(["batch", "task"]);

/** Watches one call and holds what is shown of it. */
export class CallView {
  readonly record = signal<Call | undefined>(undefined);
  /** Why there is nothing to show. */
  readonly missing = signal("");
  /** Changes when the events or the output do. */
  readonly version = signal(0);
  readonly entries: Entry[] = [];
  readonly window = new Window();
  /** Whether the latest output is shown as it comes. */
  readonly follows = signal(true);
  /** What was asked for it, and what became of that, in order. */
  readonly decided = signal<readonly Decided[]>([]);
  /** The calls that it made, by their ids, with their tools. */
  readonly children = signal<ReadonlyMap<string, string>>(new Map());
  /** What its programs listen on. */
  readonly listening = signal<readonly ListeningPort[]>([]);
  readonly outputId = signal("");
  /** Bytes of the output so far. */
  readonly total = signal(0);
  /** Whether its output grows no more. */
  readonly complete = signal(false);
  /** Whether there is nothing more to wait for. */
  readonly done = signal(false);

  /** Its terminal, once somebody has looked at it. */
  private screen: Screen | undefined;
  private last = 0n;
  private pending = false;
  private readonly came: Came[] = [];
  /** Where the output ends that has been heard of. */
  private heard = 0;
  private readonly asked = new Map<string, string>();
  /** The entry of the output that comes in one go. */
  private run: { entry: Entry; from: number; to: number } | undefined;

  constructor(readonly id: string) {}

  /** Returns its terminal. */
  open(): Screen {
    this.screen ??= new Screen(this.id);
    return this.screen;
  }

  /** Reads the record, then everything that happens to the call until its end. */
  async watch({ signal, alive }: Turn): Promise<void> {
    try {
      await this.load(signal);
      alive();
      await this.follow(signal, alive);
      this.done.value = true;
    } catch (error) {
      if (ConnectError.from(error).code !== Code.NotFound) throw error;
      this.missing.value = "There is no such call, or it is not kept any more.";
      this.done.value = true;
    }
  }

  private async load(signal: AbortSignal): Promise<void> {
    const { call } = await tools.getCall({ callId: this.id }, { signal });
    if (call === undefined) return;
    take(call);
    this.record.value = call;
    this.listening.value = call.listening;
    if (MAKERS.has(call.tool)) await this.loadChildren(signal);
    const truncation = call.ending.value?.truncation;
    if (truncation === undefined) return;
    // What had ended before is read from its beginning, what has been followed stays at its end.
    if (this.entries.length === 0) this.follows.value = false;
    this.complete.value = true;
    if (truncation.outputId !== "") {
      this.outputId.value = truncation.outputId;
      this.total.value = Math.max(this.total.value, Number(truncation.totalBytes));
      if (this.follows.peek()) await this.toEnd();
      else if (this.window.end === 0) await this.toOffset(0);
    } else if (call.ending.case === "completed") {
      this.window.replace(0, new TextEncoder().encode(call.ending.value.output));
      this.total.value = this.window.end;
    }
    this.changed();
  }

  /** What a call of `task` made is in no event of its own. */
  private async loadChildren(signal: AbortSignal): Promise<void> {
    const request = { workspace: ALL, parentCallId: this.id, pageSize: CHILDREN };
    const { calls } = await tools.listCalls(request, { signal });
    for (const call of calls.reverse()) this.child(take(call).id, call.tool);
  }

  private child(id: string, tool: string): void {
    if (!this.children.value.has(id)) this.children.value = new Map(this.children.value).set(id, tool);
  }

  private async follow(signal: AbortSignal, alive: () => void): Promise<void> {
    // A reader that is behind skips to the latest output: the page never queues up what nobody can read.
    const request = { callId: this.id, afterSequence: this.last, output: OutputMode.TAIL };
    for await (const { event } of tools.watchCall(request, { signal, onHeader: alive })) {
      alive();
      if (event === undefined) continue;
      if (event.sequence > this.last) this.last = event.sequence;
      this.note(event);
      if (event.event.case === "running" && this.record.value?.inputJson === "") await this.load(signal);
      if (event.event.case === "completed" || event.event.case === "failed") {
        await this.load(signal);
      }
    }
  }

  private note(event: CallEvent): void {
    const what = event.event;
    if (what.case === "heartbeat" || what.case === undefined) return;
    if (what.case === "output") {
      const { outputId, offset, data } = what.value;
      this.outputId.value = outputId;
      this.total.value = Math.max(this.total.value, Number(offset) + data.length);
      this.heard = Number(offset) + data.length;
      this.time(Number(offset), at(event.eventTime));
      if (this.follows.peek() && !this.complete.peek()) this.window.append(Number(offset), data);
      this.screen?.output(Number(offset), data);
      this.noteOutput(event, Number(offset), Number(offset) + data.length);
    } else {
      this.run = undefined;
      if (what.case === "gap" && what.value.outputBytes > 0n) {
        this.total.value = Math.max(this.total.value, this.window.end + Number(what.value.outputBytes));
        this.time(this.heard, undefined);
      }
      if (what.case === "child") this.child(what.value.callId, what.value.tool);
      if (what.case === "waiting" && what.value.prompt !== undefined) {
        const { promptId, request } = what.value.prompt;
        this.asked.set(promptId, request.case === "permission" ? request.value.permission : "");
      }
      if (what.case === "resumed") {
        const { promptId, state, resolution } = what.value;
        const decision = resolution?.decision ?? PromptDecision.UNSPECIFIED;
        const permission = this.asked.get(promptId) ?? "";
        const one = { permission, state, decision, by: resolution?.resolvedBy ?? "" };
        this.decided.value = [...this.decided.value, one];
      }
      if (what.case === "listening") this.listening.value = what.value.ports;
      this.push(event, what.case, describe(event));
    }
    this.changed();
  }

  /** One entry stands for output that comes without a pause. */
  private noteOutput(event: CallEvent, from: number, to: number): void {
    if (this.run !== undefined && this.run.to === from) {
      this.run.to = to;
      this.run.entry.text = bytes(to - this.run.from);
      return;
    }
    const entry = this.push(event, "output", bytes(to - from));
    this.run = { entry, from, to };
  }

  private push(event: CallEvent, kind: string, text: string): Entry {
    const entry = { sequence: event.sequence.toString(), time: at(event.eventTime) ?? 0, kind, text };
    this.entries.push(entry);
    if (this.entries.length > MOST_ENTRIES) this.entries.splice(MOST_ENTRIES / 2, 1);
    return entry;
  }

  private time(offset: number, time: number | undefined): void {
    const last = this.came.at(-1);
    if (last !== undefined && (last.offset > offset || this.came.length > MOST_TIMES)) return;
    if (last?.time !== undefined && time !== undefined && time - last.time < APART) return;
    this.came.push({ offset, time: this.came.length < MOST_TIMES ? time : undefined });
  }

  /** Returns when the output at an offset came, as far as that is known. */
  timeAt(offset: number): number | undefined {
    let [low, high] = [0, this.came.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.came[middle]!.offset <= offset) low = middle + 1;
      else high = middle;
    }
    return this.came[low - 1]?.time;
  }

  private changed(): void {
    if (this.pending) return;
    this.pending = true;
    setTimeout(() => {
      this.pending = false;
      this.version.value += 1;
    }, 50);
  }

  /** Shows an output from an absolute offset on. */
  async toOffset(offset: number): Promise<void> {
    const from = Math.max(0, offset);
    const data = await this.read(from, PIECE * 2);
    this.window.replace(from, data);
    this.changed();
  }

  /** Shows the end of the output. */
  async toEnd(): Promise<void> {
    if (this.outputId.value === "") return;
    const { output } = await outputs.getOutput({ outputId: this.outputId.value });
    this.total.value = Math.max(this.total.value, Number(output?.totalBytes ?? 0));
    await this.toOffset(this.total.value - PIECE * 2);
  }

  /** Reads what comes after the window. Returns how many bytes came. */
  async more(): Promise<number> {
    const before = this.window.end;
    const data = await this.read(before, PIECE);
    this.window.append(before, data);
    this.changed();
    return data.length;
  }

  /** Reads what comes before the window. Returns how many rows came. */
  async earlier(): Promise<number> {
    const from = Math.max(0, this.window.start - PIECE);
    const data = await this.read(from, this.window.start - from);
    const rows = this.window.prepend(from, data);
    this.changed();
    return rows;
  }

  /** Returns where a line of the whole output begins, counted from 1; none if there is no such line. */
  async offsetOf(line: number): Promise<number | undefined> {
    if (this.outputId.value === "") {
      const rows = this.window.rows();
      return line > (rows.at(-1)?.line ?? -1) + 1 ? undefined : this.window.startOf(line - 1);
    }
    const range = { case: "lines" as const, value: { firstLine: BigInt(line), limit: 1n } };
    for await (const { offset } of outputs.readOutput({ outputId: this.outputId.value, range })) return Number(offset);
    return undefined;
  }

  /** Returns the whole output, as it is stored. Is told how many bytes have come. */
  async whole(comes: (bytes: number) => void): Promise<Uint8Array<ArrayBuffer>[]> {
    if (this.outputId.value === "") return [new TextEncoder().encode(this.window.text())];
    const parts: Uint8Array<ArrayBuffer>[] = [];
    let length = 0;
    for await (const { data } of outputs.readOutput({ outputId: this.outputId.value })) {
      parts.push(new Uint8Array(data));
      length += data.length;
      comes(length);
    }
    return parts;
  }

  private async read(offset: number, limit: number): Promise<Uint8Array> {
    if (this.outputId.value === "" || limit <= 0) return new Uint8Array();
    const parts = new Uint8Array(Math.min(limit, MOST_BYTES));
    let filled = 0;
    const range = { case: "bytes" as const, value: { offset: BigInt(offset), limit: BigInt(parts.length) } };
    for await (const { data } of outputs.readOutput({ outputId: this.outputId.value, range })) {
      parts.set(data, filled);
      filled += data.length;
    }
    return parts.subarray(0, filled);
  }

  /** Searches the whole output. */
  async search(pattern: string, matchCase: boolean): Promise<{ lines: OutputLine[]; truncated: boolean }> {
    if (this.outputId.value === "") return { lines: this.searchText(pattern, matchCase), truncated: false };
    const { lines, truncated } = await outputs.searchOutput({
      outputId: this.outputId.value,
      pattern: matchCase ? pattern : `(?i)${pattern}`,
      maxMatches: 1000,
    });
    return { lines, truncated };
  }

  /** Text that is not stored is searched here, for words: it is short. */
  private searchText(pattern: string, matchCase: boolean): OutputLine[] {
    const fold = (text: string): string => (matchCase ? text : text.toLowerCase());
    const encoder = new TextEncoder();
    const found: Pick<OutputLine, "line" | "offset" | "text" | "isMatch">[] = [];
    let offset = 0;
    for (const [index, text] of this.window.text().split("\n").entries()) {
      if (fold(text).includes(fold(pattern))) {
        found.push({ line: BigInt(index + 1), offset: BigInt(offset), text: text.slice(0, 2000), isMatch: true });
      }
      offset += encoder.encode(text).length + 1;
    }
    return found as OutputLine[];
  }
}

function describe({ event }: CallEvent): string {
  switch (event.case) {
    case "pending":
      return event.value.tool === event.value.requestedTool
        ? event.value.tool
        : `${event.value.tool}, asked for as ${short(event.value.requestedTool, 80)}`;
    case "running":
      return short(event.value.title, 200);
    case "metadata":
      return [event.value.title, ...Object.keys(event.value.metadata ?? {})]
        .filter((text) => text !== undefined && text !== "")
        .map((text) => short(text ?? "", 120))
        .join(", ");
    case "waiting":
      return `for an answer, ${count(event.value.approvers, "approver")} connected`;
    case "resumed": {
      const { state, resolution } = event.value;
      const decision = resolution === undefined ? "" : PromptDecision[resolution.decision]?.toLowerCase();
      const by = resolution?.resolvedBy ? ` by ${short(resolution.resolvedBy, 80)}` : "";
      return state === PromptState.RESOLVED ? `${decision}${by}` : (PromptState[state]?.toLowerCase() ?? "");
    }
    case "warning":
      return `${event.value.kind}: ${short(event.value.text, 400)}`;
    case "gap":
      return event.value.outputBytes > 0n
        ? `${bytes(Number(event.value.outputBytes))} of output not shown here`
        : `events up to ${event.value.lastSequence} left out`;
    case "child":
      return `${event.value.tool} ${event.value.callId}`;
    case "listening":
      return event.value.ports.map(({ port }) => port).join(", ") || "on nothing any more";
    case "completed":
      return [
        outcome(event.value),
        short(event.value.title, 200),
        `${duration(timed(event.value.timing?.ran))} of work`,
      ]
        .filter((text) => text !== "")
        .join(", ");
    case "failed":
      return `${reason(event.value.reason)}: ${short(event.value.error, 400)}`;
    case "output":
    case "heartbeat":
    case undefined:
      return "";
  }
}

function timed(length: { seconds: bigint; nanos: number } | undefined): number {
  return length === undefined ? 0 : Number(length.seconds) * 1000 + length.nanos / 1e6;
}

/** Says whether a call runs in a terminal. */
export function hasTerminal(call: Call): boolean {
  return (
    call.tool === "background" && call.ending.case === undefined && objectOf(call.inputJson).terminal !== undefined
  );
}
