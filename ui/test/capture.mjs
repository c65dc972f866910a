// Take a capture, watch it node by node, see why one failed, open what came, let it go.
export default async function ({ address, options, open, accessible, drawn, assert, tell }) {
  const [job] = options;
  const page = await open();
  await page.goto(`${address}#/captures?job=${encodeURIComponent(job)}`);
  await page.getByRole("heading", { level: 1, name: /capture/ }).waitFor();
  const form = page.getByRole("form", { name: "take a capture" });
  await form.getByLabel("ranks").fill("seven");
  await form.getByRole("button", { name: "take a capture" }).click();
  await page.getByText("ranks are numbers, as in 0-3, 7").waitFor();
  await form.getByLabel("ranks").fill("0-7");
  await form.getByRole("button", { name: "take a capture" }).click();

  await page.getByRole("heading", { level: 1, name: "On the way: 0 of 2 nodes stored." }).waitFor();
  assert.match(page.url(), /#\/captures\/[0-9a-f]{16}$/);
  const rows = page.getByRole("region", { name: "Node by node" }).locator("tbody tr");
  assert.equal(await rows.count(), 2);
  assert.match(await rows.first().innerText(), /node0000.*0–3.*has not asked for work yet/s);
  tell("let node0001");
  await page.getByRole("heading", { level: 1, name: "On the way: 0 of 2 nodes stored, 1 failed." }).waitFor();
  await page.getByText("failed: the recorder does not reach back so far").waitFor();
  tell("let node0000");
  await page.getByRole("heading", { level: 1, name: "Partial: 1 of 2 nodes could not give it." }).waitFor();
  const ranks = page.getByRole("region", { name: "rank by rank" }).locator("tbody tr");
  assert.match(await ranks.first().innerText(), /1.*node0000.*failed: hung: it has done no step for 12 s/s);
  assert.match(await ranks.last().innerText(), /0.*node0000.*traced/s);
  await accessible(page, "a capture");
  const where = page.url();
  await page.getByRole("link", { name: "timeline", exact: true }).click();
  await page.locator(".timeline canvas").waitFor();
  await page.getByRole("heading", { level: 1, name: /No device activity|Step/ }).waitFor();

  const traces = () => page.evaluate(() => fetch("api/traces").then((answer) => answer.json()));
  const id = where.split("/").at(-1);
  assert.ok((await traces()).some((trace) => trace.id === id), "it can be compared with others");

  await page.goto(`${address}#/captures`);
  await page.getByRole("link", { name: id, exact: true }).click();
  await page.getByRole("button", { name: "remove its files now" }).click();
  await page.getByRole("heading", { level: 1, name: "This capture has expired: its files are gone." }).waitFor();
  assert.equal(await page.getByRole("link", { name: "timeline", exact: true }).count(), 0);
  assert.ok(!(await traces()).some((trace) => trace.id === id));
}
