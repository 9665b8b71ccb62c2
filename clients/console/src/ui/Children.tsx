// The calls that a call made, and those that they made.

import type { JSX } from "preact";
import type { CallView } from "../call";
import { row as rowOf, rows, version } from "../calls";
import { address } from "../route";
import { count, duration, short } from "../text";
import { now } from "../clock";
import { State } from "./State";
import { titled } from "./titled";

/** Calls that are shown below one. */
const MOST = 200;
/** How deep the tree is drawn; below that the calls have pages of their own. */
const DEEP = 3;

/** Shows them, if there are any. */
export function Children({ view }: { view: CallView }): JSX.Element | null {
  void version.value;
  const ids = new Set(view.children.value.keys());
  for (const one of belowOf(view.id)) ids.add(one);
  if (ids.size === 0) return null;
  return (
    <details class="children" open>
      <summary>Made {count(ids.size, "call")}</summary>
      <Tree ids={[...ids]} tools={view.children.value} depth={1} />
    </details>
  );
}

/** The calls that a call made, of those that are loaded, in the order in which they came. */
function belowOf(id: string): string[] {
  return rows()
    .filter((row) => row.parent === id)
    .map((row) => row.id)
    .reverse();
}

interface TreeProps {
  ids: readonly string[];
  tools?: ReadonlyMap<string, string>;
  depth: number;
}

function Tree({ ids, tools, depth }: TreeProps): JSX.Element {
  return (
    <ul>
      {ids.slice(0, MOST).map((id) => {
        const row = rowOf(id);
        const below = depth < DEEP ? belowOf(id) : [];
        return (
          <li key={id}>
            <a href={address("calls", id)}>
              <b>{short(row?.tool ?? tools?.get(id) ?? "", 40)}</b>{" "}
              {row === undefined ? short(id, 60) : titled(row, 120)}
            </a>{" "}
            {row !== undefined && (
              <>
                <State {...row} /> <span class="dim">{duration((row.ended ?? now.value) - row.created)}</span>
              </>
            )}
            {below.length > 0 && <Tree ids={below} depth={depth + 1} />}
          </li>
        );
      })}
      {ids.length > MOST && <li class="dim">and {(ids.length - MOST).toLocaleString()} more</li>}
    </ul>
  );
}
