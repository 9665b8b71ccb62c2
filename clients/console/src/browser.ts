// What the page asks of the browser: the clipboard, and files for the person.

import { announce } from "./notices";

/** Copies a text. */
export async function copy(text: string): Promise<void> {
  if (isSecureContext) return navigator.clipboard.writeText(text);
  // Without TLS, on another machine than this one, browsers have the old way only.
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "sr";
  document.body.append(field);
  field.select();
  const copied = document.execCommand("copy");
  field.remove();
  if (!copied) throw new Error("the browser does not let the page copy");
}

/** Copies a text, and says so. */
export function toClipboard(text: string, said = "Copied."): void {
  copy(text).then(
    () => announce(said),
    (error: unknown) => announce(`This could not be copied: ${String(error)}`),
  );
}

/** Gives the person a file. */
export function save(name: string, parts: BlobPart[]): void {
  const url = URL.createObjectURL(new Blob(parts, { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name.replace(/[^\w.-]+/g, "-");
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
