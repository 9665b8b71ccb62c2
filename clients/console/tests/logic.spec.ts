// What needs no browser: diffs, the window on an output, texts.

import { expect, test } from "@playwright/test";
import { parseDiff } from "../src/diff";
import { create } from "@bufbuild/protobuf";
import { bytes, duration, plain, short, used, visible } from "../src/text";
import { WorkspaceUsageSchema } from "../src/gen/toolgate/v1/info_service_pb";
import { MOST_BYTES, Window } from "../src/window";

const encode = (text: string): Uint8Array => new TextEncoder().encode(text);

test("diffs are taken apart by what their hunks promise", () => {
  const check = (text: string, expected: string[]): void => {
    const lines = parseDiff(text).lines.map(({ kind, before, after }) => `${kind} ${before ?? "-"} ${after ?? "-"}`);
    expect(lines).toEqual(expected);
  };
  check("--- a\n+++ b\n@@ -1,2 +1,2 @@\n same\n-old\n+new\n", [
    "file - -",
    "file - -",
    "hunk - -",
    "same 1 1",
    "removed 2 -",
    "added - 2",
  ]);
  // A removed line that looks like the name of a file.
  check("@@ -5 +5,0 @@\n--- x\n", ["hunk - -", "removed 5 -"]);
  check("@@ -0,0 +1 @@\n+one\n\\ No newline at end of file\n", ["hunk - -", "added - 1", "note - -"]);
  // Two files, and what nobody knows.
  check("Index: a\n====================\n--- a\n+++ a\nnonsense\n", ["file - -", "file - -", "file - -", "note - -"]);
  check("", []);
  expect(parseDiff("@@ -1 +1,2 @@\n-a\n+b\n+c\n")).toMatchObject({ added: 2, removed: 1 });
});

test("the window on an output is bounded, and its bytes follow each other", () => {
  const window = new Window();
  window.append(0, encode("one\ntwo\nthr"));
  window.append(11, encode("ee\n"));
  expect(window.rows().map((row) => row.text)).toEqual(["one", "two", "three"]);
  // Bytes that are there already, and bytes beyond a gap.
  window.append(8, encode("three\nfour\n"));
  expect(window.rows().at(-1)).toEqual({ text: "four", line: 3, continued: false });
  window.append(1000, encode("far\n"));
  expect([window.start, window.end, window.rows().length]).toEqual([1000, 1004, 1]);
  expect(window.prepend(996, encode("new\n"))).toBe(1);
  expect(window.prepend(5, encode("elsewhere"))).toBe(0);
  expect(window.linesBefore(1000)).toBe(1);

  const line = encode(`${"x".repeat(99)}\n`);
  const many = new Window();
  for (let index = 0; index < 8_000; index += 1) many.append(index * 100, line);
  expect(many.end).toBe(800_000);
  expect(many.end - many.start).toBeLessThanOrEqual(MOST_BYTES);
  expect(many.start % 100).toBe(0);
});

test("long lines go on below, and characters are not torn", () => {
  const window = new Window();
  window.replace(0, encode(`${"x".repeat(4_500)}\nshort\r\n10%\r20%\r\n`));
  expect(window.rows().map(({ text, line, continued }) => [text.length, line, continued])).toEqual([
    [2000, 0, false],
    [2000, 0, true],
    [500, 0, true],
    [5, 1, false],
    [3, 2, false],
    [3, 2, true],
  ]);
  window.replace(7, encode("äb").slice(1));
  expect(window.text()).toBe("b");
});

test("texts are short, and hide nothing", () => {
  for (const [text, expected] of [
    ["plain\ttext\n", "plain\ttext\n"],
    ["a\u202eb", "a\\u{202e}b"],
    ["\u001b[31mred\u001b[0m", "\\u{1b}[31mred\\u{1b}[0m"],
    ["zero\u200bwidth", "zero\\u{200b}width"],
  ] as const) {
    expect(visible(text)).toBe(expected);
  }
  expect(plain("\u001b[31mred\u001b[0m \u001b]0;title\u0007x\u0008")).toBe("red x\\u{8}");
  expect(short(" a\n b ", 10)).toBe("a b");
  expect(short("abcdef", 4)).toBe("abc…");
  expect([0, 250, 9_900, 61_000, 3_600_000, 90_000_000].map(duration)).toEqual([
    "0.00 s",
    "0.25 s",
    "9.9 s",
    "1 min 1 s",
    "1 h 0 min",
    "1 d 1 h",
  ]);
  expect([0, 1023, 1024, 200_000_000].map(bytes)).toEqual(["0 B", "1023 B", "1.0 KiB", "191 MiB"]);
});

test("what a workspace uses is said in a line", () => {
  const some = create(WorkspaceUsageSchema, { runningCalls: 2, processes: 1, memoryBytes: 12_900_000n });
  expect(used(some, 250)).toBe("2 calls, 1 process, 12 MiB, 0.25 s of processor");
  expect(used(create(WorkspaceUsageSchema), 0)).toBe("0 calls, 0 processes, 0 B, 0.00 s of processor");
});
