import { defineConfig } from "vite";

// Fixed names and no hashes: the built page is committed, and a build of the same source is the same bytes.
export default defineConfig({
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: process.env.PILOTLIGHT_PAGE ?? "../src/pilotlight/web/page",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    cssCodeSplit: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
    rolldownOptions: {
      output: {
        entryFileNames: "assets/page.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/page[extname]",
        codeSplitting: false,
      },
    },
  },
});
