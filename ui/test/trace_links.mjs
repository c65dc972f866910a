// Every control of every view of a trace is in the address.
import { check, choose, click, fill, kept, press, sort } from "./kept.mjs";

export default async function ({ address, open, assert }) {
  const views = {
    "#/trace/0": { sort: sort("Kernels", "count"), unchecked: (page) => page.locator("summary").first().click() },
    "#/trace/0/timeline": {
      folded: choose("ranks", "none"), unfolded: choose("ranks", "all"), path: check("critical path"), idle: check("causes of idle time"),
      search: fill("search", "flash"), hit: click("button", "next"), next: click("button", "next"), span: press(".timeline canvas", "ArrowDown"), measured: press(".timeline canvas", "m"), zoom: press(".timeline canvas", "s", "s", "d"), down: press(".timeline canvas", "PageDown"),
      sort: sort("totals of the selection", "count"),
    },
    "#/trace/0/flame": { rank: choose("rank", "3"), against: choose("compared with", "1"), time: choose("time of", "host"), search: fill("search", "aten"), zoom: press(".flame canvas", "ArrowDown", "Enter") },
    "#/trace/0/flame?rank=2": { sort: sort("By name", "total"), zoom: press(".flame canvas", "ArrowDown", "Enter"), callers: async (page) => { await press(".flame canvas", "ArrowDown")(page); await click("button", "callers and callees")(page); } },
  };
  const page = await open();
  for (const [view, controls] of Object.entries(views)) await kept(page, address, view, controls, assert);
}
