// The address carries the whole state: controls of a view are set one by one, each must be seen to change something;
// then the address is loaded anew, and opened from the plain view in the same window, and must show the same.

// What the reader's choices made of the view. Numbers of live data are left out.
const seen = (page) => page.evaluate(() => {
  const all = (selector) => [...document.querySelectorAll(`main ${selector}`)];
  const words = (element) => element.textContent.replace(/[\d.,]+/g, "#").trim();
  return JSON.stringify([
    all("select, main input").map((field) => `${field.closest("label")?.firstChild?.textContent?.trim()}: ${field.type === "checkbox" ? field.checked : field.value}`),
    all("details[open] summary").map(words),
    all("[aria-sort]").map((head) => `${words(head)} ${head.getAttribute("aria-sort")}`),
    all(".u-off").map((line) => words(line).split(":")[0]),
    all("button").map(words),
    all("[aria-label=timeline] h2, main [role=group] h3, main .split h2, main [aria-label='flame graph'] h2").map((head) => head.textContent),
    all(".timeline .readout b, main .flame .readout b, main [aria-label=roofline] .readout").map((told) => told.textContent),
    all(".timeline canvas").map((canvas) => [...canvas.toDataURL()].reduce((sum, letter) => (Math.imul(sum, 31) + letter.charCodeAt(0)) | 0, 7)),
  ]);
});

const settled = (page) => page.waitForFunction(() => document.querySelector("main h1, main h2") && !document.querySelector(".waiting") && !document.querySelector("[data-busy='1']"));

// Twice the same, with time to draw between: what is on its way has arrived.
async function still(page) {
  await settled(page);
  for (let before = "", now = await seen(page); before !== now;) {
    await page.waitForTimeout(150);
    await settled(page);
    [before, now] = [now, await seen(page)];
  }
  return seen(page);
}

// What is seen once it fits; as it is after a minute if it never does.
async function until(page, fits) {
  const late = Date.now() + 60_000;
  for (;;) {
    const now = await seen(page);
    if (fits(now) || Date.now() > late) return now;
    await page.waitForTimeout(50);
  }
}

export async function kept(page, address, view, controls, assert) {
  await page.goto("about:blank");
  await page.goto(`${address}${view}`);
  await settled(page);
  let before = await seen(page);
  for (const [name, set] of Object.entries(controls)) {
    await set(page);
    await page.mouse.move(0, 0);
    const now = await until(page, (found) => found !== before);
    assert.notEqual(now, before, `${view}: ${name} changes nothing that is seen`);
    before = now;
  }
  const wanted = await still(page);
  // The address is written a moment after the last change.
  await page.waitForTimeout(200);
  const link = page.url();
  await page.reload();
  assert.equal(await until(page, (found) => found === wanted), wanted, `${link}: loaded anew`);
  await page.evaluate((hash) => { location.hash = hash; }, view);
  await until(page, (found) => found !== wanted);
  await page.evaluate((hash) => { location.hash = hash; }, new URL(link).hash);
  assert.equal(await until(page, (found) => found === wanted), wanted, `${link}: opened in the same window`);
}

// A label's text holds the options of its field, too: what counts is how it begins.
export const field = (page, label) => page.locator("main label.field").filter({ hasText: new RegExp(`^\\s*${label}\\b`) }).locator("select, input");
export const choose = (label, option) => (page) => field(page, label).first().selectOption(option);
export const fill = (label, text) => (page) => field(page, label).first().fill(text);
export const check = (label) => (page) => page.getByLabel(label).check();
export const press = (selector, ...keys) => async (page) => { await page.locator(selector).first().focus(); for (const key of keys) await page.keyboard.press(key); };
export const click = (role, name) => (page) => page.getByRole(role, { name }).first().click();
export const sort = (table, column) => (page) => page.getByRole("region", { name: table, exact: true }).getByRole("columnheader", { name: column }).getByRole("button").click();
