// On paper, in the dark too: ink on white, nothing cut off, nothing that only a hand can use. And with colours that the
// system forces: what colour alone tells keeps its own.
const light = ([red, green, blue]) => red + green + blue > 600;
const rgb = (text) => text.match(/[\d.]+/g).slice(0, 3).map(Number);

async function paper(page, assert, drawn, canvas) {
  await page.emulateMedia({ colorScheme: "dark", media: "screen" });
  await drawn(page, canvas);
  const size = await page.locator(canvas).first().evaluate((element) => [element.width, element.height]);
  await page.emulateMedia({ colorScheme: "dark", media: "print" });
  await page.waitForTimeout(300);
  const ink = await page.evaluate(() => getComputedStyle(document.querySelector("h1")).color);
  assert.ok(!light(rgb(ink)), `ink is ${ink}`);
  const picture = await page.locator(canvas).first().evaluate((element) => ({ size: [element.width, element.height], corner: [...element.getContext("2d").getImageData(4, 4, 1, 1).data] }));
  assert.deepEqual(picture.size, size, "the picture is scaled, not drawn anew where a part has no room");
  assert.ok(picture.corner[3] === 0 || light(picture.corner), `the ground of the picture is ${picture.corner}`);
  for (const gone of ["nav.top", "nav.views", "input[type=search]", "a.button"]) assert.equal(await page.locator(gone).locator("visible=true").count(), 0, gone);
  const cut = await page.evaluate(() => [...document.querySelectorAll(".scroll, .deep")].filter((element) => element.scrollHeight > element.clientHeight + 1 && getComputedStyle(element).overflowY !== "visible").length);
  assert.equal(cut, 0, "tables that scroll on the screen are whole on paper");
  const pdf = await page.pdf({ format: "A4" });
  assert.ok(pdf.length > 10_000);
}

export default async function ({ address, options, open, assert, drawn, accessible }) {
  const page = await open();
  for (const view of options) {
    const [hash, canvas] = view.split(" ");
    await page.goto(`${address}${hash}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    await paper(page, assert, drawn, `.${canvas} canvas`);
    await page.emulateMedia({ media: "screen", colorScheme: "light", forcedColors: "active", reducedMotion: "reduce" });
    await drawn(page, `.${canvas} canvas`);
    const pieces = await page.evaluate(() => [...document.querySelectorAll(".swatch, .bar-parts > span")].map((element) => [element.style.background, getComputedStyle(element).backgroundColor]));
    const seen = new Map(pieces);
    assert.equal(new Set(seen.values()).size, seen.size, "swatches of different colours look different");
    await accessible(page, `${hash} with forced colours`);
    await page.emulateMedia({ forcedColors: "none", reducedMotion: null });
  }
}
