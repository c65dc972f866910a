// From the answer to the evidence: overview, "show me", timeline by keyboard, flame graph, roofline.
export default async function ({ address, open, accessible, everyView, drawn, assert }) {
  const page = await open();
  await page.goto(`${address}#/trace/0`);
  await page.getByRole("heading", { level: 1, name: /Step .*.ms, device busy/ }).waitFor();
  await accessible(page, "overview");
  await page.getByRole("link", { name: /show me/ }).first().click();
  await drawn(page, ".timeline canvas");
  assert.match(page.url(), /timeline\?from=.*&range=/);
  await page.getByRole("heading", { name: /Selected:/ }).waitFor();
  await page.getByRole("region", { name: "totals of the selection" }).locator("tbody tr").first().waitFor();
  await accessible(page, "timeline");

  // Keyboard only: reach the canvas, zoom, walk, read what is chosen.
  await page.locator(".timeline canvas").focus();
  await page.keyboard.press("0");
  await page.keyboard.press("w");
  await page.waitForTimeout(300);
  const zoomed = page.url();
  assert.match(zoomed, /from=\d+/);
  // Also where nothing has the focus, as in Perfetto.
  await page.locator(".timeline canvas").blur();
  await page.keyboard.press("d");
  await page.waitForFunction((before) => location.href !== before, zoomed);
  await page.locator(".timeline canvas").focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  await page.waitForFunction(() => /from .* on/.test(document.querySelector(".timeline .readout").textContent));
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("m");
  await page.getByRole("heading", { name: /Selected:/ }).waitFor();

  await page.getByText(/The critical path \(second row of an unfolded rank\) is .*kernels/).waitFor();

  // Only a click reaches Perfetto's page, here a stand-in that is as strict as its handler of messages: it hears its
  // opener only, once the document is complete, and takes one trace, which must have a title and bytes.
  await page.context().route("https://ui.perfetto.dev/**", (route) => route.fulfill({ contentType: "text/html", body: `<script>
    onmessage = (event) => {
      if (document.readyState !== "complete" || event.source === null || event.source !== window.opener) return;
      if (event.data === "PING") { event.source.postMessage("PONG", event.origin); return; }
      const { buffer, title } = event.data.perfetto;
      if (document.title || !title || !(buffer instanceof ArrayBuffer)) throw new Error("not taken");
      document.title = "got " + buffer.byteLength;
    };
  </script>` }));
  const opened = page.waitForEvent("popup");
  await page.getByRole("button", { name: /open in Perfetto/ }).click();
  const perfetto = await opened;
  await page.getByText("handed over").waitFor();
  await perfetto.waitForFunction(() => Number(document.title.slice(4)) > 10_000);
  await perfetto.close();

  await page.keyboard.press("/");
  await page.keyboard.type("flash");
  await page.keyboard.press("Enter");
  await page.getByText(/, at 1/).waitFor();
  await page.keyboard.press("?");
  assert.equal(await page.getByRole("heading", { name: /Keys/ }).count(), 0, "in the search field ? is a letter");
  await page.keyboard.press("Escape");

  await page.getByRole("link", { name: "roofline" }).click();
  await page.getByRole("heading", { name: "Not measured" }).waitFor();
  await page.getByRole("link", { name: "flame graph", exact: true }).click();
  await drawn(page, ".flame canvas");
  await accessible(page, "flame graph");
  await page.locator(".flame canvas").focus();
  for (let i = 0; i < 3; i++) await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "callers and callees" }).click();
  await page.getByRole("heading", { name: "called by" }).waitFor();
  await page.getByRole("button", { name: "back to the whole" }).click();
  await page.getByLabel("compared with").selectOption({ index: 1 });
  await page.getByText("more than rank").waitFor();
  await drawn(page, ".flame canvas");

  // Against another trace; the link holds that, too.
  await page.getByLabel("compared with").selectOption({ label: "yesterday" });
  await page.getByText(/a greater part than on rank \d of yesterday/).waitFor();
  await page.getByText("Both are scaled to the same time").waitFor();
  await accessible(page, "flame graph of two traces");
  await page.reload();
  await page.getByText(/a greater part than on rank \d of yesterday/).waitFor();

  const sized = await open();
  await sized.goto(`${address}#/trace/0`);
  await sized.getByRole("heading", { level: 1, name: /Step/ }).waitFor();
  const sizes = [360, 1280, 2560].flatMap((width) => ["light", "dark"].map((theme) => [width, theme]));
  await everyView(sized, sizes, ["#/trace/0", "#/trace/0/timeline", "#/trace/0/flame"], async (view, width, theme) => {
    if (width === (theme === "light" ? 360 : 1280)) await accessible(sized, `${view} ${width} ${theme}`);
  });
}
