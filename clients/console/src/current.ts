// The call that the page shows: watched as long as it can be seen.

import { effect, signal } from "@preact/signals";
import { CallView } from "./call";
import { shown, type Turn } from "./live";
import { place } from "./route";

/** It. */
export const current = signal<CallView | undefined>(undefined);

/** Moving through a list does not fetch every call on the way. */
const RESTS = 120;

let timer: ReturnType<typeof setTimeout> | undefined;

effect(() => {
  const id = place.value.view === "calls" ? place.value.id : "";
  clearTimeout(timer);
  if (current.peek()?.id === id) return;
  current.value = undefined;
  if (id === "") return;
  timer = setTimeout(() => {
    current.value = new CallView(id);
  }, RESTS);
});

/** Names what is to be watched now. */
export const wanted = (): unknown => {
  const view = current.value;
  return shown.value && view !== undefined && !view.done.value ? view : undefined;
};

/** Watches it. */
export async function watch(turn: Turn): Promise<void> {
  await current.peek()?.watch(turn);
}
