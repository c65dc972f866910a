import "./look/style.css";
import "uplot/dist/uPlot.min.css";
import { render } from "preact";
import { useEffect, useState } from "preact/hooks";
import { parse, useAddress, write } from "./data/address";
import { SourceContext } from "./data/load";
import { fileSource, inlined, server } from "./data/source";
import { Keys } from "./parts/Keys";
import { ReportPage } from "./pages/Report";
import { RooflinePage } from "./pages/RooflineChart";
import { TracePage } from "./pages/TracePage";

const file = inlined();
const source = file ? fileSource(file) : server;

function Routed({ path }: { path: string[] }) {
  const [kind = "", id = "0", view = ""] = path;
  if (kind === "report") return <ReportPage />;
  if (kind === "roofline") return <RooflinePage />;
  return <TracePage id={id} view={view} base={["trace", id]} />;
}

function Page() {
  const { path } = useAddress();
  const [keys, setKeys] = useState(false);
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
  return (
    <SourceContext.Provider value={source}>
      <div class="page">
        <a class="skip" href="#content" onClick={(event) => { event.preventDefault(); document.getElementById("content")?.focus(); }}>to the content</a>
        <nav class="top" aria-label="main"><a class="name" href={write([])}>pilotlight</a><span class="end">Press <kbd>?</kbd> for the keys</span></nav>
        {keys && <Keys onClose={() => setKeys(false)} />}
        <main id="content" tabIndex={-1}><Routed path={path.length ? path : parse(file?.page ?? "#/").path} /></main>
        {file && <footer>Made by pilotlight {file.version}; this file needs no network.</footer>}
      </div>
    </SourceContext.Provider>
  );
}

render(<Page />, document.getElementById("page")!);
