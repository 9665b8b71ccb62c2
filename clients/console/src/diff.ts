// Unified diffs, taken apart for a table.

/** One line of a diff. */
export interface DiffLine {
  kind: "file" | "hunk" | "added" | "removed" | "same" | "note";
  text: string;
  /** Its number before and after, where it has one. */
  before?: number;
  after?: number;
}

/** What a diff says, and how much it adds and removes. */
export interface Diff {
  lines: DiffLine[];
  added: number;
  removed: number;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

/** Takes a unified diff of any number of files apart. Every line is kept, but for those that name a file once more: what is not
 * understood is a note. */
export function parseDiff(text: string): Diff {
  const lines: DiffLine[] = [];
  let [added, removed] = [0, 0];
  let [before, after] = [0, 0];
  // What the hunk's head still promises: inside a hunk `--- x` is a removed line, outside the name of a file.
  let [leftBefore, leftAfter] = [0, 0];
  const all = text.split("\n");
  if (all.at(-1) === "") all.pop();
  for (const line of all) {
    const inside = leftBefore > 0 || leftAfter > 0;
    const mark = line[0] ?? " ";
    const rest = line.slice(1);
    const hunk = HUNK.exec(line);
    if (inside && mark === "+") {
      lines.push({ kind: "added", text: rest, after: after++ });
      added += 1;
      leftAfter -= 1;
    } else if (inside && mark === "-") {
      lines.push({ kind: "removed", text: rest, before: before++ });
      removed += 1;
      leftBefore -= 1;
    } else if (inside && mark === " ") {
      lines.push({ kind: "same", text: rest, before: before++, after: after++ });
      leftBefore -= 1;
      leftAfter -= 1;
    } else if (hunk) {
      [before, after] = [Number(hunk[1]), Number(hunk[3])];
      [leftBefore, leftAfter] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      lines.push({ kind: "hunk", text: line });
    } else if (/^(?:--- |\+\+\+ |Index: |diff |={10})/.test(line)) {
      if (!line.startsWith("=")) name(lines, line);
    } else {
      lines.push({ kind: "note", text: line });
    }
  }
  return { lines, added, removed };
}

/** Adds a line that names a file. Where the lines above name the same one, the name alone is left of them. */
function name(lines: DiffLine[], line: string): void {
  const path = line.slice(4);
  const isSame = (text: string): boolean => lines.at(-1)?.kind === "file" && lines.at(-1)?.text === text;
  if (!line.startsWith("+++ ") || !isSame(`--- ${path}`)) {
    lines.push({ kind: "file", text: line });
    return;
  }
  lines.pop();
  if (isSame(`Index: ${path}`)) lines.pop();
  lines.push({ kind: "file", text: path });
}
