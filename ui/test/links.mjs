// Every control of every view of a collector's page is in the address.
import { check, choose, click, field, fill, kept, press, sort } from "./kept.mjs";

const zoomed = async (page) => {
  const chart = await page.getByRole("img", { name: "step time over time", exact: true }).locator(".u-over").boundingBox();
  await page.mouse.move(chart.x + 0.4 * chart.width, chart.y + 20);
  await page.mouse.down();
  await page.mouse.move(chart.x + 0.9 * chart.width, chart.y + 20, { steps: 4 });
  await page.mouse.up();
};

export default async function ({ address, options, open, assert }) {
  const [job] = options, at = `#/job/${job}`;
  const views = {
    "#/": { search: fill("search", "a"), order: choose("by", "lost"), time: choose("time", "6h"), colour: choose("colour by", "temperature"), only: check("only nodes with findings"), sort: sort("jobs", "ranks") },
    // Whatever the jobs are by now, none has failed.
    "#/?sort=size": { state: choose("state", "failed") },
    [at]: { map: choose("shows", "wait"), zoom: press(".heat canvas", "ArrowDown", "+", "+"), rank: press(".heat canvas", "ArrowDown", "Enter"), line: (page) => page.locator(".u-legend .u-series", { hasText: "longest" }).first().click(), time: zoomed },
    [`${at}/flame`]: { time: choose("time of", "host"), rank: choose("rank", "5"), against: choose("compared with", "1"), search: fill("search", "train"), zoom: press(".flame canvas", "ArrowDown", "ArrowDown", "Enter") },
    [`${at}/flame?rank=5`]: { sort: sort("By name", "self"), callers: async (page) => { await press(".flame canvas", "ArrowDown")(page); await click("button", "callers and callees")(page); } },
    [`${at}/kernels`]: { search: fill("search", "flash"), sort: sort("Kernels and copies", "mean") },
    [`${at}/collectives`]: { sort: sort("Collectives", "bytes") },
    [`${at}/counters`]: { counter: choose("counter", "gpu.power_w") },
    [`${at}/roofline`]: { roof: choose("roof of", "B200"), rank: (page) => page.getByRole("region", { name: "ranks", exact: true }).getByRole("button", { name: "3", exact: true }).click(), sort: sort("kernels by kind", "count") },
    [`${at}/facts`]: { sort: sort("Ranks", "mean step") },
    [`#/compare?before=${job}&after=${job}`]: { before: choose("before", "vit-pretrain"), back: choose("before", job), stretch: (page) => field(page, "in").first().selectOption("all"), other: (page) => field(page, "in").last().selectOption("half1"), search: fill("search", "train"), zoom: press(".flame canvas", "ArrowDown", "Enter"), sort: sort("Parts of a step", "after") },
    [`#/captures?for=${job}`]: { ranks: fill("ranks", "0-3"), last: choose("the last", "60"), trace: choose("and trace", "3"), shapes: check(/with shapes/) },
    "#/agents": { search: fill("search", "node"), sort: sort("agents", "memory"), fold: (page) => page.locator("summary").first().click() },
  };
  const page = await open();
  for (const [view, controls] of Object.entries(views)) await kept(page, address, view, controls, assert);
}
