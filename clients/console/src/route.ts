// Where the person is: the part of the address behind `#`. It never holds anything secret.

import { signal } from "@preact/signals";

/** The parts of the page. */
export const VIEWS = ["calls", "prompts", "timeline", "sessions"] as const;

/** One of them. */
export type View = (typeof VIEWS)[number];

/** A view, and what is chosen in it. */
export interface Place {
  view: View;
  id: string;
}

function parse(hash: string): Place {
  const [view, ...rest] = hash.replace(/^#\/?/, "").split("/");
  const known = VIEWS.find((name) => name === view) ?? "calls";
  try {
    return { view: known, id: decodeURIComponent(rest.join("/")) };
  } catch {
    return { view: known, id: "" };
  }
}

/** The place now. */
export const place = signal<Place>(parse(location.hash));

addEventListener("hashchange", () => {
  place.value = parse(location.hash);
});

/** Returns the address of a place. */
export function address(view: View, id = ""): string {
  return `#/${view}${id === "" ? "" : `/${encodeURIComponent(id)}`}`;
}

/** Goes somewhere. Moving within a list leaves no trail of steps to go back through. */
export function go(view: View, id = "", how: "push" | "replace" = "push"): void {
  const to = address(view, id);
  if (to === location.hash) return;
  if (how === "replace") {
    history.replaceState(null, "", to);
    place.value = parse(to);
  } else {
    location.hash = to;
  }
}
