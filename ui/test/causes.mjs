// Throttling, a late rank, a starved job, a hang and a slower run: each from the fleet over the finding to its evidence,
// the first two by the keyboard alone.
export default async function ({ address, open, tabTo, drawn, assert, accessible }) {
  const page = await open();
  const clicked = (link) => link.click();
  const typed = async (link) => { await tabTo(page, link); await page.keyboard.press("Enter"); };

  async function toCard(job, headline, title, follow) {
    await page.goto(`${address}#/`);
    await page.reload();
    await follow(page.getByRole("link", { name: job, exact: true }).first());
    await page.getByRole("heading", { level: 1, name: headline }).waitFor();
    const card = page.locator(".finding").filter({ hasText: title }).first();
    await card.getByText("Do:").waitFor();
    return { card, show: (name) => follow(card.getByRole("link", { name }).first()) };
  }

  // Throttling: the clock of the one GPU against the others', then when and where.
  const hot = await toCard("hot", /rank 5.*lower clock/, "The device of rank 5 runs at a lower clock", typed);
  await hot.card.getByText(/[\d,]+ MHz, the others [\d,]+ MHz/).waitFor();
  await hot.show("show me: GPU SM clock");
  const clocks = page.getByRole("img", { name: "GPU SM clock", exact: true });
  await clocks.locator(".u-legend").getByText("rank 5").waitFor();
  const clock = async (whose) => Number((await clocks.locator(".u-series").filter({ hasText: whose }).locator(".u-value").innerText()).replace(/[^\d]/g, ""));
  const [own, others] = [await clock("rank 5"), await clock("others")];
  assert.ok(own < 0.8 * others, `${own} MHz and ${others} MHz`);
  await accessible(page, "the clocks of a throttled GPU");
  await page.goBack();
  await hot.show("show me: when and where");
  await page.getByRole("group", { name: "rank 5" }).waitFor();
  await drawn(page, ".heat canvas");

  const late = await toCard("late", /rank 5/i, /Rank 5|rank 5/, typed);
  await late.show(/show me: (when and where|GPU SM clock)/);
  assert.match(page.url(), /from=\d+&.*to=\d+|to=\d+/);

  // Bound by its input: down to the line that makes it.
  const starved = await toCard("starved", /rank 5|loader/i, /holds up all others|data loader/, clicked);
  await starved.show("show me: the code");
  await drawn(page, ".flame canvas");
  assert.equal(await page.getByLabel("search").inputValue(), "dataloader");
  await page.getByText(/found in [\d.]+.% of the time/).waitFor();
  await page.getByRole("region", { name: "By name" }).getByRole("button", { name: /^Tokens\.__getitem__ \(llama\/data\.py:\d+\)$/ }).waitFor();

  const stuck = await toCard("stuck", /rank 5|hang|stands still/i, /rank 5/i, clicked);
  await stuck.card.getByText(/not entered: all_reduce/).waitFor();
  await stuck.show("show me: when and where");
  await drawn(page, ".heat canvas");

  const slower = await toCard("nightly-2", /Step .*/, /takes longer than in earlier runs/, clicked);
  await slower.card.getByText("the run before: nightly-1").waitFor();
  await slower.show("show me: compared with the run before");
  await page.getByRole("heading", { level: 1, name: /slower, which is more than noise/ }).waitFor();
  await page.getByText(/^nightly-1 → nightly-2/).waitFor();
}
