// What a person has begun to write as an answer. It outlives what is drawn: a prompt is away while the service starts again, and a
// login may come between. It is forgotten with the answer, and never leaves the memory of the tab.

import { useState } from "preact/hooks";

const drafts = new Map<string, Map<string, unknown>>();

/** A state that is kept for a prompt under a name, until the prompt is answered. */
export function useDraft<T>(promptId: string, name: string, first: () => T): [T, (to: T) => void] {
  const [value, setValue] = useState<T>(() => {
    const kept = drafts.get(promptId);
    return kept?.has(name) ? (kept.get(name) as T) : first();
  });
  const change = (to: T): void => {
    const kept = drafts.get(promptId) ?? new Map<string, unknown>();
    drafts.set(promptId, kept.set(name, to));
    setValue(() => to);
  };
  return [value, change];
}

/** Forgets what was written for a prompt. */
export function forget(promptId: string): void {
  drafts.delete(promptId);
}
