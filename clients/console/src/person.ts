// Who decides here: the name that is recorded with answers. It is asked for once, and kept in this browser.

import { signal } from "@preact/signals";

const NAME = "toolgate.name";
/** Bytes of a name that a service takes with an answer. */
const LONGEST = 256;

/** What is sent for somebody who gives no name. */
const NAMELESS = "console";

/** The name; empty for somebody who gives none, null as long as nobody has been asked. */
export const person = signal<string | null>(localStorage.getItem(NAME));

/** The name as it is recorded. */
export const recorded = (): string => person.value || NAMELESS;

/** Takes another name, or none. */
export function setPerson(name: string): void {
  let text = name.trim();
  while (new TextEncoder().encode(text).length > LONGEST) text = text.slice(0, -1);
  person.value = text;
  localStorage.setItem(NAME, person.value);
}

addEventListener("storage", ({ key, newValue }) => {
  if (key === NAME) person.value = newValue;
});

/** What waits for the name, while it is asked for: told whether to go on. */
export const asker = signal<((goesOn: boolean) => void) | undefined>(undefined);

/** Asks for the name if that has not been done. Returns whether the person goes on. */
export async function introduced(): Promise<boolean> {
  if (person.value !== null) return true;
  asker.value?.(false);
  const goesOn = await new Promise<boolean>((resolve) => (asker.value = resolve));
  asker.value = undefined;
  return goesOn;
}
