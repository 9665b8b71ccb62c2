// Streams that are always open: taken up again by themselves when the connection is lost.

import { computed, effect, signal, type Signal } from "@preact/signals";
import { Code, ConnectError } from "@connectrpc/connect";
import { asked, logins, noted, problem } from "./api";

/** How a stream is. */
export interface Link {
  /** Whether it runs. */
  live: boolean;
  /** When it is tried again; none while it is being tried. */
  retry?: number;
  /** Why it does not run. */
  why: string;
}

/** The service says something every 15 seconds. After this much silence the connection is gone, whatever the browser thinks. */
const SILENCE = 40_000;
const FIRST_WAIT = 300;
const LONGEST_WAIT = 8_000;
/** What cannot be is tried again all the same: rights may be given meanwhile. */
const REFUSED_WAIT = 30_000;

const links = signal<Signal<Link>[]>([]);

/** How the page as a whole is connected: as its worst stream. */
export const connection = computed<Link>(() => {
  const worst = links.value.map((link) => link.value).find((link) => !link.live);
  return worst ?? { live: links.value.length > 0, why: "" };
});

/** Whether the page can be seen. */
export const shown = signal(!document.hidden);
document.addEventListener("visibilitychange", () => {
  shown.value = !document.hidden;
});

const wakers = new Set<() => void>();

/** Tries everything again now. */
export function retryNow(): void {
  for (const wake of [...wakers]) wake();
}
addEventListener("online", retryNow);

function wait(millis: number): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      clearTimeout(timer);
      wakers.delete(done);
      resolve();
    };
    const timer = setTimeout(done, millis);
    wakers.add(done);
  });
}

/** Resolves when a signal holds. */
function until(holds: () => boolean): Promise<void> {
  return new Promise((resolve) => {
    let stop: (() => void) | undefined;
    let done = false;
    stop = effect(() => {
      if (done || !holds()) return;
      done = true;
      resolve();
      queueMicrotask(() => stop?.());
    });
  });
}

/** What a stream is given: a signal that ends it, and what to call for every sign of life. */
export interface Turn {
  signal: AbortSignal;
  alive: () => void;
}

/**
 * Keeps a stream open for whatever `key` names, as long as it names something: `run` opens the stream and reads it to its
 * end. It is begun again, after a while that grows, until it lives. A stream that is `quiet` counts as live until it fails.
 */
export async function keep(key: () => unknown, run: (turn: Turn) => Promise<void>, quiet = false): Promise<never> {
  const link = signal<Link>({ live: quiet, why: "" });
  let failures = 0;
  let before: unknown;
  const list = (listed: boolean): void => {
    const isListed = links.peek().includes(link);
    if (listed && !isListed) links.value = [...links.peek(), link];
    if (!listed && isListed) links.value = links.peek().filter((other) => other !== link);
  };
  for (;;) {
    if (key() === undefined) list(false);
    await until(() => key() !== undefined && asked.value === undefined);
    const now = key();
    if (now !== before) {
      failures = 0;
      link.value = { live: quiet, why: "" };
    }
    before = now;
    list(true);
    const ended = await once(key, run, () => {
      failures = 0;
      if (!link.value.live) link.value = { live: true, why: "" };
    });
    if (key() !== now || asked.peek() !== undefined) continue;
    const refused = ended.code === Code.PermissionDenied;
    const pause = refused
      ? REFUSED_WAIT
      : Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** failures) * (0.75 + Math.random() / 2);
    failures += 1;
    link.value = { live: false, retry: Date.now() + pause, why: problem(ended) };
    await wait(pause);
    link.value = { live: false, why: link.value.why };
  }
}

/** Runs a stream once and says how it ended. */
async function once(key: () => unknown, run: (turn: Turn) => Promise<void>, lives: () => void): Promise<ConnectError> {
  const abort = new AbortController();
  let silence = setTimeout(() => abort.abort(), SILENCE);
  const alive = (): void => {
    clearTimeout(silence);
    silence = setTimeout(() => abort.abort(), SILENCE);
    lives();
  };
  const [now, login] = [key(), logins.peek()];
  const stop = effect(() => {
    if (key() !== now || logins.value !== login) abort.abort();
  });
  try {
    await run({ signal: abort.signal, alive });
    return new ConnectError("the stream ended", Code.Unavailable);
  } catch (error) {
    return noted(error);
  } finally {
    clearTimeout(silence);
    stop();
    abort.abort();
  }
}

/** Whether this tab is the one that listens for prompts while no tab is seen. Browsers open six connections to a service
 * without TLS, so that hidden tabs must not hold one each. */
export const attends = signal(false);
if (navigator.locks) {
  void navigator.locks.request("toolgate.attend", () => {
    attends.value = true;
    return new Promise(() => {});
  });
} else {
  attends.value = true;
}
