// Where the person is: the part of the address behind `#`. It never holds anything secret.

import { signal } from "@preact/signals";

/** The parts of the page. */
export const VIEWS = ["home", "calls", "prompts", "timeline", "sessions"] as const;

/** One of them. */
export type View = (typeof VIEWS)[number];

/** A view, and what is chosen in it. */
export interface Place {
  view: View;
  id: string;
  /** A line of the output, counted from 1; 0 for none. */
  line: number;
}

/** Reads an address. */
export function parse(hash: string): Place {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const [view, ...rest] = path!.split("/");
  const known = VIEWS.find((name) => name === view) ?? "home";
  const line = /^line=(\d{1,12})$/.exec(query ?? "")?.[1] ?? "0";
  try {
    return { view: known, id: decodeURIComponent(rest.join("/")), line: Number(line) };
  } catch {
    return { view: known, id: "", line: 0 };
  }
}

/** The place now. */
export const place = signal<Place>(parse(location.hash));

addEventListener("hashchange", () => {
  place.value = parse(location.hash);
});

/** Returns the address of a place. */
export function address(view: View, id = "", line = 0): string {
  return `#/${view}${id === "" ? "" : `/${encodeURIComponent(id)}`}${line === 0 ? "" : `?line=${line}`}`;
}

/** Goes to an address. Moving within a list leaves no trail of steps to go back through. */
export function go(view: View, id = "", how: "push" | "replace" = "push", line = 0): void {
  const to = address(view, id, line);
  if (to === location.hash) return;
  if (how === "replace") {
    history.replaceState(null, "", to);
    place.value = parse(to);
  } else {
    location.hash = to;
  }
}

const narrow = matchMedia("(max-width: 800px)");

/** Whether there is room for one column only: a list, or what is chosen in it. */
export const isNarrow = signal(narrow.matches);
narrow.addEventListener("change", () => (isNarrow.value = narrow.matches));
