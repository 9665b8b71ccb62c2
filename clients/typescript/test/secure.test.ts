import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { connect } from "../src/node.js";
import { connectBy, NO_SERVER, TestServer, TRANSPORTS } from "./support.js";

const TOKENS = ["alice the-secret-of-alice *", "eve the-secret-of-eve calls.read"].join("\n");

async function withTokens(folder: string): Promise<void> {
  await writeFile(join(folder, "tokens"), TOKENS, { mode: 0o600 });
  await writeFile(join(folder, "toolgate.toml"), `[auth]\ntokens_file = "${join(folder, "tokens")}"\n`);
}

async function withTls(folder: string): Promise<void> {
  const [key, certificate] = [join(folder, "server.key"), join(folder, "server.pem")];
  const request = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  const names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"];
  const made = spawnSync("openssl", [...request, ...names, "-keyout", key, "-out", certificate], { encoding: "utf8" });
  assert.equal(made.status, 0, made.stderr);
  await withTokens(folder);
  const tokens = await readFile(join(folder, "toolgate.toml"), "utf8");
  const tls = `[listen.tls]\ncertificate = "${certificate}"\nkey = "${key}"\n`;
  await writeFile(join(folder, "toolgate.toml"), tls + tokens);
}

for (const kind of TRANSPORTS) {
  test(`tokens over ${kind}`, { skip: NO_SERVER }, async () => {
    await using server = await TestServer.start(undefined, withTokens);
    await using nobody = connectBy(kind, server.url);
    await assert.rejects(nobody.tools(), (error: Error & { code?: string; reason?: string }) => {
      assert.deepEqual([error.code, error.reason], ["UNAUTHENTICATED", "NO_CREDENTIALS"]);
      assert.match(error.message, /TOOLGATE_TOKEN/);
      return true;
    });
    await using alice = connectBy(kind, server.url, { token: async () => "the-secret-of-alice" });
    assert.equal((await alice.run("bash", { command: "echo hi", description: "Greets" })).text, "hi\n");
    await using eve = connectBy(kind, server.url, { token: "the-secret-of-eve" });
    await assert.rejects(eve.run("bash", { command: "echo hi" }), {
      code: "PERMISSION_DENIED",
      reason: "SCOPE_MISSING",
    });
    // The service says so before it has read what is sent.
    await assert.rejects(eve.files().upload("note", Buffer.alloc(5_000_000)), { reason: "SCOPE_MISSING" });
  });
}

test("TLS", { skip: NO_SERVER }, async () => {
  await using server = await TestServer.start(undefined, withTls);
  const token = "the-secret-of-alice";
  assert.match(server.url, /^https:/);
  await using trusting = connect(server.url, { token, tls: { ca: await readFile(join(server.folder, "server.pem")) } });
  assert.ok((await trusting.tools()).length > 0);
  await using careful = connect(server.url, { token, connectTimeoutMs: 200 });
  await assert.rejects(careful.tools(), { code: "UNAVAILABLE" });
});
