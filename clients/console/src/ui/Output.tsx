// The output of a call: followed while it comes, read in pieces, searched, copied and saved as a whole.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { signal, type Signal } from "@preact/signals";
import { ConnectError } from "@connectrpc/connect";
import { problem } from "../api";
import { copy, save } from "../browser";
import type { CallView } from "../call";
import { announce } from "../notices";
import { address, go, isNarrow, place } from "../route";
import { shortcuts } from "../shortcuts";
import { bare, bytes, count, plain, timeOfDay } from "../text";
import type { OutputLine } from "../gen/toolgate/v1/output_service_pb";
import { Painted } from "./Painted";
import { ListBox, Rows } from "./Rows";

const HEIGHT = 19;
/** Bytes before a found line that are shown with it. */
const BEFORE = 32 * 1024;
/** Bytes that are copied at most; more is for a file. */
const MOST_COPIED = 8 * 1024 * 1024;

/** Whether long lines go on below, as wide as the window is. */
const wraps = signal(isNarrow.peek());
/** Whether each line says when it came. */
const timed = signal(false);

interface Found {
  pattern: string;
  lines: OutputLine[];
  truncated: boolean;
}

/** Where a line was found, in the window. */
interface Mark {
  line: number;
  /** Its number in the whole output. */
  number: number;
}

/** Shows the output of a call. */
export function Output({ view }: { view: CallView }): JSX.Element {
  void view.version.value;
  const [found, setFound] = useState<Found | undefined>();
  const [mark, setMark] = useState<Mark | undefined>();
  const [wrong, setWrong] = useState("");
  const box = useRef<HTMLDivElement | null>(null);
  const busy = useRef(false);
  const [columns, probe] = useColumns(box);
  const follows = view.follows.value;
  view.window.wrap(wraps.value ? columns : 0);
  const rows = view.window.rows();

  const guarded = async (work: () => Promise<void>): Promise<void> => {
    if (busy.current) return;
    busy.current = true;
    setWrong("");
    await work().catch((error: unknown) => setWrong(problem(error)));
    busy.current = false;
  };
  const follow = (on: boolean): void => {
    view.follows.value = on;
    setMark(undefined);
    if (on) void guarded(() => view.toEnd());
  };
  const toStart = (): void => {
    view.follows.value = false;
    setMark(undefined);
    void guarded(async () => {
      await view.toOffset(0);
      if (box.current !== null) box.current.scrollTop = 0;
    });
  };
  const toLine = (number: number, known?: number): void => {
    view.follows.value = false;
    void guarded(async () => {
      const offset = known ?? (await view.offsetOf(number));
      if (offset === undefined) return setWrong(`The output has no line ${number.toLocaleString()}.`);
      if (view.outputId.value !== "") await view.toOffset(Math.max(0, offset - BEFORE));
      const at = view.window.linesBefore(offset);
      setMark({ line: at, number });
      const row = view.window.rows().findIndex((one) => one.line === at);
      requestAnimationFrame(() => {
        if (box.current !== null) box.current.scrollTop = Math.max(0, row * HEIGHT - box.current.clientHeight / 3);
      });
    });
  };
  // An address may name a line.
  const linked = place.value.id === view.id ? place.value.line : 0;
  const isThere = rows.length > 0;
  useEffect(() => {
    if (linked > 0 && isThere && mark?.number !== linked) toLine(linked);
  }, [linked, isThere]);
  const choose = (line: OutputLine): void => {
    toLine(Number(line.line), Number(line.offset));
    go("calls", view.id, "replace", Number(line.line));
  };
  const onEdge = (edge: "top" | "bottom" | "between"): void => {
    if (view.outputId.value === "") return;
    if (edge !== "bottom" && follows) view.follows.value = false;
    if (edge === "top" && view.window.start > 0) {
      void guarded(async () => {
        const came = await view.earlier();
        setMark(undefined);
        if (box.current !== null) box.current.scrollTop += came * HEIGHT;
      });
    }
    if (edge === "bottom" && !follows && view.window.end < view.total.value) {
      void guarded(async () => {
        const start = view.window.start;
        await view.more();
        // Lines that went at the top are no longer counted from there.
        if (view.window.start !== start) setMark(undefined);
      });
    }
  };
  // The number of the first line, where it is known.
  const first = mark !== undefined ? mark.number - mark.line : view.window.start === 0 ? 1 : undefined;
  return (
    <div class="output">
      <Toolbar view={view} follow={follow} toStart={toStart} onFound={setFound} onWrong={setWrong} found={found} />
      {wrong !== "" && (
        <p class="bad" role="alert">
          {wrong}
        </p>
      )}
      {found !== undefined && <Matches found={found} onChoose={choose} onClose={() => setFound(undefined)} />}
      <span ref={probe} class="probe code" aria-hidden="true">
        MMMMMMMMMM
      </span>
      {rows.length === 0 ? (
        <div class="fill rows empty">
          <p>
            {view.total.value > 0
              ? "Loading…"
              : view.complete.value
                ? "There is no output."
                : "There is no output yet."}
          </p>
        </div>
      ) : (
        <Rows
          class="fill code"
          count={rows.length}
          height={HEIGHT}
          label="Output"
          sticks={follows}
          onEdge={onEdge}
          scroller={(element) => (box.current = element)}
          render={(index) => {
            const row = rows[index]!;
            const isMarked = mark?.line === row.line;
            const number = first === undefined || row.continued ? undefined : first + row.line;
            return (
              <div key={index} class={`out ${isMarked ? "marked" : ""}`}>
                {number === undefined ? (
                  <span class="number" />
                ) : (
                  <a
                    class="number"
                    href={address("calls", view.id, number)}
                    tabIndex={-1}
                    aria-hidden="true"
                    onClick={(event) => {
                      event.preventDefault();
                      view.follows.value = false;
                      setMark({ line: row.line, number });
                      go("calls", view.id, "replace", number);
                    }}
                  >
                    {number}
                  </a>
                )}
                {timed.value && <Came time={row.continued ? undefined : view.timeAt(view.window.startOf(row.line))} />}
                <code>
                  <Painted text={row.text} look={row.look} />
                </code>
              </div>
            );
          }}
        />
      )}
    </div>
  );
}

/** When a line came, to a tenth of a second; nothing for one of which nobody knows. */
function Came({ time }: { time: number | undefined }): JSX.Element {
  return <span class="came dim">{time === undefined ? "" : timeOfDay(time)}</span>;
}

/** What stands beside a line, in pixels: its number, its time, and the room around them. */
const NUMBER = 90;
const TIME = 96;
const ROOM = 36;

/** Finds out how many columns there is room for. */
function useColumns(box: { current: HTMLDivElement | null }): [number, preact.RefObject<HTMLSpanElement | null>] {
  const probe = useRef<HTMLSpanElement>(null);
  const [columns, setColumns] = useState(80);
  // Read here, so that it is measured again when it changes.
  const beside = NUMBER + ROOM + (timed.value ? TIME : 0);
  const measure = (): void => {
    const letter = (probe.current?.getBoundingClientRect().width ?? 0) / 10;
    const width = (box.current ?? probe.current?.parentElement)?.clientWidth ?? 0;
    if (letter === 0 || width === 0) return;
    setColumns(Math.max(20, Math.floor((width - beside) / letter)));
  };
  useLayoutEffect(measure);
  useEffect(() => {
    addEventListener("resize", measure);
    return () => removeEventListener("resize", measure);
  }, [beside]);
  return [columns, probe];
}

interface ToolbarProps {
  view: CallView;
  follow: (on: boolean) => void;
  toStart: () => void;
  found: Found | undefined;
  onFound: (found: Found | undefined) => void;
  onWrong: (text: string) => void;
}

function Toolbar({ view, follow, toStart, found, onFound, onWrong }: ToolbarProps): JSX.Element {
  const [pattern, setPattern] = useState("");
  const [matchCase, setMatchCase] = useState(false);
  const [searches, setSearches] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  useEffect(
    () =>
      shortcuts((key) => {
        if (key === "f") follow(!view.follows.peek());
        else if (key === "/") field.current?.focus();
        else return false;
        return true;
      }),
    [view],
  );
  const search = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (pattern === "") return onFound(undefined);
    setSearches(true);
    onWrong("");
    try {
      onFound({ pattern, ...(await view.search(pattern, matchCase)) });
    } catch (error) {
      onWrong(problem(error));
    }
    setSearches(false);
  };
  const { start, end } = view.window;
  const total = Math.max(view.total.value, end);
  const part = start === 0 && end >= total ? bytes(total) : `${bytes(start)} to ${bytes(end)} of ${bytes(total)}`;
  return (
    <div class="toolbar" role="group" aria-label="Output">
      <label class="check">
        <input type="checkbox" checked={view.follows.value} onChange={(event) => follow(event.currentTarget.checked)} />
        {view.complete.value ? "Stay at the end" : "Follow"} <kbd>f</kbd>
      </label>
      <button type="button" onClick={toStart} disabled={view.outputId.value === ""}>
        Beginning
      </button>
      <Switch of={wraps} label="Wrap" />
      <Switch of={timed} label="Times" />
      <Take view={view} onWrong={onWrong} />
      <span class="dim">{part}</span>
      <form class="end" role="search" aria-label="Output" onSubmit={(event) => void search(event)}>
        <label>
          <span class="sr">Search the output, by regular expression</span>
          <input
            ref={field}
            type="search"
            placeholder={view.outputId.value === "" ? "Search" : "Search (regular expression)"}
            value={pattern}
            onInput={(event) => setPattern(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Escape") onFound(undefined);
            }}
          />
        </label>
        <label class="check">
          <input type="checkbox" checked={matchCase} onChange={(event) => setMatchCase(event.currentTarget.checked)} />
          Match case
        </label>
        <button disabled={searches}>{searches ? "Searching…" : "Search"}</button>
        <span class="sr" role="status">
          {found === undefined ? "" : summary(found)}
        </span>
      </form>
    </div>
  );
}

function Switch({ of, label }: { of: Signal<boolean>; label: string }): JSX.Element {
  return (
    <label class="check">
      <input type="checkbox" checked={of.value} onChange={(event) => (of.value = event.currentTarget.checked)} />
      {label}
    </label>
  );
}

/** The buttons that take the whole output along. */
function Take({ view, onWrong }: { view: CallView; onWrong: (text: string) => void }): JSX.Element {
  const [came, setCame] = useState<number>();
  const take = async (how: (parts: Uint8Array<ArrayBuffer>[]) => Promise<void> | void): Promise<void> => {
    onWrong("");
    setCame(0);
    try {
      await how(await view.whole(setCame));
    } catch (error) {
      onWrong(error instanceof ConnectError ? problem(error) : `This could not be done: ${String(error)}`);
    }
    setCame(undefined);
  };
  const toClipboard = async (parts: Uint8Array<ArrayBuffer>[]): Promise<void> => {
    await copy(bare(await new Blob(parts).text()));
    announce("Copied, without colours.");
  };
  const isLarge = view.total.value > MOST_COPIED;
  return (
    <>
      <button
        type="button"
        disabled={came !== undefined || isLarge}
        title={isLarge ? "Too large to copy: download it" : undefined}
        onClick={() => void take(toClipboard)}
      >
        Copy
      </button>
      <button
        type="button"
        disabled={came !== undefined}
        onClick={() => void take((parts) => save(`${view.id}.txt`, parts))}
      >
        Download
      </button>
      {came !== undefined && <span class="dim">{bytes(came)} read</span>}
    </>
  );
}

function summary({ lines, truncated }: Found): string {
  return `${count(lines.length, "line")} found${truncated ? ", and there are more" : ""}`;
}

interface MatchesProps {
  found: Found;
  onChoose: (line: OutputLine) => void;
  onClose: () => void;
}

function Matches({ found, onChoose, onClose }: MatchesProps): JSX.Element {
  const [chosen, setChosen] = useState("");
  useEffect(() => setChosen(""), [found]);
  const choose = (id: string): void => {
    setChosen(id);
    const line = found.lines.find((one) => one.line.toString() === id);
    if (line !== undefined) onChoose(line);
  };
  const height = Math.min(6, Math.max(1, found.lines.length)) * 24 + 8;
  return (
    <section class="matches" aria-label="Lines found">
      <p>
        {summary(found)}{" "}
        <button type="button" class="small" onClick={onClose}>
          Close the search
        </button>
      </p>
      <div style={{ height: `${height}px` }}>
        <ListBox
          items={found.lines}
          id={(line) => line.line.toString()}
          chosen={chosen}
          onChoose={choose}
          height={24}
          label="Lines found"
          name="matches"
          render={(line) => (
            <span class="line clip">
              <span class="number">{line.line.toString()}</span> <code>{plain(line.text)}</code>
            </span>
          )}
          empty={<p>Nothing found.</p>}
        />
      </div>
    </section>
  );
}
