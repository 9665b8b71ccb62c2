// Colours in output: what the sequences of terminals that set them say, for text that is only read.
//
// The emulator in `emulator.ts` draws a whole screen and moves cursors; output is lines, of which any part may be looked at. What
// a library would return is HTML, which the policy of the page forbids, or loses what is switched on at the end of a line.

import { TERMINAL, visible } from "./text";

/** How text looks: what the sequences before it have switched on. Colours are those of 0 to 8, or none. */
export interface Look {
  readonly front?: number;
  readonly back?: number;
  readonly bold?: boolean;
  readonly dim?: boolean;
  readonly italic?: boolean;
  readonly underline?: boolean;
  readonly struck?: boolean;
  readonly turned?: boolean;
}

/** Text that looks the same. */
export interface Piece {
  text: string;
  look: Look;
}

/** How text looks at the beginning. */
export const PLAIN: Look = {};

/** The colour that is dim in light and in dark. */
const GREY = 8;

/** Takes a text apart by its looks. Everything that is hidden in it but colours is made visible. */
export function painted(text: string, look: Look = PLAIN): Piece[] {
  if (!text.includes("\u001b")) return text === "" ? [] : [{ text: visible(text), look }];
  const pieces: Piece[] = [];
  let from = 0;
  const add = (to: number): void => {
    if (to > from) pieces.push({ text: visible(text.slice(from, to)), look });
  };
  for (const found of text.matchAll(TERMINAL)) {
    add(found.index);
    from = found.index + found[0].length;
    look = changed(look, found[0]);
  }
  add(text.length);
  return pieces;
}

/** Returns how text looks after this one. */
export function after(text: string, look: Look): Look {
  if (!text.includes("\u001b")) return look;
  for (const [sequence] of text.matchAll(TERMINAL)) look = changed(look, sequence);
  return look;
}

/** Returns the names of a look in the sheet of styles. */
export function classes({ front, back, ...look }: Look): string | undefined {
  const names = Object.entries(look).flatMap(([name, on]) => (on ? [`ansi-${name}`] : []));
  // A text that has a ground of its own keeps the colour that can be read on each.
  if (back !== undefined) names.push(`ansi-back-${back}`);
  else if (front !== undefined) names.push(`ansi-${front}`);
  return names.length === 0 ? undefined : names.join(" ");
}

const COLOURS = /^\u001b\[([\d;:]*)m$/;

function changed(look: Look, sequence: string): Look {
  const found = COLOURS.exec(sequence);
  if (found === null) return look;
  const codes = found[1]!.split(";");
  for (let at = 0; at < codes.length; at += 1) {
    const [code, ...rest] = codes[at]!.split(":").map(Number);
    if (code !== 38 && code !== 48) {
      look = switched(look, code ?? 0, rest[0]);
      continue;
    }
    // `38:2::R:G:B` in one, or `38;2;R;G;B` in the codes that follow.
    const more = rest.length > 0 ? rest : codes.slice(at + 1, at + 5).map(Number);
    const colour = more[0] === 5 ? ofPalette(more[1] ?? 0) : nearest(rest.length > 0 ? more.slice(-3) : more.slice(1));
    if (rest.length === 0) at += more[0] === 5 ? 2 : 4;
    look = { ...look, [code === 38 ? "front" : "back"]: colour };
  }
  return look;
}

function switched(look: Look, code: number, kind: number | undefined): Look {
  if (code >= 30 && code <= 37) return { ...look, front: code - 30 };
  if (code >= 40 && code <= 47) return { ...look, back: code - 40 };
  if (code >= 90 && code <= 97) return { ...look, front: bright(code - 90) };
  if (code >= 100 && code <= 107) return { ...look, back: bright(code - 100) };
  switch (code) {
    case 0:
      return PLAIN;
    case 1:
      return { ...look, bold: true };
    case 2:
      return { ...look, dim: true };
    case 3:
      return { ...look, italic: true };
    case 4:
      return { ...look, underline: kind !== 0 };
    case 7:
      return { ...look, turned: true };
    case 9:
      return { ...look, struck: true };
    case 21:
      return { ...look, underline: true };
    case 22:
      return { ...look, bold: false, dim: false };
    case 23:
      return { ...look, italic: false };
    case 24:
      return { ...look, underline: false };
    case 27:
      return { ...look, turned: false };
    case 29:
      return { ...look, struck: false };
    case 39:
      return without(look, "front");
    case 49:
      return without(look, "back");
    default:
      // Also 8, which hides text: nothing is hidden here.
      return look;
  }
}

function without(look: Look, name: "front" | "back"): Look {
  const { [name]: _, ...rest } = look;
  return rest;
}

const bright = (colour: number): number => (colour === 0 ? GREY : colour);

/** Returns which of the nine colours one of 256 is drawn in. */
function ofPalette(index: number): number {
  if (index < 16) return index < 8 ? index : bright(index - 8);
  if (index >= 232) return nearest(Array<number>(3).fill(8 + (index - 232) * 10));
  const level = (part: number): number => (part === 0 ? 0 : 55 + part * 40);
  const cube = index - 16;
  return nearest([level(Math.floor(cube / 36)), level(Math.floor(cube / 6) % 6), level(cube % 6)]);
}

/** Returns the one of the nine colours that is next to any other: those can be read in light and in dark. */
function nearest(rgb: readonly number[]): number {
  const [red = 0, green = 0, blue = 0] = rgb;
  const [most, least] = [Math.max(red, green, blue), Math.min(red, green, blue)];
  if (most - least < 40) return most < 60 ? 0 : most < 190 ? GREY : 7;
  const half = (most + least) / 2;
  return (red > half ? 1 : 0) + (green > half ? 2 : 0) + (blue > half ? 4 : 0);
}
