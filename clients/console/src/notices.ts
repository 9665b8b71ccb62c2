// What is said once, to eyes and to screen readers.

import { signal } from "@preact/signals";

const LASTS = 6_000;

/** The last thing that was said, and its number: the same words said twice are said twice. */
export const notice = signal({ text: "", number: 0 });

let timer: ReturnType<typeof setTimeout> | undefined;

/** Says something. */
export function announce(text: string): void {
  notice.value = { text, number: notice.value.number + 1 };
  clearTimeout(timer);
  timer = setTimeout(() => {
    notice.value = { text: "", number: notice.value.number };
  }, LASTS);
}
