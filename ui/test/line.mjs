// From the fleet to the very line of a real job that holds the others up: by the mouse, from card to code.
export default async function ({ address, options, open, drawn, assert, accessible }) {
  const [job, line, name] = options;
  const page = await open();
  await page.goto(address);
  await page.getByRole("link", { name: job, exact: true }).first().click();
  const card = page.locator(".finding").filter({ hasText: "Rank 1 holds up all others" }).first();
  await card.getByText(line, { exact: true }).waitFor();
  await card.getByText(`${name} (${line})`).first().waitFor();
  await accessible(page, "a finding with its line");
  await card.getByRole("link", { name: "show me: the code" }).click();
  await page.getByRole("heading", { name: "Stacks of rank 1" }).waitFor();
  await drawn(page, ".flame canvas");
  assert.equal(await page.getByLabel("search").inputValue(), line);
  const [, found] = /found in ([\d.]+).% of the time/.exec((await page.getByText(/found in .* of the time/).textContent()).replace(/\s/g, " "));
  assert.ok(Number(found) > 5, `${found} % of the time is in that line`);
  await page.getByRole("region", { name: "By name" }).getByRole("button", { name: `${name} (${line})`, exact: true }).click();
  await page.getByRole("heading", { name: `${name} (${line.replace(/:\d+$/, "")})` }).waitFor();
  await page.locator(".flame .readout b").getByText(`${name} (${line})`, { exact: true }).first().waitFor();
}
