// Runs journeys in one real browser: a line of JSON on the standard input for each, `{name, address, options}`,
// and one of the answer, `{faults}`. A fault is a failed assertion, a console error, a request that leaves the
// origin, a serious fault of accessibility. `{told}` lines are what a journey says on its way.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const AXE = await readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf-8");
const browser = await chromium.launch({
  executablePath: process.env.PILOTLIGHT_CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});
const say = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

async function open({ faults, allowed, origin }, settings = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 }, ...settings });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("console", (message) => { if (message.type() === "error" && !allowed.some((pattern) => pattern.test(message.text()))) faults.push(`console: ${message.text()}`); });
  page.on("pageerror", (error) => faults.push(`error: ${error.message}`));
  page.on("request", (request) => { if (!request.url().startsWith(origin) && !/^(data:|blob:|about:blank$)/.test(request.url())) faults.push(`request: ${request.url()}`); });
  page.on("dialog", (dialog) => { faults.push(`dialog: ${dialog.message()}`); void dialog.dismiss(); });
  return page;
}

async function accessible(faults, page, where) {
  // The page's policy forbids foreign script, so axe comes by the debugger and not by an element.
  if (!(await page.evaluate(() => "axe" in globalThis))) await page.evaluate(AXE);
  const { violations } = await page.evaluate(() => globalThis.axe.run(document, { resultTypes: ["violations"] }));
  for (const found of violations.filter((each) => ["serious", "critical"].includes(each.impact))) {
    faults.push(`${where}: ${found.id}: ${found.help}: ${found.nodes.slice(0, 3).map((node) => node.target.join(" ")).join("; ")}`);
  }
}

// By the keyboard alone, as somebody without a mouse gets there.
async function tabTo(page, wanted) {
  for (let i = 0; i < 300; i++) {
    if (await wanted.evaluate((element) => element === document.activeElement)) return;
    await page.keyboard.press("Tab");
  }
  assert.fail(`${wanted} cannot be reached by the tabulator`);
}

async function noSidewaysScroll(page, where) {
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `${where}: ${wide} px wider than the screen`);
}

// Whether a canvas shows anything: more than a few colours on it.
const drawn = (page, selector) => page.waitForFunction((wanted) => {
  const canvas = document.querySelector(wanted);
  if (!canvas || !canvas.width) return false;
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  const colours = new Set();
  for (let i = 0; i < data.length; i += 4 * 97) colours.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return colours.size > 6;
}, selector);

// One page at a width and in a theme, from view to view, without loading it anew.
async function everyView(page, sizes, views, check) {
  for (const [width, colorScheme] of sizes) {
    await page.setViewportSize({ width, height: 900 });
    await page.emulateMedia({ colorScheme });
    for (const view of views) {
      await page.evaluate((hash) => { location.hash = hash; }, view);
      await page.waitForFunction(() => document.querySelectorAll(".waiting").length === 0 && document.querySelector("h1, h2"));
      await noSidewaysScroll(page, `${view} at ${width}`);
      await check?.(view, width, colorScheme);
    }
  }
}

async function run({ name, address, options }) {
  const faults = [], allowed = [];
  const origin = address.startsWith("file:") ? "file://" : new URL(address).origin;
  try {
    const { default: journey } = await import(`./${name}.mjs`);
    await journey({
      address, options, assert, drawn, noSidewaysScroll, everyView, tabTo,
      open: (settings) => open({ faults, allowed, origin }, settings),
      accessible: (page, where) => accessible(faults, page, where),
      allow: (pattern) => allowed.push(pattern),
      tell: (told) => say({ told }),
    });
  } catch (error) {
    faults.push(String(error.stack ?? error));
    for (const page of browser.contexts().flatMap((context) => context.pages())) faults.push(`then at ${page.url()}: ${(await page.locator("main").innerText().catch(() => "")).slice(0, 3000)}`);
  }
  await Promise.all(browser.contexts().map((context) => context.close()));
  return faults;
}

for await (const line of createInterface({ input: process.stdin })) say({ faults: await run(JSON.parse(line)) });
await browser.close();
