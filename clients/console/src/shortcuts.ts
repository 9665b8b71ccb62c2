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

document.addEventListener("keydown", (event) => {
  if (!enabled.value || event.defaultPrevented || event.ctrlKey || event.altKey || event.metaKey || event.repeat)
    return;
  if (isWriting(event.target) || document.querySelector("dialog[open]") !== null) return;
  // The handler that came last is the one of what is shown last.
  const handled = handlers.findLast((handler) => handler(event.key, event));
  if (handled !== undefined) event.preventDefault();
});
