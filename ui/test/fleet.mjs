// From the fleet to the line of code that is to blame, by keyboard; then every page at every width.
export default async function ({ address, options, open, accessible, allow, everyView, drawn, assert, tabTo }) {
  const [evil] = options;
  const page = await open();
  await page.goto(address);
  await page.getByRole("heading", { level: 1, name: /jobs running/ }).waitFor();
  await accessible(page, "fleet");
  assert.equal(await page.getByRole("link", { name: evil, exact: true }).count() >= 1, true, "a hostile name is shown as it is");
  assert.equal(await page.locator("img").count(), 0);

  // By keyboard only: search the job, go to it, to the finding, to the code.
  await page.keyboard.press("/");
  await page.keyboard.type("llama");
  await page.getByText("1 of 3").waitFor();
  await tabTo(page, page.getByRole("link", { name: "llama-8b-sft", exact: true }));
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { level: 1, name: /rank 5 is late in \d+.% of steps/ }).waitFor();
  await drawn(page, ".heat canvas");
  await accessible(page, "job");
  await tabTo(page, page.locator(".heat canvas"));
  for (let i = 0; i < 5; i++) await page.keyboard.press("ArrowDown");
  await page.getByText(/rank 5, node0001, gpu 1/).waitFor();
  await page.keyboard.press("Enter");
  await page.getByRole("group", { name: "rank 5" }).waitFor();
  assert.match(page.url(), /rank=5/);
  await tabTo(page, page.getByRole("link", { name: "show me: the code" }));
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: /Stacks of rank 5/ }).waitFor();
  await drawn(page, ".flame canvas");
  await accessible(page, "flame graph of a job");
  await page.keyboard.press("/");
  await page.keyboard.type("dataloader");
  await page.getByText(/found in .* of the time/).waitFor();
  // The finding says that the loader holds up rank 5: down the stack to it, then along its neighbours.
  await tabTo(page, page.locator(".flame canvas"));
  const readout = page.locator(".flame .readout");
  for (const line of [/^main \(llama\/train\.py:141\)$/, /^train \(llama\/train\.py:8\d\)$/]) {
    await page.keyboard.press("ArrowDown");
    await readout.getByText(line).waitFor();
  }
  await page.keyboard.press("ArrowDown");
  const loader = readout.getByText("_BaseDataLoaderIter.__next__ (data/dataloader.py:733)", { exact: true });
  for (let i = 0; i < 20 && !(await loader.count()); i++) await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await readout.getByText(/^Tokens\.__getitem__ \(llama\/data\.py:(39|40|41|42)\)$/).waitFor();
  await readout.getByText(/line 4?\d/).first().waitFor();
  // A line that is looked for by itself.
  await page.getByLabel("search").fill("llama/train.py:86");
  await page.getByText(/found in .* of the time/).waitFor();

  const views = ["#/", "#/job/llama-8b-sft", "#/job/llama-8b-sft/kernels", "#/job/llama-8b-sft/flame?weight=device", "#/job/llama-8b-sft/flame?rank=5&against=1", "#/job/llama-8b-sft/roofline", "#/job/llama-8b-sft/collectives", "#/job/llama-8b-sft/counters", "#/job/llama-8b-sft/facts", "#/compare?before=llama-8b-sft&after=llama-8b-sft", "#/compare", "#/captures", "#/agents", "#/nothing", `#/job/${encodeURIComponent(evil)}`];
  const told = await open();
  await told.goto(`${address}#/job/llama-8b-sft/flame?weight=device&q=flash_bwd`);
  await told.getByText(/found in \d+.*% of the time/).waitFor();
  await told.goto(`${address}#/job/llama-8b-sft/roofline`);
  await told.getByText(/rank \d.*on node000\d, gpu \d/).waitFor();
  await told.getByText("pilotlight capture llama-8b-sft --steps 3 --shapes").waitFor();
  await told.getByRole("link", { name: "trace 3 steps with shapes" }).click();
  assert.equal(await told.getByLabel(/with shapes/).isChecked(), true);
  // GPUs that do nothing have no place on the chart; a view that fails takes no other with it.
  const roofline = (change) => told.route("**/api/roofline?**", async (route) => { const response = await route.fetch(); await route.fulfill({ response, json: { ...(await response.json()), ...change } }); });
  await roofline({ points: [{ rank: 0, node: "n", gpu: 0, tensor_ratio: 0, memory_ratio: 0, flops: 0, bytes: 0, limit: "latency" }] });
  await told.goto(`${address}#/job/llama-8b-sft/roofline?gpu=B200`);
  await told.getByText("1 rank with no activity has none").waitFor();
  await told.unroute("**/api/roofline?**");
  await roofline({ kinds_ns: null });
  await told.goto(`${address}#/job/llama-8b-sft/roofline?gpu=H200-SXM`);
  await told.getByRole("heading", { level: 1, name: "This view could not be drawn" }).waitFor();
  await told.unroute("**/api/roofline?**");
  await told.goto(`${address}#/job/llama-8b-sft/kernels`);
  await told.getByRole("heading", { name: /Kernels and copies/ }).waitFor();
  await told.goto(`${address}#/job/llama-8b-sft`);
  await told.getByRole("img", { name: /data loading .*forward .*backward .*optimizer/ }).waitFor();
  await told.goto(`${address}#/agents`);
  await told.getByRole("cell", { name: /ptrace_scope is 2/ }).first().waitFor();
  await told.getByRole("cell", { name: "1 limited" }).first().waitFor();
  await told.getByRole("heading", { level: 1, name: /recording slows no process by more than 0\.\d+.%/ }).waitFor();
  await told.getByRole("cell", { name: /^1\d\.\d.%$/ }).first().waitFor();
  await told.getByRole("columnheader", { name: /CPU, budget 2\.00.%/ }).waitFor();

  // From a kernel to what launches it; a counter large; the keys over the page, and back to where one was.
  await told.goto(`${address}#/job/llama-8b-sft/kernels`);
  await told.getByLabel("search").fill("flash_bwd");
  await told.getByRole("link", { name: /^flash_bwd/ }).first().click();
  await told.getByText(/found in \d+.*% of the time/).waitFor();
  await told.goto(`${address}#/job/llama-8b-sft/counters`);
  await told.locator(".u-series:not(.without-legend)").getByText(/MHz/).first().waitFor();
  await told.getByRole("link", { name: "GPU temperature" }).click();
  await told.getByRole("img", { name: "GPU temperature", exact: true }).locator(".u-series:not(.without-legend)").getByText(/°C/).first().waitFor();
  await told.getByRole("combobox", { name: /counter/ }).focus();
  await told.getByRole("button", { name: "keys" }).click();
  await told.getByRole("dialog", { name: "keys" }).waitFor();
  for (const colorScheme of ["light", "dark"]) { await told.emulateMedia({ colorScheme }); await accessible(told, `keys ${colorScheme}`); }
  await told.keyboard.press("Escape");
  assert.equal(await told.getByRole("dialog").count(), 0);
  await told.goto(`${address}#/compare`);
  await told.getByRole("link", { name: "its first half with its second" }).first().click();
  await told.getByRole("heading", { name: "Parts of a step" }).waitFor();
  // A store that does not answer: the ways out stay, and a second try is one click.
  allow(/status of 503/);
  for (const view of ["#/", "#/job/llama-8b-sft", "#/compare", "#/captures", "#/agents"]) {
    await told.route(/\/(api|v1)\//, (route) => route.fulfill({ status: 503, json: { error: "the store is away" } }));
    await told.goto(`${address}${view}`);
    await told.reload();
    await told.getByText("The store is away.").first().waitFor();
    await told.getByRole("navigation", { name: "main" }).getByRole("link", { name: "captures" }).waitFor();
    await told.unroute(/\/(api|v1)\//);
    await told.getByRole("button", { name: "try again" }).first().click();
    await told.getByText("The store is away.").waitFor({ state: "detached" });
  }
  // Only a part of it answers: said wherever numbers are.
  for (const view of ["#/captures", "#/agents"]) {
    await told.route(/\/v1\/(captures|agents)\?/, async (route) => { const response = await route.fetch(); await route.fulfill({ response, json: { ...(await response.json()), partial: true } }); });
    await told.goto(`${address}${view}`);
    await told.reload();
    await told.getByText(/^Partial: a part of the store did not answer/).waitFor();
  }
  await told.unrouteAll({ behavior: "ignoreErrors" });
  await told.context().close();

  const sized = await open();
  await sized.goto(address);
  await sized.getByRole("heading", { level: 1, name: /jobs running/ }).waitFor();
  await everyView(sized, [[1280, "dark"], [360, "light"], [2560, "light"]], views, async (view, width, theme) => {
    if (width !== 2560) await accessible(sized, `${view} ${width} ${theme}`);
  });
  assert.equal(await sized.evaluate(() => globalThis.broken), undefined);
}
