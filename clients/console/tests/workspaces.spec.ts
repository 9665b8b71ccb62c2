// Workspaces: opened while the service runs, and what they use.

import { expect, test } from "./service";

test("a workspace that is opened can be chosen, and says what it uses", async ({ page, start }) => {
  const service = await start({ roots: true });
  await page.goto(`${service.url}console/#/calls`);
  await page.locator('[data-live="true"]').waitFor();
  const choice = page.getByRole("combobox", { name: "Workspace" });
  await expect(choice.getByRole("option")).toHaveText(["All workspaces", "default"]);
  const usage = page.getByRole("group", { name: "The workspace now" });
  await expect(usage).toHaveCount(0);
  await service.workspaces.openWorkspace({ workspace: "shop", directory: `${service.root}/shop`, create: true });
  await expect(choice.getByRole("option")).toHaveText(["All workspaces", "default", "shop"]);
  await choice.selectOption("shop");
  await expect(usage).toContainText(/opened \d/);
  const call = service.bash("sleep 600", { workspace: "shop" });
  await expect(page.getByRole("option", { name: /sleep 600/ })).toBeVisible();
  const { workspace } = await service.workspaces.getWorkspace({ workspace: "shop" });
  // A service that does not count has nothing to show.
  const counted =
    workspace?.usage === undefined ? /^opened/ : /^1 call, [1-9]\d* process(es)?, .*\d m?s of processor, opened/;
  await expect(usage).toHaveText(counted);
  await choice.selectOption("default");
  await expect(usage.filter({ hasText: "opened" })).toHaveCount(0);
  await choice.selectOption("shop");
  await service.workspaces.closeWorkspace({ workspace: "shop" });
  expect((await call).ending.case).toBe("failed");
  // The page stays limited to it until another one is chosen.
  await expect(choice).toHaveValue("shop");
  await expect(page.getByRole("option", { name: /sleep 600/ })).toBeVisible();
  await choice.selectOption("");
  await expect(choice.getByRole("option")).toHaveText(["All workspaces", "default"]);
});
