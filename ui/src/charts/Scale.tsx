// What the colours of a map mean, from one end to the other.
import { heatColour, useDark } from "../look/colours";

export function Scale({ low, high }: { low: string; high: string }) {
  const dark = useDark();
  return <span class="scale legend" role="img" aria-label={`from ${low} to ${high}`}>{low}<span>{[0.05, 0.19, 0.32, 0.46, 0.59, 0.73, 0.86, 1].map((ratio) => <i style={{ background: `rgb(${heatColour(ratio, dark).join(",")})` }} />)}</span>{high}</span>;
}
