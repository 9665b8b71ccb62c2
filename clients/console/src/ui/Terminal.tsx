// The terminal of a running call: its rows, and the keyboard for it.

import type { JSX } from "preact";
import { useMemo, useRef } from "preact/hooks";
import type { CallView } from "../call";

/** Shows it. Every key goes to the programs in it while it has the focus, but Ctrl-], which leaves it. */
export function TerminalPanel({ view }: { view: CallView }): JSX.Element {
  const screen = useMemo(() => view.open(), [view]);
  void screen.version.value;
  const { columns, rows } = screen.size.value;
  const cells = useRef<HTMLDivElement>(null);
  const probe = useRef<HTMLSpanElement>(null);
  const leave = useRef<HTMLButtonElement>(null);
  const fit = (): void => {
    const [box, letter] = [cells.current, probe.current?.getBoundingClientRect()];
    if (box === null || letter === undefined) return;
    const style = getComputedStyle(box);
    const inner = (size: number, before: string, after: string): number =>
      size - Number.parseFloat(before) - Number.parseFloat(after);
    const width = inner(box.clientWidth, style.paddingLeft, style.paddingRight);
    const height = inner(box.clientHeight, style.paddingTop, style.paddingBottom);
    void screen.resize(Math.floor(width / (letter.width / 10)), Math.floor(height / letter.height));
    box.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.ctrlKey && event.key === "]") leave.current?.focus();
    else if (!screen.press(event)) return;
    event.preventDefault();
  };
  const onPaste = (event: ClipboardEvent): void => {
    event.preventDefault();
    screen.paste(event.clipboardData?.getData("text/plain") ?? "");
  };
  return (
    <div class="output">
      <div class="toolbar" role="group" aria-label="Terminal">
        <button ref={leave} type="button" onClick={fit}>
          Fit to this window
        </button>
        <span class="dim">
          {columns} x {rows}
        </span>
        <span class="dim end">
          Keys go to the terminal while it has the focus; <kbd>Ctrl</kbd> <kbd>]</kbd> leaves it.
        </span>
      </div>
      {screen.wrong.value !== "" && (
        <p class="bad" role="alert">
          {screen.wrong.value}
        </p>
      )}
      <div
        ref={cells}
        class="fill screen"
        role="application"
        aria-label="Terminal"
        tabIndex={0}
        onKeyDown={onKeyDown}
        onPaste={onPaste}
      >
        {screen.rows().map((spans, row) => (
          <div key={row}>
            {spans.map((span, index) => (
              <span key={index} class={span.isCursor ? "cursor" : undefined} style={span.look}>
                {span.text}
              </span>
            ))}
          </div>
        ))}
        <span ref={probe} class="probe" aria-hidden="true">
          MMMMMMMMMM
        </span>
      </div>
    </div>
  );
}
