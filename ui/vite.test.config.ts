import { readdirSync } from "node:fs";
import { defineConfig } from "vite";

// Bundles the unit tests for `node --test`: node 20 does not read TypeScript itself.
export default defineConfig({
  ssr: { noExternal: true },
  build: {
    ssr: true,
    target: "node20",
    outDir: process.env.PILOTLIGHT_TESTS ?? "../build/ui-tests",
    emptyOutDir: true,
    rolldownOptions: { input: Object.fromEntries((readdirSync("src", { recursive: true }) as string[]).filter((file) => file.endsWith(".test.ts")).map((file) => [file.replace(/\W/g, "_"), `src/${file}`])), output: { entryFileNames: "[name].test.mjs" } },
  },
});
