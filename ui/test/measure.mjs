// Measures one view: node measure.mjs VIEW ADDRESS. Prints seconds to the first paint of data and the
// 95th percentile of the time between frames while the hand moves in every frame.
import { chromium } from "playwright-core";

const [view, address] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: process.env.PILOTLIGHT_CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"] });
const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
page.setDefaultTimeout(60_000);
page.on("pageerror", (error) => { console.error(error.stack); process.exitCode = 1; });

const hashes = { timeline: "#/trace/0/timeline", flame: "#/trace/0/flame?weight=host", heat: "#/job/big", fleet: "#/" };
const canvases = { timeline: ".timeline canvas", flame: ".flame canvas", heat: ".heat canvas" };

const painted = (selector) => page.waitForFunction((wanted) => {
  const canvas = document.querySelector(wanted);
  if (!canvas?.width) return false;
  const { data } = canvas.getContext("2d").getImageData(canvas.width / 4, 0, canvas.width / 2, canvas.height);
  const colours = new Set();
  for (let i = 0; i < data.length; i += 4 * 211) colours.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
  return colours.size > 4 ? performance.now() : false;
}, selector, { polling: "raf" });

// One move in every frame; what counts is the time from one frame to the next.
const frames = (selector, moves) => page.evaluate(async ([wanted, kind]) => {
  const canvas = document.querySelector(wanted);
  const box = canvas.getBoundingClientRect();
  const fire = (type, x, y, more = {}) => canvas.dispatchEvent(new (type === "wheel" ? WheelEvent : PointerEvent)(type, { bubbles: true, cancelable: true, clientX: box.left + x, clientY: box.top + y, pointerId: 1, ...more }));
  canvas.setPointerCapture = () => {};
  const times = [];
  let last = await new Promise(requestAnimationFrame);
  for (let i = 0; i < 150; i++) {
    const phase = i % 50;
    if (kind === "flame") fire("pointermove", (i * 37) % box.width, 20 + ((i * 13) % (box.height - 30)));
    else if (phase < 25) fire("wheel", box.width / 2 + i, box.height / 3, { deltaY: i % 100 < 50 ? -60 : 60, ctrlKey: true });
    else { if (phase === 25) fire("pointerdown", box.width / 2, box.height / 3); fire("pointermove", box.width / 2 + 14 * (phase - 25), box.height / 3); if (phase === 49) fire("pointerup", box.width / 2, box.height / 3); }
    const now = await new Promise(requestAnimationFrame);
    times.push(now - last);
    last = now;
  }
  return times;
}, [selector, moves]);

const result = {};
await page.goto("about:blank");
await page.goto(address + hashes[view]);
if (view === "fleet") {
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length >= 100 && !document.querySelector(".waiting"), null, { polling: "raf" });
  result.paint_s = (await page.evaluate(() => performance.now())) / 1000;
} else {
  result.paint_s = (await (await painted(canvases[view])).jsonValue()) / 1000;
  await page.waitForTimeout(500);
  const times = (await frames(canvases[view], view)).sort((a, b) => a - b);
  result.frame_ms = times[Math.floor(0.95 * times.length)];
  result.median_ms = times[Math.floor(0.5 * times.length)];
}
console.log(JSON.stringify(result));
await browser.close();
