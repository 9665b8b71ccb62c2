// What the workspace that is looked at uses now, and who opened it.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { createClient } from "@connectrpc/connect";
import { at, millis, transport } from "../api";
import { now } from "../clock";
import { moment, used, visible } from "../text";
import type { WorkspaceInfo } from "../gen/toolgate/v1/info_service_pb";
import { WorkspaceService } from "../gen/toolgate/v1/workspace_service_pb";

const workspaces = createClient(WorkspaceService, transport);

const PACE = 5_000;

/** Shows it in a line. What was said last stands while the service does not answer. */
export function Usage({ workspace }: { workspace: string }): JSX.Element | null {
  const [info, setInfo] = useState<WorkspaceInfo>();
  const turn = Math.floor(now.value / PACE);
  useEffect(() => {
    const stop = new AbortController();
    workspaces.getWorkspace({ workspace }, { signal: stop.signal }).then(
      (answer) => setInfo(answer.workspace),
      () => undefined,
    );
    return () => stop.abort();
  }, [workspace, turn]);
  if (info?.name !== workspace) return null;
  const { usage, openedBy } = info;
  const opened = at(info.openTime);
  const parts = [
    ...(usage === undefined ? [] : [used(usage, millis(usage.userTime) + millis(usage.systemTime))]),
    ...(opened === undefined ? [] : [`opened ${moment(opened)}${openedBy === "" ? "" : ` by ${visible(openedBy)}`}`]),
  ];
  if (parts.length === 0) return null;
  return (
    <span class="usage dim" role="group" aria-label="The workspace now">
      {parts.join(", ")}
    </span>
  );
}
