// What needs no browser: diffs, the window on an output, texts.

import { expect, test } from "@playwright/test";
import { parseDiff } from "../src/diff";
import { create } from "@bufbuild/protobuf";
import { after, classes, painted, PLAIN } from "../src/ansi";
import { fieldsOf, inputOf, syntax } from "../src/input";
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
  check("Index: a\n====================\n--- a\n+++ a\nnonsense\n", ["file - -", "note - -"]);
  expect(parseDiff("Index: a\n--- a\n+++ a\n--- b\n+++ b\n").lines.map(({ text }) => text)).toEqual(["a", "b"]);
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
  expect(window.rows().at(-1)).toMatchObject({ text: "four", line: 3, continued: false });
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

test("a window is wrapped without tearing colours, and knows where lines begin", () => {
  const window = new Window();
  window.replace(100, encode("\u001b[31mabcdef\nwide 漢字\u001b[0m\n"));
  window.wrap(4);
  expect(window.rows().map(({ text, line, continued, look }) => [text, line, continued, look.front])).toEqual([
    ["\u001b[31mabcd", 0, false, undefined],
    ["ef", 0, true, 1],
    ["wide", 1, false, 1],
    [" 漢", 1, true, 1],
    ["字\u001b[0m", 1, true, 1],
  ]);
  expect([0, 1, 2].map((line) => window.startOf(line))).toEqual([100, 112, 128]);
  window.wrap(0);
  expect(window.rows()).toHaveLength(2);
});

test("colours are taken apart, and everything else that is hidden is shown", () => {
  const check = (text: string, expected: [string, string | undefined][]): void => {
    expect(painted(text).map((piece) => [piece.text, classes(piece.look)])).toEqual(expected);
  };
  check("plain", [["plain", undefined]]);
  check("", []);
  check("\u001b[1;31mred\u001b[0m\u001b[Kno", [
    ["red", "ansi-bold ansi-1"],
    ["no", undefined],
  ]);
  check("\u001b[38;5;196ma\u001b[38;2;0;200;0mb\u001b[38:2::0:0:250mc\u001b[39md", [
    ["a", "ansi-1"],
    ["b", "ansi-2"],
    ["c", "ansi-4"],
    ["d", undefined],
  ]);
  check("\u001b[97;44mx\u001b[49;90my", [
    ["x", "ansi-back-4"],
    ["y", "ansi-8"],
  ]);
  check("\u001b[38;5;240;4mg\u001b[24;7mh", [
    ["g", "ansi-underline ansi-8"],
    ["h", "ansi-turned ansi-8"],
  ]);
  // Hidden text stays to be seen, and so do marks that turn it around.
  check("\u001b[8mpassword\u202e", [["password\\u{202e}", undefined]]);
  check("\u001b[m\u001b[;mx\u001b[", [["x\\u{1b}[", undefined]]);
  expect(after("\u001b[32mgreen", PLAIN)).toEqual({ front: 2 });
  expect(after("more", { front: 2 })).toEqual({ front: 2 });
});

test("an input is edited field by field, texts without escapes", () => {
  const fields = fieldsOf('{"description":"Says \\"hi\\"","timeout":5,"command":"a\\nb"}');
  expect(fields.map(({ name, text, isText }) => [name, text, isText])).toEqual([
    ["command", "a\nb", true],
    ["description", 'Says "hi"', true],
    ["timeout", "5", false],
  ]);
  expect(JSON.parse(inputOf(fields))).toEqual({ command: "a\nb", description: 'Says "hi"', timeout: 5 });
  expect(syntax(inputOf(fields.map((field) => ({ ...field, text: "1 2" }))))).toContain("This is no JSON");
  expect(fieldsOf("[1]")).toEqual([]);
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
    "0 ms",
    "250 ms",
    "9.9 s",
    "1 min 1 s",
    "1 h 0 min",
    "1 d 1 h",
  ]);
  expect([0, 1023, 1024, 200_000_000].map(bytes)).toEqual(["0 B", "1023 B", "1.0 KiB", "191 MiB"]);
});

test("what a workspace uses is said in a line", () => {
  const some = create(WorkspaceUsageSchema, { runningCalls: 2, processes: 1, memoryBytes: 12_900_000n });
  expect(used(some, 250)).toBe("2 calls, 1 process, 12 MiB, 250 ms of processor");
  expect(used(create(WorkspaceUsageSchema), 0)).toBe("0 calls, 0 processes, 0 B, 0 ms of processor");
});
