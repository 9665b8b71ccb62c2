// Notifications of the desktop for prompts, if the person wants them.

import { signal } from "@preact/signals";
import { go } from "./route";

const WANTED = "toolgate.notify";

/** Whether this browser can show them here: pages without TLS can only on this machine. */
export const isPossible = typeof Notification !== "undefined" && isSecureContext;

/** Whether they are wanted, and the browser lets them through. */
export const isWanted = signal(
  isPossible && localStorage.getItem(WANTED) === "on" && Notification.permission === "granted",
);

/** Switches them on or off. Returns why they stay off, or nothing. */
export async function setWanted(on: boolean): Promise<string> {
  const granted = on && (await Notification.requestPermission()) === "granted";
  isWanted.value = granted;
  localStorage.setItem(WANTED, granted ? "on" : "off");
  return on && !granted
    ? "The browser blocks notifications from this page. You can allow them in its settings for this site."
    : "";
}

/** Tells of a prompt while the person looks elsewhere. A click leads to it. */
export function tell(promptId: string, title: string, body: string): void {
  if (!isWanted.value || document.hasFocus()) return;
  try {
    // Several tabs that tell of the same prompt are one notification.
    const notification = new Notification(title, { body, tag: promptId, icon: "icon.svg" });
    notification.onclick = () => {
      window.focus();
      go("prompts", promptId);
      notification.close();
    };
  } catch {
    // Browsers of phones let only workers do this.
    isWanted.value = false;
  }
}
