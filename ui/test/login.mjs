// With tokens: nothing without one, a cookie that scripts cannot read, and a fault that says so.
export default async function ({ address, options, open, accessible, assert, allow }) {
  const [token] = options;
  allow(/status of 401/);
  const page = await open();
  await page.goto(address);
  await page.getByRole("heading", { name: "A token is needed" }).waitFor();
  await accessible(page, "login");
  await page.getByLabel("token").fill("wrong");
  await page.keyboard.press("Enter");
  await page.getByText("not a valid token").waitFor();
  await page.getByLabel("token").fill(token);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: /jobs running|No job/ }).waitFor();
  assert.equal(await page.evaluate(() => document.cookie), "");
  const [cookie] = await page.context().cookies();
  assert.equal(cookie.httpOnly, true);
  assert.equal(cookie.sameSite, "Strict");

  // The cookie expires while the page is open: back to the login, and from there to where one was.
  await page.context().clearCookies();
  await page.getByLabel("time").selectOption("6h");
  await page.getByRole("heading", { name: "A token is needed" }).waitFor();
  await page.getByLabel("token").fill(token);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: /jobs running|No job/ }).waitFor();
  assert.match(page.url(), /since=6h/);
}
