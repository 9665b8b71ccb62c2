// The output of a call: followed while it comes, read in pieces, searched as a whole.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { problem } from "../api";
import type { CallView } from "../call";
import { shortcuts } from "../shortcuts";
import { bytes, count, plain } from "../text";
import type { OutputLine } from "../gen/toolgate/v1/output_service_pb";
import { ListBox, Rows } from "./Rows";

const HEIGHT = 19;
/** Bytes before a found line that are shown with it. */
const BEFORE = 32 * 1024;

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
  const follows = view.follows.value;
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
  const toLine = (line: OutputLine): void => {
    view.follows.value = false;
    void guarded(async () => {
      if (view.outputId.value !== "") await view.toOffset(Math.max(0, Number(line.offset) - BEFORE));
      const at = view.window.linesBefore(Number(line.offset));
      setMark({ line: at, number: Number(line.line) });
      const row = view.window.rows().findIndex((one) => one.line === at);
      requestAnimationFrame(() => {
        if (box.current !== null) box.current.scrollTop = Math.max(0, row * HEIGHT - box.current.clientHeight / 3);
      });
    });
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
      {found !== undefined && <Matches found={found} onChoose={toLine} onClose={() => setFound(undefined)} />}
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
            return (
              <div key={index} class={`out ${isMarked ? "marked" : ""}`}>
                <span class="number" aria-hidden="true">
                  {first === undefined || row.continued ? "" : first + row.line}
                </span>
                <code>{plain(row.text)}</code>
              </div>
            );
          }}
        />
      )}
    </div>
  );
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
