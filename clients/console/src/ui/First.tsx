// What somebody does first with a service that has made no call yet.

import type { JSX } from "preact";
import { isLoggedIn } from "../api";
import { toClipboard } from "../browser";

/** Shows it. */
export function First(): JSX.Element {
  const server = `--server ${location.origin}`;
  return (
    <section class="part first" aria-labelledby="first-title">
      <h2 id="first-title">Make a first call</h2>
      <p>This service has not run any tool yet. Run this in a terminal:</p>
      <Command text={`toolgate call ${server} --wait bash command='echo hello' description='Says hello'`} />
      <p>
        The call is listed on this page. If the rules ask about it, it waits here for your answer; otherwise, it runs at
        once.
      </p>
      <h3>Connect your agent</h3>
      <p>
        This lets Claude Code use the tools of this service; <code>toolgate setup --help</code> lists the other clients:
      </p>
      <Command text={`toolgate setup claude-code ${server}`} />
      {isLoggedIn() && (
        <p>
          This service needs a token: set <code>TOOLGATE_TOKEN_FILE</code> to a file that contains yours.
        </p>
      )}
    </section>
  );
}

function Command({ text }: { text: string }): JSX.Element {
  return (
    <div class="copied">
      <pre class="command">{text}</pre>
      <button type="button" onClick={() => toClipboard(text)}>
        Copy
      </button>
    </div>
  );
}
