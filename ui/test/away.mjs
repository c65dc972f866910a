// A page on which nothing happens says when its server goes away, and when it is back.
export default async function ({ address, open, tell, allow }) {
  allow(/net::ERR_/);
  const page = await open();
  await page.goto(address);
  await page.getByRole("heading", { level: 1, name: "No job has reported in this time" }).waitFor();
  tell("go");
  await page.getByRole("status").getByText(/what you see is what it said last/).waitFor();
  tell("come");
  await page.getByRole("status").waitFor({ state: "detached" });
}
