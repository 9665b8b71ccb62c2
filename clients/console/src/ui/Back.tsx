// The way back to a list, where there is room for one column only.

import type { JSX } from "preact";
import { address, isNarrow, type View } from "../route";

/** Shows it. */
export function Back({ to, children }: { to: View; children: string }): JSX.Element | null {
  if (!isNarrow.value) return null;
  return (
    <p class="back">
      <a class="button" href={address(to)}>
        <span aria-hidden="true">‹</span> {children}
      </a>
    </p>
  );
}
