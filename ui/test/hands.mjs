// With fingers on a telephone: drag, pinch, tap, and the page still scrolls.
const TELEPHONE = { viewport: { width: 360, height: 780 }, hasTouch: true, isMobile: true };

async function fingers(page) {
  const session = await page.context().newCDPSession(page);
  const send = (type, points) => session.send("Input.dispatchTouchEvent", { type, touchPoints: points.map(([x, y], id) => ({ x, y, id })) });
  const between = ([x0, y0], [x1, y1], part) => [x0 + (x1 - x0) * part, y0 + (y1 - y0) * part];
  return async (...paths) => {
    for (let i = 1; i <= paths.length; i++) await send("touchStart", paths.slice(0, i).map(([from]) => from));
    for (let part = 1; part <= 8; part++) { await send("touchMove", paths.map(([from, to]) => between(from, to, part / 8))); await page.waitForTimeout(20); }
    for (let i = paths.length - 1; i >= 0; i--) await send("touchEnd", paths.slice(0, i).map(([, to]) => to));
  };
}

const centred = async (page, selector) => {
  await page.locator(selector).first().evaluate((element) => element.scrollIntoView({ block: "center" }));
  return page.locator(selector).first().boundingBox();
};
const query = (page) => new URLSearchParams(new URL(page.url()).hash.split("?")[1] ?? "");
const scrolled = (page) => page.evaluate(() => scrollY);
const changed = (page, key, before) => page.waitForFunction(([name, old]) => (new URLSearchParams(location.hash.split("?")[1] ?? "").get(name) ?? "") !== old, [key, before]);
// The address follows the fingers: it stands still when the last of their moves has been drawn.
const settled = (page) => page.waitForFunction(() => {
  if (window.lastHash !== location.hash) [window.lastHash, window.since] = [location.hash, performance.now()];
  return performance.now() - window.since > 300;
});

async function timeline({ page, move, assert, drawn, address }) {
  await page.goto(`${address}#/trace/0/timeline?open=none`);
  await drawn(page, ".timeline canvas");
  const box = await centred(page, ".timeline canvas"), [x, y] = [box.x, box.y + box.height - 20];
  const length = () => Number(query(page).get("to")) - Number(query(page).get("from"));
  await move([[x + 190, y], [x + 130, y]], [[x + 210, y], [x + 290, y]]);
  await changed(page, "from", "");
  await settled(page);
  const [from, zoomed] = [query(page).get("from"), length()];
  await move([[x + 280, y], [x + 160, y]]);
  await changed(page, "from", from);
  assert.ok(Number(query(page).get("from")) > Number(from), "a finger to the left shows what is later");
  assert.ok(Math.abs(length() - zoomed) <= 1, "and zooms nothing");
  await page.touchscreen.tap(x + 200, y);
  await page.getByText(/from .* on, rank/).waitFor();
  await move([[x + 120, box.y + 12], [x + 250, box.y + 12]]);
  await page.getByRole("heading", { name: /Selected:/ }).waitFor();
}

async function job({ page, move, assert, drawn, address, name }) {
  await page.goto(`${address}#/job/${name}`);
  await drawn(page, ".heat canvas");
  let box = await centred(page, ".heat canvas");
  const top = await scrolled(page);
  await move([[box.x + 150, box.y + 180], [box.x + 150, box.y + 40]]);
  await page.waitForFunction((before) => scrollY !== before, top);
  box = await centred(page, ".heat canvas");
  const y = box.y + 100;
  await move([[box.x + 170, y], [box.x + 100, y]], [[box.x + 190, y], [box.x + 260, y]]);
  await changed(page, "window", "");
  const window = query(page).get("window");
  await move([[box.x + 250, y], [box.x + 150, y]]);
  await changed(page, "window", window);
  await page.touchscreen.tap(box.x + 150, y);
  await page.getByRole("group", { name: /^rank \d+$/ }).waitFor();
  const chart = await centred(page, ".chart .u-over");
  await move([[chart.x + 40, chart.y + 50], [chart.x + 160, chart.y + 52]]);
  await page.getByRole("button", { name: "whole time" }).first().waitFor();
  assert.ok(Number(query(page).get("to")) > Number(query(page).get("from")));
}

export default async function ({ address, options: [name], open, assert, drawn, noSidewaysScroll }) {
  const page = await open(TELEPHONE), move = await fingers(page);
  await (name ? job : timeline)({ page, move, assert, drawn, address, name });
  await noSidewaysScroll(page, "a telephone");
}
