// What a terminal sends for the keys of a browser.

/** What the keys send that stand for no character. */
const KEYS: Record<string, string> = {
  Enter: "\r",
  Backspace: "\u007f",
  Tab: "\t",
  Escape: "\u001b",
  Insert: "\u001b[2~",
  Delete: "\u001b[3~",
  PageUp: "\u001b[5~",
  PageDown: "\u001b[6~",
  F1: "\u001bOP",
  F2: "\u001bOQ",
  F3: "\u001bOR",
  F4: "\u001bOS",
  F5: "\u001b[15~",
  F6: "\u001b[17~",
  F7: "\u001b[18~",
  F8: "\u001b[19~",
  F9: "\u001b[20~",
  F10: "\u001b[21~",
  F11: "\u001b[23~",
  F12: "\u001b[24~",
};

/** Those that the program may want in another form. */
const MOVES: Record<string, string> = {
  ArrowUp: "A",
  ArrowDown: "B",
  ArrowRight: "C",
  ArrowLeft: "D",
  Home: "H",
  End: "F",
};

/** Returns what a terminal sends for a key; none for those that are the browser's. */
export function sequence(
  { key, ctrlKey, altKey, shiftKey, metaKey, isComposing }: Partial<KeyboardEvent> & { key: string },
  application: boolean,
): string | undefined {
  // Copying and pasting are the browser's.
  if (metaKey || isComposing || (ctrlKey && shiftKey)) return undefined;
  const move = MOVES[key];
  if (move !== undefined) {
    const modifiers = 1 + (shiftKey ? 1 : 0) + (altKey ? 2 : 0) + (ctrlKey ? 4 : 0);
    if (modifiers > 1) return `\u001b[1;${modifiers}${move}`;
    return `\u001b${application ? "O" : "["}${move}`;
  }
  if (key === "Tab" && shiftKey) return "\u001b[Z";
  const other = KEYS[key];
  const prefix = altKey ? "\u001b" : "";
  if (other !== undefined) return prefix + other;
  if ([...key].length !== 1) return undefined;
  if (!ctrlKey) return prefix + key;
  const code = key.toUpperCase().charCodeAt(0);
  if (key === " ") return `${prefix}\u0000`;
  return code >= 0x40 && code < 0x60 ? prefix + String.fromCharCode(code & 0x1f) : undefined;
}
