import assert from "node:assert/strict";
import { createReadStream } from "node:fs";
import { mkdir, readFile, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import {
  type Client,
  CursorTooOldError,
  connect,
  type FileInfo,
  type FilesNews,
  once,
  type Prompt,
  reject,
  ToolgateError,
  uploadFile,
} from "../src/node.js";
import { CuttingProxy, connectBy, NO_SERVER, TestServer, TRANSPORTS } from "./support.js";

/** Changes below `asked` are asked about, and what is below `secret` is not shown. */
const CONFIG = {
  permission: { read: { "*": "allow", "secret/*": "deny" }, edit: { "*": "allow", "asked/*": "ask", "no/*": "deny" } },
};
const NOBODY = "0".repeat(64);

async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = [];
  for await (const item of items) {
    found.push(item);
  }
  return found;
}

const paths = (files: readonly FileInfo[]) => files.map(({ path }) => path);

/** Expects an error of the service with this reason. */
async function refused(tried: Promise<unknown>, reason: string): Promise<ToolgateError> {
  const error = await tried.then(
    () => assert.fail(`expected ${reason}`),
    (error: unknown) => error,
  );
  assert.ok(error instanceof ToolgateError, String(error));
  assert.equal(error.reason, reason, error.message);
  return error;
}

/** Reads news until one fits. */
async function until(news: AsyncIterator<FilesNews, void>, fits: (one: FilesNews) => boolean): Promise<FilesNews[]> {
  const read: FilesNews[] = [];
  for (;;) {
    const next = await news.next();
    assert.ok(!next.done, "the watch ended");
    read.push(next.value);
    if (fits(next.value)) {
      return read;
    }
  }
}

const tells = (path: string) => (one: FilesNews) =>
  one.type === "changed" && (one.gonePaths.includes(path) || paths(one.files).includes(path));

/** The calls of `files` that a session made. */
const made = async (client: Client, session: string) => all(client.calls({ session, tools: ["files"] }));

for (const kind of TRANSPORTS) {
  test(`over ${kind}, the files of a workspace`, { skip: NO_SERVER }, async (t) => {
    await using server = await TestServer.start(CONFIG);
    await using client = connectBy(kind, server.url, { session: "files" });
    const files = client.files();

    await t.test("a file is written, looked up and read", async () => {
      const { callId, file } = await files.write("notes/today.md", "hello\n", { ifAbsent: true, mode: 0o600 });
      assert.deepEqual(
        [file?.path, file?.name, file?.kind, file?.sizeBytes],
        ["notes/today.md", "today.md", "FILE", 6],
      );
      assert.equal((await client.get(callId)).tool, "files");
      const found = await files.stat("notes/today.md", { sha256: true });
      assert.deepEqual([found.mode & 0o777, found.sha256, found.sha256.length], [0o600, file?.sha256, 64]);
      assert.ok(found.modifyTime && Math.abs(found.modifyTime.getTime() - Date.now()) < 60_000);
      assert.equal((await files.stat("notes/today.md")).sha256, "");
      assert.equal((await files.stat("")).kind, "FOLDER");
      const { file: read, data } = await files.read("notes/today.md", { offset: 1, limit: 3 });
      assert.deepEqual([new TextDecoder().decode(data), read.sha256, read.sizeBytes], ["ell", found.sha256, 6]);
      assert.equal(await files.text("notes/today.md"), "hello\n");
      assert.equal((await files.read("notes/today.md", { offset: 100 })).data.length, 0);
      const bytes = new Uint8Array(300_000).map((_, index) => index % 251);
      await files.write("bytes", bytes);
      assert.deepEqual((await files.read("bytes")).data, bytes);
      const pieces = await all(files.bytes("bytes", { offset: 1, limit: 200_000 }));
      assert.ok(pieces.length > 3);
      assert.deepEqual(Buffer.concat(pieces), Buffer.from(bytes.subarray(1, 200_001)));
      assert.equal((await new Response(files.stream("bytes")).arrayBuffer()).byteLength, 300_000);
      const stopped = new AbortController();
      stopped.abort(new Error("enough"));
      await assert.rejects(files.text("bytes", { signal: stopped.signal }), /enough/);
    });

    await t.test("a folder is listed, page by page and as deep as it is wanted", async () => {
      await files.createFolder("tree/empty");
      for (const name of ["a", "b", "deep/er/c"]) {
        await files.write(`tree/${name}`, name);
      }
      await writeFile(join(server.workspace, ".ignore"), "ignored\n");
      await files.write("tree/ignored", "");
      assert.deepEqual(paths(await all(files.list("tree"))), ["tree/a", "tree/b", "tree/deep", "tree/empty"]);
      const tree = ["tree/a", "tree/b", "tree/deep", "tree/deep/er", "tree/deep/er/c", "tree/empty"];
      assert.deepEqual(paths(await all(files.list("tree", { recursive: true, pageSize: 2 }))), tree);
      assert.deepEqual(paths(await all(files.list("tree", { depth: 2 }))).includes("tree/deep/er"), true);
      assert.ok(paths(await all(files.list("tree", { includeIgnored: true }))).includes("tree/ignored"));
      assert.ok(paths(await all(files.list())).includes("tree"));
      await refused(all(files.list("tree/a")), "NOT_A_FOLDER");
    });

    await t.test("what cannot be shown says why", async () => {
      await refused(files.stat("nothing"), "NOT_FOUND");
      await refused(files.stat("../elsewhere"), "OUTSIDE_WORKSPACE");
      await refused(files.read("tree"), "IS_FOLDER");
      await mkdir(join(server.workspace, "secret"));
      await writeFile(join(server.workspace, "secret", "key"), "");
      const denied = await refused(files.text("secret/key"), "DENIED_BY_RULE");
      assert.equal(denied.code, "PERMISSION_DENIED");
      await refused(client.files({ workspace: "nowhere" }).stat(""), "NOT_FOUND");
    });

    await t.test("nothing is overwritten that is not what was read", async () => {
      const { file } = await files.write("shared", "one");
      await files.write("shared", "two");
      const differs = await refused(files.write("shared", "mine", { ifSha256: file?.sha256 }), "CONTENT_DIFFERS");
      assert.match(differs.metadata["call_id"] ?? "", /^[0-9a-f-]{36}$/);
      await refused(files.write("shared", "mine", { ifAbsent: true }), "ALREADY_THERE");
      await refused(files.delete("shared", { ifSha256: NOBODY }), "CONTENT_DIFFERS");
      await refused(files.move("shared", "moved", { ifSha256: NOBODY }), "CONTENT_DIFFERS");
      assert.equal(await files.text("shared"), "two");
    });

    await t.test("files and folders are moved and deleted, and it is taken back", async () => {
      await files.write("box/one", "1");
      await files.move("box", "chest");
      await refused(files.move("chest", "notes"), "ALREADY_THERE");
      await refused(files.delete("chest"), "IS_FOLDER");
      const { callId } = await files.delete("chest", { recursive: true });
      await refused(files.stat("chest"), "NOT_FOUND");
      const reverted = await client.revert(callId).result();
      assert.ok(reverted.ok, reverted.text);
      assert.equal(await files.text("chest/one"), "1");
    });

    await t.test("people are asked, and their answer decides", async () => {
      await refused(files.write("asked/a", ""), "PERMISSION_NEEDED");
      await refused(files.write("no/a", ""), "DENIED_BY_RULE");
      const prompts: Prompt[] = [];
      const approvals = client.approvals((prompt) => {
        prompts.push(prompt);
        return prompts.length === 1 ? once() : reject("Not here.");
      });
      const waiting = files.write("asked/a", "yes", { unattended: "wait", waitTimeoutMs: 60_000 });
      const { file } = await waiting;
      assert.equal(file?.path, "asked/a");
      await refused(files.createFolder("asked/b", { unattended: "wait" }), "REJECTED");
      assert.deepEqual(
        prompts.map((prompt) => prompt.kind === "permission" && prompt.permission),
        ["edit", "edit"],
      );
      await approvals.close();
    });

    await t.test("a change that is given up is cancelled", async () => {
      const controller = new AbortController();
      const options = { callId: `given-up-${kind}`, unattended: "wait", signal: controller.signal } as const;
      const waiting = files.delete("asked/a", options);
      while ((await client.calls({ states: ["WAITING"] }).next()).done) {
        // It is on its way.
      }
      controller.abort(new Error("enough"));
      await assert.rejects(waiting, /enough/);
      const ended = await client.watch(options.callId).result();
      assert.equal(ended.ok ? "" : ended.reason, "CANCELLED");
    });

    await t.test("a content is uploaded as it comes", async () => {
      async function* pieces() {
        yield "some ";
        yield new TextEncoder().encode("pieces");
      }
      await files.upload("pieces", pieces());
      assert.equal(await files.text("pieces"), "some pieces");
      await files.upload("blob", new Blob(["a blob"]), { mode: 0o640 });
      assert.equal((await stat(join(server.workspace, "blob"))).mode & 0o777, 0o640);
      await files.upload("web", new Response("a web stream").body ?? "");
      assert.equal(await files.text("web"), "a web stream");
      const local = join(server.folder, "local");
      await writeFile(local, Buffer.alloc(3_000_000, "x"));
      await files.upload("stream", createReadStream(local));
      const { file } = await uploadFile(files, local, "path");
      assert.equal(file?.sizeBytes, 3_000_000);
      assert.equal((await files.stat("stream", { sha256: true })).sha256, file?.sha256);
      await refused(files.upload("path", "other", { ifAbsent: true }), "ALREADY_THERE");
      await assert.rejects(uploadFile(files, join(server.folder, "none"), "none"), { code: "ENOENT" });
      async function* broken() {
        yield "some";
        throw new Error("the source broke");
      }
      await assert.rejects(files.upload("broken", broken()), /the source broke/);
      await refused(files.stat("broken"), "NOT_FOUND");
      async function* endless() {
        for (const piece = new Uint8Array(1 << 20); ; ) {
          yield piece;
        }
      }
      await refused(files.upload("endless", endless()), "FILE_TOO_LARGE");
    });

    await t.test("a folder is downloaded as an archive", async () => {
      let end: { entries: number; omittedPaths: readonly string[] } | undefined;
      const pieces = await all(
        files.downloadArchive("tree", {
          onEnd: (said) => {
            end = said;
          },
        }),
      );
      assert.deepEqual(end, { entries: 6, omittedPaths: [] });
      assert.ok(Buffer.concat(pieces).includes("deep/er/c"));
      await refused(all(files.downloadArchive("nothing")), "NOT_FOUND");
    });

    await t.test("a folder is watched", async () => {
      const news = files.watch("watched");
      await refused(news.next(), "NOT_FOUND");
      await files.createFolder("watched");
      const controller = new AbortController();
      const watch = files.watch("watched", { signal: controller.signal });
      const first = await watch.next();
      assert.ok(!first.done && first.value.type === "watched" && !first.value.partial);
      await writeFile(join(server.workspace, "watched", "a"), "1");
      const changed = (await until(watch, tells("watched/a"))).at(-1);
      const earlier = changed?.cursor ?? "";
      await files.delete("watched/a");
      await until(watch, (one) => one.type === "changed" && one.gonePaths.includes("watched/a"));
      // Another watch goes on where that one was.
      const again = files.watch("watched", { cursor: earlier });
      await until(again, (one) => one.type === "changed" && one.gonePaths.includes("watched/a"));
      await again.return();
      controller.abort(new Error("enough"));
      await assert.rejects(watch.next(), /enough/);
      const wrong = files.watch("", { cursor: "no cursor" }).next();
      assert.equal((await refused(wrong, "INVALID_FIELD")).code, "INVALID_ARGUMENT");
    });
  });

  test(`over ${kind}, files outlive lost connections`, { skip: NO_SERVER }, async (t) => {
    await using server = await TestServer.start(CONFIG);
    await using proxy = await CuttingProxy.to(server.url);
    await using client = connectBy(kind, proxy.url, { session: "cut" });
    const files = client.files();

    await t.test("a change whose answer was lost is made once", async () => {
      await client.info();
      for (const [index, budget] of [100, 160, 220].entries()) {
        proxy.cut();
        let left = budget;
        proxy.budget = () => {
          const now = left;
          left = Number.POSITIVE_INFINITY;
          return now;
        };
        const before = proxy.connections;
        // Made twice it would find what it made the first time.
        const change = index === 0 ? files.upload.bind(files) : files.write.bind(files);
        const { file } = await change(`once-${index}`, "x".repeat(index + 1), { ifAbsent: true });
        assert.equal(file?.sizeBytes, index + 1);
        assert.ok(proxy.connections > before + 1, "no answer was lost");
      }
      assert.equal((await made(client, "cut")).length, 3);
    });

    await t.test("a large file is read without a gap", async () => {
      const content = Buffer.alloc(1_500_000, "0123456789abcdefghijklmnopqrstuvw");
      await writeFile(join(server.workspace, "large"), content);
      proxy.cut();
      proxy.budget = () => 300_000 + Math.random() * 200_000;
      const before = proxy.connections;
      assert.deepEqual(Buffer.from((await files.read("large")).data), content);
      const part = await all(files.bytes("large", { offset: 7, limit: 1_000_000 }));
      assert.deepEqual(Buffer.concat(part), content.subarray(7, 1_000_007));
      assert.ok(proxy.connections > before + 3, `${proxy.connections - before} connections`);
      const changing = files.bytes("large");
      await changing.next();
      await writeFile(join(server.workspace, "large"), "something else");
      await refused(all(changing), "FILE_CHANGED");
    });

    await t.test("an archive that was begun is not gone on with", async () => {
      await writeFile(join(server.workspace, "large"), Buffer.alloc(1_500_000));
      await assert.rejects(all(files.downloadArchive()), { code: "ABORTED", message: /from its beginning/ });
      proxy.budget = () => Number.POSITIVE_INFINITY;
      proxy.cut();
      assert.ok(Buffer.concat(await all(files.downloadArchive())).length > 1_500_000);
    });

    await t.test("a watch goes on behind its cursor, until that is too old", async () => {
      const watch = files.watch();
      assert.equal((await watch.next()).value?.type, "watched");
      await writeFile(join(server.workspace, "one"), "1");
      await until(watch, tells("one"));
      proxy.cut();
      await writeFile(join(server.workspace, "two"), "2");
      const news = await until(watch, tells("two"));
      assert.deepEqual([...new Set(news.map(({ type }) => type))], ["changed"]);
      await server.kill();
      await server.run();
      const error = await refused(
        until(watch, () => false),
        "CURSOR_TOO_OLD",
      );
      assert.ok(error instanceof CursorTooOldError);
      assert.equal(error.code, "OUT_OF_RANGE");
    });
  });
}

test("archives are uploaded over gRPC, whole or not at all", { skip: NO_SERVER }, async () => {
  await using server = await TestServer.start(CONFIG);
  await using client = connect(server.url);
  const files = client.files();
  for (const name of ["a", "deep/b"]) {
    await files.write(`from/${name}`, name);
  }
  const archive = Buffer.concat(await all(files.downloadArchive("from")));
  const { callId } = await files.uploadArchive("to", archive, { ifAbsent: true });
  assert.equal(await readFile(join(server.workspace, "to", "deep", "b"), "utf8"), "deep/b");
  assert.equal((await client.get(callId)).tool, "files");
  await refused(files.uploadArchive("to", archive, { ifAbsent: true }), "ALREADY_THERE");
  await refused(files.uploadArchive("other", "no archive".repeat(100)), "BAD_ARCHIVE");
  await refused(files.stat("other"), "NOT_FOUND");
  await using page = connectBy("web", server.url);
  await assert.rejects(page.files().uploadArchive("web", archive), {
    code: "UNIMPLEMENTED",
    message: /toolgate\/node/,
  });
});
