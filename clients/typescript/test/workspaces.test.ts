import assert from "node:assert/strict";
import { mkdir, realpath, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { connectBy, NO_SERVER, TestServer, TRANSPORTS } from "./support.js";

/** A service that may open workspaces in its folder `roots`. */
const start = () =>
  TestServer.start(undefined, async (folder) => {
    const roots = join(await realpath(folder), "roots");
    await mkdir(roots);
    await writeFile(join(folder, "toolgate.toml"), `[[workspace_roots]]\ndirectory = ${JSON.stringify(roots)}\n`);
  });

for (const kind of TRANSPORTS) {
  test(`over ${kind}, workspaces are opened, listed and closed`, { skip: NO_SERVER }, async () => {
    await using server = await start();
    await using client = connectBy(kind, server.url);
    const root = join(await realpath(server.folder), "roots");
    const names = async () => {
      const found: string[] = [];
      for await (const { name } of client.workspaces({ pageSize: 1 })) {
        found.push(name);
      }
      return found;
    };
    await assert.rejects(client.openWorkspace("shop", join(root, "shop")), {
      code: "NOT_FOUND",
      reason: "FOLDER_MISSING",
    });
    const { workspace, opened } = await client.openWorkspace("shop", join(root, "shop"), { create: true });
    assert.deepEqual([opened, workspace.name, workspace.directory], [true, "shop", join(root, "shop")]);
    assert.equal((await client.openWorkspace("shop", join(root, "shop"))).opened, false);
    await client.openWorkspace("bakery", join(root, "bakery"), { create: true });
    assert.deepEqual(await names(), ["bakery", "default", "shop"]);
    await assert.rejects(client.openWorkspace("etc", "/etc"), { code: "PERMISSION_DENIED", reason: "OUTSIDE_ROOTS" });
    const taken = client.openWorkspace("shop", join(root, "bakery"));
    await assert.rejects(taken, { code: "ALREADY_EXISTS", reason: "WORKSPACE_NAME_TAKEN" });

    const shop = client.with({ workspace: "shop" });
    await shop.files().write("sign", "open");
    assert.equal((await shop.workspace()).name, "shop");
    assert.ok((await client.workspace("shop")).agents.length > 0);
    assert.equal((await client.workspace()).name, "default");
    const running = shop.execute("bash", { command: "sleep 71237", description: "Waits" });
    for await (const event of running) {
      if (event.type === "running") {
        assert.equal(await client.closeWorkspace("shop"), 1);
      }
    }
    const result = await running.result();
    assert.equal(result.ok ? "" : result.reason, "CANCELLED");
    await assert.rejects(client.workspace("shop"), { code: "NOT_FOUND", reason: "NOT_FOUND" });
    await assert.rejects(client.closeWorkspace("shop"), { code: "NOT_FOUND", reason: "NOT_FOUND" });
    await assert.rejects(client.closeWorkspace("default"), {
      code: "FAILED_PRECONDITION",
      reason: "WORKSPACE_CONFIGURED",
    });
    assert.deepEqual(await names(), ["bakery", "default"]);
  });
}
