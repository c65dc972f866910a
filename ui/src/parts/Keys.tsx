const KEYS: [string, string][] = [
  ["/", "search"], ["?", "these keys"], ["Tab", "from part to part"],
  ["W S", "timeline: zoom in and out (also Ctrl and wheel)"], ["A D", "timeline: pan (also drag, Shift and wheel)"],
  ["← → ↑ ↓", "timeline, flame graph, heat map: from one to the next"],
  ["F", "timeline: zoom to what is chosen"], ["M", "timeline: measure what is chosen (also Shift and drag)"], ["0", "timeline: the whole trace"],
  ["Enter", "unfold a rank, zoom into a flame, next hit of a search"], ["Esc", "back: selection, zoom, search"],
];

export function Keys({ onClose }: { onClose(): void }) {
  return <section class="keys" aria-label="keys"><h2>Keys <button type="button" onClick={onClose}>close</button></h2>
    <dl>{KEYS.map(([key, text]) => <><dt><kbd>{key}</kbd></dt><dd>{text}</dd></>)}</dl></section>;
}
