// In which workspace something is, where lists have more than one.

import type { JSX } from "preact";
import { workspace } from "../filters";
import { server } from "../sessions";
import { short } from "../text";

/** Says whether the lists show more than one workspace. */
export function severalAreShown(): boolean {
  return workspace.value === "" && (server.value?.workspaces.length ?? 0) > 1;
}

/** Names the workspace, unless all that is shown is in the same one. */
export function Where({ of }: { of: string }): JSX.Element | null {
  return severalAreShown() && of !== "" ? <span class="tag">{short(of, 40)}</span> : null;
}
