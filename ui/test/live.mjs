// A page that is open shows a new job by itself.
export default async function ({ address, open, tell }) {
  const page = await open();
  await page.goto(address);
  await page.getByRole("heading", { level: 1, name: /jobs running/ }).waitFor();
  tell("waiting");
  await page.getByRole("link", { name: "fresh-job", exact: true }).waitFor({ timeout: 30_000 });
}
