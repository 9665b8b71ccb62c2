// The parts of the page but the first one: a file of their own, so that the first one is soon there over a slow line.

import type { JSX } from "preact";
import * as current from "./current";
import { keep } from "./live";
import type { View } from "./route";
import { Calls } from "./ui/Calls";
import { Prompts } from "./ui/Prompts";
import { Sessions } from "./ui/Sessions";
import { Stripes, Timeline } from "./ui/Timeline";

export { Usage } from "./ui/Usage";

void keep(current.wanted, current.watch, true);

/** Shows one of them. */
export function Part({ view }: { view: Exclude<View, "home"> }): JSX.Element {
  return (
    <>
      {view === "calls" && <Calls />}
      {view === "prompts" && <Prompts />}
      {view === "timeline" && <Timeline />}
      {view === "sessions" && <Sessions />}
      <Stripes />
    </>
  );
}
