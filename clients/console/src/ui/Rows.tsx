// Lists of any length of which only what can be seen is in the page.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

/** Rows beyond the edges that are drawn all the same, so that scrolling shows no gaps. */
const SPARE = 12;

interface Visible {
  first: number;
  last: number;
  box: preact.RefObject<HTMLDivElement | null>;
  onScroll: () => void;
}

/** Finds out which rows can be seen. */
function useVisible(count: number, height: number): Visible {
  const box = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState({ first: 0, last: 60 });
  const measure = (): void => {
    const element = box.current;
    if (element === null) return;
    const first = Math.max(0, Math.floor(element.scrollTop / height) - SPARE);
    const last = Math.ceil((element.scrollTop + element.clientHeight) / height) + SPARE;
    setRange((before) => (before.first === first && before.last === last ? before : { first, last }));
  };
  useLayoutEffect(measure, [count, height]);
  useEffect(() => {
    const observer = new ResizeObserver(measure);
    if (box.current !== null) observer.observe(box.current);
    return () => observer.disconnect();
  }, [height]);
  return { first: range.first, last: Math.min(count, range.last), box, onScroll: measure };
}

interface RowsProps {
  count: number;
  /** Of each row, in pixels. */
  height: number;
  label: string;
  class?: string;
  render: (index: number) => ComponentChildren;
  /** Whether the end stays in sight. */
  sticks?: boolean;
  /** Is told where the person has scrolled to. */
  onEdge?: (edge: "top" | "bottom" | "between") => void;
  scroller?: (element: HTMLDivElement | null) => void;
}

/** A region that scrolls over rows of the same height. */
export function Rows({ count, height, label, render, sticks, onEdge, scroller, ...props }: RowsProps): JSX.Element {
  const { first, last, box, onScroll } = useVisible(count, height);
  useLayoutEffect(() => {
    scroller?.(box.current);
    return () => scroller?.(null);
  }, []);
  useLayoutEffect(() => {
    if (sticks && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  });
  const scrolled = (): void => {
    onScroll();
    const element = box.current;
    if (element === null || onEdge === undefined) return;
    const isTop = element.scrollTop < height;
    const isBottom = element.scrollTop + element.clientHeight > element.scrollHeight - height;
    onEdge(isBottom ? "bottom" : isTop ? "top" : "between");
  };
  const rows = [];
  for (let index = first; index < last; index += 1) rows.push(render(index));
  return (
    <div
      class={`rows ${props.class ?? ""}`}
      ref={box}
      onScroll={scrolled}
      role="region"
      aria-label={label}
      tabIndex={0}
    >
      <div class="rows-all" style={{ height: `${count * height}px` }}>
        <div class="rows-seen" style={{ transform: `translateY(${first * height}px)` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}

interface ListBoxProps<T> {
  items: readonly T[];
  id: (item: T) => string;
  /** The id of the chosen item, or empty. */
  chosen: string;
  onChoose: (id: string) => void;
  onOpen?: (id: string) => void;
  height: number;
  label: string;
  name: string;
  class?: string;
  render: (item: T) => ComponentChildren;
  /** Is told when the person has come to the end. */
  onEnd?: () => void;
  empty: ComponentChildren;
}

/** A list of which one item is chosen: by the arrow keys, Home, End and the page keys, or by a click. */
export function ListBox<T>(props: ListBoxProps<T>): JSX.Element {
  const { items, id, chosen, height, name } = props;
  const { first, last, box, onScroll } = useVisible(items.length, height);
  const at = chosen === "" ? -1 : items.findIndex((item) => id(item) === chosen);
  const show = (index: number): void => {
    const element = box.current;
    if (element === null) return;
    const top = index * height;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + height > element.scrollTop + element.clientHeight)
      element.scrollTop = top + height - element.clientHeight;
  };
  useLayoutEffect(() => {
    if (at >= 0) show(at);
  }, [chosen, at >= 0]);
  // What a person looks at stays where it is when items come above it.
  const anchor = useRef("");
  useLayoutEffect(() => {
    const element = box.current;
    if (element === null) return;
    const seen = Math.floor(element.scrollTop / height);
    if (seen > 0 && anchor.current !== "" && (items[seen] === undefined || id(items[seen]) !== anchor.current)) {
      const now = items.findIndex((item) => id(item) === anchor.current);
      if (now >= 0) element.scrollTop += (now - seen) * height;
    }
    note();
  }, [items]);
  const note = (): void => {
    const seen = items[Math.floor((box.current?.scrollTop ?? 0) / height)];
    anchor.current = seen === undefined ? "" : id(seen);
  };
  const scrolled = (): void => {
    onScroll();
    note();
    const element = box.current;
    if (element === null || props.onEnd === undefined) return;
    if (element.scrollTop + element.clientHeight > element.scrollHeight - height) props.onEnd();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const page = Math.max(1, Math.floor((box.current?.clientHeight ?? height) / height) - 1);
    const moves: Record<string, number> = {
      ArrowDown: at + 1,
      ArrowUp: at < 0 ? 0 : at - 1,
      PageDown: at + page,
      PageUp: at - page,
      Home: 0,
      End: items.length - 1,
    };
    const to = moves[event.key];
    if (event.key === "Enter" && at >= 0) {
      event.preventDefault();
      props.onOpen?.(chosen);
    } else if (to !== undefined && items.length > 0) {
      event.preventDefault();
      props.onChoose(id(items[Math.min(items.length - 1, Math.max(0, to))]!));
    }
  };
  const rows = [];
  for (let index = first; index < last; index += 1) {
    const item = items[index]!;
    const key = id(item);
    rows.push(
      <div
        key={key}
        id={`${name}-${index}`}
        class="item"
        role="option"
        aria-selected={key === chosen}
        aria-setsize={items.length}
        aria-posinset={index + 1}
        style={{ height: `${height}px` }}
        onClick={() => {
          box.current?.focus();
          props.onChoose(key);
        }}
        onDblClick={() => props.onOpen?.(key)}
      >
        {props.render(item)}
      </div>,
    );
  }
  if (items.length === 0) return <div class={`rows ${props.class ?? ""} empty`}>{props.empty}</div>;
  return (
    <div
      class={`rows ${props.class ?? ""}`}
      ref={box}
      onScroll={scrolled}
      onKeyDown={onKeyDown}
      role="listbox"
      aria-label={props.label}
      aria-activedescendant={at >= first && at < last ? `${name}-${at}` : undefined}
      tabIndex={0}
      data-list={name}
    >
      <div class="rows-all" role="presentation" style={{ height: `${items.length * height}px` }}>
        <div class="rows-seen" role="presentation" style={{ transform: `translateY(${first * height}px)` }}>
          {rows}
        </div>
      </div>
    </div>
  );
}
