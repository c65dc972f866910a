import "./look/style.css";
import "uplot/dist/uPlot.min.css";
import { render } from "preact";
import { useEffect, useErrorBoundary, useState } from "preact/hooks";
import { parse, useAddress, write } from "./data/address";
import { BEHIND, SourceContext, useLate } from "./data/load";
import { fileSource, inlined, LOCKED, server } from "./data/source";
import type { About } from "./data/types";
import { duration } from "./look/format";
import { AgentsPage } from "./pages/Agents";
import { CapturesPage } from "./pages/Captures";
import { ComparePage } from "./pages/Compare";
import { FleetPage } from "./pages/Fleet";
import { JobPage } from "./pages/Job";
import { Login } from "./pages/Login";
import { ReportPage } from "./pages/Report";
import { RooflinePage } from "./pages/RooflineChart";
import { TracePage } from "./pages/TracePage";
import { Keys } from "./parts/Keys";

const file = inlined();
const source = file ? fileSource(file) : server;

function Routed({ path }: { path: string[] }) {
  const [kind = "", id = "0", view = ""] = path;
  switch (kind) {
    case "": return <FleetPage />;
    case "job": return <JobPage key={id} name={id} view={view} />;
    case "compare": return <ComparePage />;
    case "captures": return <CapturesPage id={path[1] ?? ""} />;
    case "agents": return <AgentsPage />;
    case "report": return <ReportPage />;
    case "roofline": return <RooflinePage />;
    case "trace": return <TracePage key={id} id={id} view={view} base={["trace", id]} />;
    default: return <><header><h1>There is no such page</h1></header><p>The address may be cut off. <a href={write([])}>To the start</a></p></>;
  }
}

// A view that fails must not take the page with it: the next address is drawn anew.
function Guarded({ path }: { path: string[] }) {
  const [error, reset] = useErrorBoundary();
  useEffect(() => { if (error) reset(); }, [path.join("/")]);
  if (!error) return <Routed path={path} />;
  return <section role="alert"><header><h1>This view could not be drawn</h1></header><p>{String(error)}</p><p>Other views still work; this is a fault of the page, please tell its makers the address.</p></section>;
}

const NOTICED_S = 30;
const PAGES: [string, string][] = [["", "fleet"], ["compare", "compare"], ["captures", "captures"], ["agents", "agents"]];

// What the server is: a collector has a fleet, `analyze --serve` has traces only. The page itself tells, so that its
// first question need not wait; whether it may ask at all is asked beside it.
type Kind = "collector" | "viewer" | "locked" | null;
const told = (document.getElementById("page")?.dataset["kind"] ?? null) as Kind;

async function kindOfServer(): Promise<Kind> {
  const response = await fetch("api/about", { credentials: "same-origin" });
  if (response.status === 401 || response.status === 403) return "locked";
  if (!response.ok) throw new Error(response.statusText);
  return ((await response.json()) as About).kind === "collector" ? "collector" : "viewer";
}

function Page() {
  const { path } = useAddress();
  const [keys, setKeys] = useState(false);
  const isLate = useLate();
  const [behindS, setBehindS] = useState(0);
  const [kind, setKind] = useState<Kind>(file ? "viewer" : told);
  const look = () => { kindOfServer().then(setKind, () => setKind((old) => old ?? "viewer")); };
  useEffect(() => {
    if (file) return undefined;
    look();
    const lock = () => setKind("locked");
    const behind = (event: Event) => setBehindS((event as CustomEvent<number>).detail);
    addEventListener(LOCKED, lock);
    addEventListener(BEHIND, behind);
    return () => { removeEventListener(LOCKED, lock); removeEventListener(BEHIND, behind); };
  }, []);
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      if (event.key === "Escape" && keys) setKeys(false);
      if (target instanceof HTMLInputElement || target instanceof HTMLSelectElement || target instanceof HTMLTextAreaElement || event.ctrlKey || event.metaKey) return;
      if (event.key === "?") setKeys((old) => !old);
      else if (event.key === "/") { const field = document.querySelector<HTMLInputElement>("[data-search]"); if (field) { event.preventDefault(); field.focus(); field.select(); } }
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [keys]);
  const here = path.length ? path : parse(file?.page ?? (kind === "viewer" ? "#/trace/0" : "#/")).path;
  useEffect(() => { if (!file) document.title = [here[1], here[2], "pilotlight"].filter(Boolean).join(" · "); }, [here.join("/")]);
  return (
    <SourceContext.Provider value={source}>
      <div class="page">
        <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById("content")?.focus(); }}>to the content</a>
        <nav class="top" aria-label="main"><a class="name" href={write([])}>pilotlight</a>
          {kind === "collector" && PAGES.map(([key, text]) => <a href={write(key ? [key] : [])} aria-current={(here[0] ?? "") === key ? "page" : undefined}>{text}</a>)}
          <button type="button" class="plain end" aria-expanded={keys} onClick={() => setKeys(!keys)}>keys <kbd>?</kbd></button></nav>
        {isLate && <p class="partial late" role="status">The server does not answer: what you see is what it said last. The page asks again every few seconds.</p>}
        {!isLate && behindS >= NOTICED_S && <p class="partial late" role="status">The store is {duration(behindS * 1e9).replace(".0", "")} behind: what agents sent since is kept, and shown when the store has it.</p>}
        {keys && <Keys onClose={() => setKeys(false)} />}
        <main id="content" tabIndex={-1}>{kind === "locked" ? <Login done={look} /> : kind === null ? null : <Guarded path={here} />}</main>
        {file && <footer>Made by pilotlight {file.version}; this file needs no network.</footer>}
      </div>
    </SourceContext.Provider>
  );
}

render(<Page />, document.getElementById("page")!);
