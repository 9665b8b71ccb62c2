// Keys that do something wherever the person is, unless something is being written.

import { signal } from "@preact/signals";

const OFF = "toolgate.keys";

/** Whether single keys do something. Some who speak to their machine, or whose hands shake, must switch that off. */
export const enabled = signal(sessionStorage.getItem(OFF) !== "off");

/** Switches them on or off. */
export function setEnabled(on: boolean): void {
  enabled.value = on;
  sessionStorage.setItem(OFF, on ? "on" : "off");
}

type Handler = (key: string, event: KeyboardEvent) => boolean;

const handlers: Handler[] = [];

/** Listens to keys; a handler that knows the key says so. Returns what ends that. */
export function shortcuts(handler: Handler): () => void {
  handlers.push(handler);
  return () => {
    handlers.splice(handlers.indexOf(handler), 1);
  };
}

function isWriting(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable || target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement)
    return true;
  return target instanceof HTMLInputElement && !["checkbox", "radio", "button"].includes(target.type);
}

/** How long a person may pause who goes on writing, in milliseconds. */
const PAUSE = 2_000;

/** The field that is written in, and when a key was last pressed for it; none once the person has left it. */
let written: { field: Node; time: number } | undefined;

/**
 * Whether a key is meant for a field that is no longer there: its prompt was answered elsewhere, or is away. It must not answer
 * another one.
 */
function isForWhatIsGone(event: KeyboardEvent): boolean {
  if (isWriting(event.target)) {
    const isLeft = event.key === "Escape" || (event.key === "Enter" && event.target instanceof HTMLInputElement);
    written = isLeft ? undefined : { field: event.target as Node, time: event.timeStamp };
    return false;
  }
  if (written === undefined || written.field.isConnected || event.timeStamp - written.time > PAUSE) {
    written = undefined;
    return false;
  }
  written.time = event.timeStamp;
  return true;
}

document.addEventListener("pointerdown", () => (written = undefined));

document.addEventListener("keydown", (event) => {
  if (isForWhatIsGone(event)) return;
  if (!enabled.value || event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.repeat)
    return;
  if (isWriting(event.target) || document.querySelector("dialog[open]") !== null) return;
  // The handler that came last is the one of what is shown last.
  const handled = handlers.findLast((handler) => handler(event.key, event));
  if (handled !== undefined) event.preventDefault();
});
