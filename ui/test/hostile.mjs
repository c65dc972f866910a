// Names that look like markup and code are only names, in a served page and in a file.
export default async function ({ address, options, open, drawn, assert }) {
  const page = await open();
  const views = options.includes("report") ? ["#/report"] : ["#/trace/0", "#/trace/0/timeline", "#/trace/0/flame"];
  for (const view of views) {
    await page.goto(`${address}${view}`);
    await page.getByRole("heading", { level: 1 }).waitFor();
    if (view.endsWith("timeline")) await drawn(page, ".timeline canvas");
    if (view.endsWith("flame") || view.endsWith("report")) await drawn(page, ".flame canvas");
    assert.equal(await page.locator("img, iframe, object, embed, svg script").count(), 0, view);
    assert.equal(await page.evaluate(() => document.title === "broken"), false);
    assert.equal(await page.evaluate(() => globalThis.broken), undefined);
  }
  assert.ok((await page.content()).length > 1000);
  const text = await page.evaluate(() => document.body.innerText);
  if (options.includes("report")) assert.ok(text.includes("onerror="), "the name is shown as text");
}
