// The time, for what is shown of what still runs.

import { signal } from "@preact/signals";

/** Now, in milliseconds: set every second while the page is seen. */
export const now = signal(Date.now());

setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1_000);
