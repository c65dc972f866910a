// The one-file page, opened from the disk.
export default async function ({ address, options, open, accessible, drawn, assert, noSidewaysScroll }) {
  const page = await open();
  await page.goto(address);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.getByText(/this file needs no network/).waitFor();
  for (const [width, colorScheme] of [[360, "dark"], [360, "light"], [1280, "dark"], [1280, "light"]]) {
    await page.setViewportSize({ width, height: 860 });
    await page.emulateMedia({ colorScheme });
    await noSidewaysScroll(page, `${options[0]} at ${width}`);
    await accessible(page, `${options[0]} ${width} ${colorScheme}`);
  }
  if (options[0] === "trace") {
    await page.getByRole("link", { name: "timeline", exact: true }).click();
    await drawn(page, ".timeline canvas");
    await page.locator(".timeline canvas").focus();
    for (let i = 0; i < 3; i++) await page.keyboard.press("w");
    await drawn(page, ".timeline canvas");
    await page.getByRole("link", { name: "flame graph", exact: true }).click();
    await drawn(page, ".flame canvas");
    await page.getByRole("link", { name: "roofline", exact: true }).click();
    await page.getByRole("heading", { name: "Not measured" }).waitFor();
  }
  if (options[0] === "report") {
    for (const title of ["Step time", "Where the time goes", "Steps", "Ranges", "Threads", "Processes", "GPUs of each rank", "Missing of the GPUs", "Not in these numbers"]) {
      await page.getByRole("heading", { name: title, exact: true }).first().waitFor();
    }
    await page.getByText("12 steps shown").waitFor();
    await drawn(page, ".flame canvas");
    assert.match(await page.locator(".flame .readout").innerText(), /total 12\.0.ms \(100.%\)/);
  }
  if (options[0] === "roofline") {
    await page.getByRole("heading", { name: /MFU/ }).waitFor();
    assert.ok((await page.locator("svg circle").count()) > 2);
  }
}
