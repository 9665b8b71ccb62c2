// Makes the pictures of the README: `run.sh pictures`.

import { defineConfig } from "@playwright/test";
import tests from "./playwright.config";

export default defineConfig({ ...tests, testDir: "pictures", retries: 0 });
