// Text with the colours that a program gave it.

import type { JSX } from "preact";
import { classes, painted, type Look } from "../ansi";

/** Shows it; `look` is what is switched on where it begins. */
export function Painted({ text, look }: { text: string; look?: Look }): JSX.Element {
  return (
    <>
      {painted(text, look).map((piece, index) => {
        const look = classes(piece.look);
        return look === undefined ? (
          piece.text
        ) : (
          <span key={index} class={look}>
            {piece.text}
          </span>
        );
      })}
    </>
  );
}
