/** Saves stored outputs to files. */
import { createHash, randomUUID } from "node:crypto";
import { open, rename, rm } from "node:fs/promises";
import { ToolgateError } from "./errors.js";
import type { Output } from "./outputs.js";

/** How to save. */
export interface SaveOptions {
  /** Called as the file grows. `total` is how many bytes the output had when it was last asked. */
  readonly onProgress?: ((progress: { readonly bytes: number; readonly total: number }) => void) | undefined;
  /** Gives the saving up; nothing is left behind. */
  readonly signal?: AbortSignal | undefined;
}

/** What was saved. */
export interface Saved {
  /** The bytes of the file. */
  readonly bytes: number;
  /** Its SHA-256, 64 hexadecimal digits. */
  readonly sha256: string;
  /** Whether the output was complete, and its digest the same. Of one that is still written, what was there is saved. */
  readonly verified: boolean;
}

/**
 * Saves an output to a file, which appears under its name only when it is whole. A lost connection is taken up again
 * where it was.
 */
export async function saveOutput(output: Output, path: string, options: SaveOptions = {}): Promise<Saved> {
  const { signal, onProgress } = options;
  const partial = `${path}.${randomUUID()}.part`;
  const hash = createHash("sha256");
  const file = await open(partial, "wx");
  let bytes = 0;
  try {
    let info = await output.info({ signal });
    for (;;) {
      for await (const data of output.bytes({ offset: bytes, signal })) {
        await file.writeFile(data);
        hash.update(data);
        bytes += data.length;
        onProgress?.({ bytes, total: Math.max(bytes, Number(info.totalBytes)) });
      }
      info = await output.info({ signal });
      // It may have grown after its end was read.
      if (!info.complete || Number(info.totalBytes) <= bytes) {
        break;
      }
    }
    const sha256 = hash.digest("hex");
    if (info.complete && info.sha256 !== sha256) {
      throw new ToolgateError("DATA_LOSS", `what was read of ${output.id} has another digest than the service says`);
    }
    await file.sync();
    await file.close();
    await rename(partial, path);
    return { bytes, sha256, verified: info.complete };
  } catch (error) {
    await file.close().catch(() => {});
    await rm(partial, { force: true });
    throw error;
  }
}
