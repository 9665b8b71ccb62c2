// Where the page begins.

import { render } from "preact";
import { attends, keep, shown } from "./live";
import * as prompts from "./prompts";
import * as sessions from "./sessions";
import { App } from "./ui/App";

void keep(() => (shown.value ? "events" : undefined), sessions.watch);
void keep(() => (shown.value || attends.value ? "prompts" : undefined), prompts.watch);
const root = document.getElementById("app")!;
root.replaceChildren();
render(<App />, root);
