// Where the page begins.

import { render } from "preact";
import * as current from "./current";
import { attends, keep, shown } from "./live";
import * as prompts from "./prompts";
import * as sessions from "./sessions";
import { App } from "./ui/App";

void keep(() => (shown.value ? "events" : undefined), sessions.watch);
void keep(() => (shown.value || attends.value ? "prompts" : undefined), prompts.watch);
void keep(current.wanted, current.watch, true);
render(<App />, document.getElementById("app")!);
