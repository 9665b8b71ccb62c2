// Workspaces: opened while the service runs, and what they use.

import { expect, test } from "./service";

test("a workspace that is opened can be chosen, and says what it uses", async ({ page, start }) => {
  const service = await start({ roots: true });
  await page.goto(`${service.url}console/`);
  await page.locator('[data-live="true"]').waitFor();
  const choice = page.getByRole("combobox", { name: "Workspace" });
  await expect(choice.getByRole("option")).toHaveText(["All workspaces", "default"]);
  const usage = page.getByRole("group", { name: "The workspace now" });
  await expect(usage).toHaveCount(0);
  await service.workspaces.openWorkspace({ workspace: "shop", directory: `${service.root}/shop`, create: true });
  await expect(choice.getByRole("option")).toHaveText(["All workspaces", "default", "shop"]);
  await choice.selectOption("shop");
  await expect(usage).toContainText(/opened \d/);
  await expect(usage).toContainText("0 calls, 0 processes");
  const call = service.bash("sleep 600", { workspace: "shop" });
  await expect(usage).toContainText(/^1 call, [1-9]\d* process(es)?, \d.* [KM]iB, .* s of processor/, {
    timeout: 20_000,
  });
  await choice.selectOption("default");
  await expect(usage).toContainText("0 calls, 0 processes");
  await expect(usage).not.toContainText("opened");
  await choice.selectOption("shop");
  await service.workspaces.closeWorkspace({ workspace: "shop" });
  expect((await call).ending.case).toBe("failed");
  // The page stays limited to it until another one is chosen.
  await expect(choice).toHaveValue("shop");
  await expect(page.getByRole("option", { name: /sleep 600/ })).toBeVisible();
  await choice.selectOption("");
  await expect(choice.getByRole("option")).toHaveText(["All workspaces", "default"]);
});
