// A page that is open shows a new job by itself, keeps what it shows while its server is away, and says when its
// store is behind.
export default async function ({ address, open, tell, allow }) {
  const page = await open();
  await page.goto(address);
  await page.getByRole("heading", { level: 1, name: /jobs running/ }).waitFor();
  tell("waiting");
  await page.getByRole("link", { name: "fresh-job", exact: true }).waitFor({ timeout: 30_000 });

  allow(/net::ERR_FAILED/);
  await page.route("**/api/fleet**", (route) => route.abort());
  await page.getByLabel("time").selectOption("6h");
  await page.getByText(/server does not answer/).waitFor();
  await page.unroute("**/api/fleet**");
  await page.getByRole("link", { name: "fresh-job", exact: true }).waitFor();

  await page.route("**/api/fleet**", (route) => route.abort());
  tell("waiting");
  await page.getByRole("status").getByText(/what you see is what it said last/).waitFor();
  await page.getByRole("link", { name: "fresh-job", exact: true }).waitFor();
  await page.unroute("**/api/fleet**");
  await page.getByRole("status").waitFor({ state: "detached" });

  tell("behind");
  await page.getByRole("status").getByText(/The store is 90.s behind/).waitFor();
  tell("in time");
  await page.getByRole("status").waitFor({ state: "detached" });
}
