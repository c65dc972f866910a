// Pictures of every page in every state, theme and width, to look at: node every_screen.mjs COLLECTOR EMPTY VIEWER FOLDER [PATTERN].
import { chromium } from "playwright-core";

const [collector, empty, viewer, folder, pattern = ""] = process.argv.slice(2);
const JOB = "llama-8b-sft";
const browser = await chromium.launch({ executablePath: process.env.PILOTLIGHT_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const SERVED = {
  fleet: "#/?since=1h", job: `#/job/${JOB}`, "job-flame": `#/job/${JOB}/flame`, "job-flame-rank": `#/job/${JOB}/flame?rank=13&against=12`, "job-kernels": `#/job/${JOB}/kernels`, "job-roofline": `#/job/${JOB}/roofline`,
  "job-collectives": `#/job/${JOB}/collectives`, "job-counters": `#/job/${JOB}/counters`, "job-counter": `#/job/${JOB}/counters?counter=gpu.sm_clock_mhz`, "job-facts": `#/job/${JOB}/facts`,
  compare: `#/compare?before=${JOB}&after=${JOB}`, "compare-none": "#/compare", captures: "#/captures", agents: "#/agents",
};
const TRACED = { trace: "#/trace/0", timeline: "#/trace/0/timeline?open=5", "timeline-chosen": "#/trace/0/timeline?open=5&over=path,idle", flame: "#/trace/0/flame?rank=5", "flame-against": "#/trace/0/flame?rank=5&against=2", roofline: "#/trace/1/roofline" };
const WIDTHS = { 360: 760, 1280: 800, 2560: 1300 };
const DATA = /\/(api|v1)\//;
// What the server would do: answer late, know only a part, fail.
const STATES = {
  full: async () => {},
  loading: async (page) => { await page.route(DATA, () => {}); },
  error: async (page) => { await page.route(DATA, (route) => route.fulfill({ status: 503, json: { error: "the store does not answer: look at its log" } })); },
  partial: async (page) => {
    await page.route(DATA, async (route) => {
      if (/live/.test(route.request().url())) return route.continue();
      const response = await route.fetch();
      const body = /json/.test(response.headers()["content-type"] ?? "") ? await response.json() : null;
      if (body === null) return route.fulfill({ response });
      const told = Array.isArray(body) ? body : { ...body, ...("partial" in body ? { partial: true } : {}), ...("is_partial" in body ? { is_partial: true } : {}) };
      return route.fulfill({ response, json: told });
    });
  },
};

async function picture(base, hash, name, state, width, colorScheme) {
  const file = `${name}-${state}-${colorScheme}-${width}.png`;
  if (!file.includes(pattern) && !new RegExp(pattern).test(file)) return;
  const page = await browser.newPage({ viewport: { width: Number(width), height: WIDTHS[width] }, colorScheme });
  const faults = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (message) => { if (message.type() === "error" && !/503/.test(message.text())) faults.push(message.text()); });
  await STATES[state === "empty" ? "full" : state](page);
  await page.goto(base + hash);
  if (state === "loading") await page.waitForTimeout(900);
  else await page.waitForFunction(() => document.querySelector("h1, h2") && !document.querySelector(".waiting"), null, { timeout: 40_000 }).catch(() => faults.push("still waiting"));
  await page.waitForTimeout(state === "full" ? 1200 : 400);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  if (wide > 0) faults.push(`${wide} px wider than the screen`);
  await page.screenshot({ path: `${folder}/${file}`, fullPage: true, timeout: 60_000 });
  console.log(file, faults.join(" | "));
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.close();
}

for (const state of ["full", "empty", "loading", "partial", "error"]) {
  for (const width of Object.keys(WIDTHS)) {
    for (const theme of ["light", "dark"]) {
      for (const [name, hash] of Object.entries(SERVED)) await picture(state === "empty" ? empty : collector, hash, name, state, width, theme);
      if (state !== "empty" && state !== "partial") for (const [name, hash] of Object.entries(TRACED)) await picture(viewer, hash, name, state, width, theme);
    }
  }
}
await browser.close();
