// Pictures of every page: node screens.mjs COLLECTOR VIEWER FOLDER.
import { chromium } from "playwright-core";

const [collector, viewer, folder] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.PILOTLIGHT_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const PICTURES = [
  ["fleet", collector, "#/?since=1h"], ["job", collector, "#/job/llama-8b-sft"], ["compare", collector, "#/compare?before=llama-8b-sft&after=llama-8b-sft"],
  ["job-flame", collector, "#/job/llama-8b-sft/flame"], ["job-roofline", collector, "#/job/llama-8b-sft/roofline"], ["captures", collector, "#/captures"], ["agents", collector, "#/agents", "dark"],
  ["trace", viewer, "#/trace/0"], ["timeline", viewer, "#/trace/0/timeline?open=5"], ["flame", viewer, "#/trace/0/flame?rank=5"], ["roofline", viewer, "#/trace/1/roofline"],
];
for (const [name, base, hash, colorScheme = "light"] of PICTURES) {
  const page = await browser.newPage({ viewport: { width: 1200, height: 700 }, colorScheme });
  await page.goto(base + hash);
  try {
    await page.waitForFunction(() => document.querySelector("h1") && !document.querySelector(".waiting"), null, { timeout: 30_000 });
    await page.waitForTimeout(2500);
    if (!(await page.getByRole("alert").count())) await page.screenshot({ path: `${folder}/${name}.png` });
  } finally { await page.close(); }
}
await browser.close();
