// Runs one journey in a real browser: node journey.mjs NAME ADDRESS [OPTION...]. Fails on any console
// error, any request that leaves the origin, and any serious accessibility fault.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { chromium } from "playwright-core";

const [name, address, ...options] = process.argv.slice(2);
const origin = address.startsWith("file:") ? "file://" : new URL(address).origin;
const faults = [];
const allowed = [];
const allow = (pattern) => allowed.push(pattern);

const browser = await chromium.launch({
  executablePath: process.env.PILOTLIGHT_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});

export async function open(settings = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...settings });
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  page.on("console", (message) => { if (message.type() === "error" && !allowed.some((pattern) => pattern.test(message.text()))) faults.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => { if (!request.url().startsWith(origin) && !request.url().startsWith("data:") && request.url() !== "about:blank") faults.push(`request: ${request.url()}`); });
  page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
  return page;
}

export async function accessible(page, where) {
  const axe = await readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf-8");
  // The page's policy forbids foreign script, so axe comes by the debugger and not by an element.
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  for (const found of violations.filter((each) => ["serious", "critical"].includes(each.impact))) {
    faults.push(`${where}: ${found.id}: ${found.help}: ${found.nodes.slice(0, 3).map((node) => node.target.join(" ")).join("; ")}`);
  }
}

export const noSidewaysScroll = async (page, where) => {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${where}: ${wide} px wider than the screen`);
};

// Whether a canvas shows anything: more than one colour on it.
export const drawn = (page, selector) => page.waitForFunction((wanted) => {
  const canvas = document.querySelector(wanted);
  if (!canvas || !canvas.width) return false;
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let i = 0; i < data.length; i += 4 * 97) colours.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return colours.size > 6;
}, selector);

try {
  const { default: journey } = await import(`./${name}.mjs`);
  await journey({ address, options, open, accessible, noSidewaysScroll, drawn, assert, allow });
  assert.deepEqual(faults, []);
  console.log(`${name}: ok`);
} finally {
  await browser.close();
}
