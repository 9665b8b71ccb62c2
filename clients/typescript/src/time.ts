/** Times and durations of the contract, in JavaScript's terms. */
import type { Duration, Timestamp } from "@bufbuild/protobuf/wkt";
import { timestampDate } from "@bufbuild/protobuf/wkt";

/** Returns a duration in milliseconds. */
export function milliseconds(duration: Duration): number {
  return Number(duration.seconds) * 1000 + duration.nanos / 1e6;
}

/** Returns milliseconds as a duration. */
export function duration(ms: number): { seconds: bigint; nanos: number } {
  const seconds = Math.trunc(ms / 1000);
  return { seconds: BigInt(seconds), nanos: Math.round((ms - seconds * 1000) * 1e6) };
}

/** Returns the moment, if there is one. */
export function date(time: Timestamp | undefined): Date | undefined {
  return time && timestampDate(time);
}

/** Waits; rejects with the signal's reason when it is aborted. */
export function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      release();
      resolve();
    }, ms);
    const release = onAbort(signal, abort);
  });
}

/** Aborts `controller` when one of the signals is; returns what ends this. */
export function follow(controller: AbortController, ...signals: (AbortSignal | undefined)[]): () => void {
  const releases = signals.map((signal) => signal && onAbort(signal, () => controller.abort(signal.reason)));
  return () => {
    for (const release of releases) {
      release?.();
    }
  };
}

/** One listener for each signal: a signal that outlives many calls would complain of their number. */
const listeners = new WeakMap<AbortSignal, Set<() => void>>();

/** Calls `callback` when the signal is aborted, at once if it is; returns what ends this. */
function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) {
    callback();
    return () => {};
  }
  let callbacks = listeners.get(signal);
  if (!callbacks) {
    const all = new Set<() => void>();
    signal.addEventListener("abort", () => all.forEach((one) => void one()), { once: true });
    listeners.set(signal, all);
    callbacks = all;
  }
  const known = callbacks;
  known.add(callback);
  return () => known.delete(callback);
}
