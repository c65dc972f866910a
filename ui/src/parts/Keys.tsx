// What the keyboard does, over the page: it stays where it is.
import { useEffect, useRef } from "preact/hooks";

const KEYS: [string, string][] = [
  ["/", "search"], ["?", "these keys"], ["Tab", "from part to part"],
  ["W S", "timeline: zoom in and out (also Ctrl and wheel)"], ["A D", "timeline: pan (also drag, Shift and wheel)"],
  ["← → ↑ ↓", "timeline, flame graph, heat map: from one to the next"], ["+ -", "heat map: zoom in and out (also Ctrl and wheel)"],
  ["F", "timeline: zoom to what is chosen"], ["M", "timeline: measure what is chosen (also Shift and drag)"], ["0", "timeline: the whole trace"],
  ["Enter", "unfold a rank, zoom into a flame, next hit of a search"], ["Esc", "back: selection, zoom, search"],
];

export function Keys({ onClose }: { onClose(): void }) {
  const close = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    close.current?.focus();
    return () => before?.focus();
  }, []);
  return <section class="keys" role="dialog" aria-label="keys"><div class="tools"><h2>Keys</h2><button type="button" ref={close} onClick={onClose}>close</button></div>
    <dl>{KEYS.map(([keys, text]) => <><dt>{keys.split(" ").map((key) => <><kbd>{key}</kbd> </>)}</dt><dd>{text}</dd></>)}</dl></section>;
}
