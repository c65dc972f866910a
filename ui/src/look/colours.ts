import { useEffect, useState } from "preact/hooks";

// One colour for one meaning, on every page. Chosen from Okabe and Ito's set, which stays apart for
// colour-blind readers; the order of `activities` is that of web/activity.py.
export const activities = ["other", "compute", "communication", "copy", "host", "input", "idle", "overhead"] as const;
export type Activity = (typeof activities)[number];

// Paper is white, whatever the screen is.
const DARK = "screen and (prefers-color-scheme: dark)";
let known = new Map<string, string>();

// The value of a custom property, read once per theme: asking the style engine costs too much a frame.
export function colour(name: string): string {
  let value = known.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    known.set(name, value);
  }
  return value;
}

export const activityColours = (): string[] => activities.map(colour);

export function onThemeChange(redraw: () => void): () => void {
  const query = matchMedia(DARK);
  const changed = () => { known = new Map(); redraw(); };
  query.addEventListener("change", changed);
  return () => query.removeEventListener("change", changed);
}

// Mixes from white-hot to dark: a scale that is monotonous in lightness and so needs no colour sight.
export function heatColour(ratio: number, dark: boolean): [number, number, number] {
  const stops: [number, number, number][] = dark
    ? [[27, 31, 35], [36, 62, 88], [50, 110, 150], [214, 160, 60], [255, 226, 150]]
    : [[244, 246, 248], [196, 216, 232], [104, 158, 200], [206, 120, 30], [96, 30, 4]];
  const at = Math.min(Math.max(ratio, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const part = at - low;
  const mix = (i: number) => Math.round(stops[low]![i]! * (1 - part) + stops[low + 1]![i]! * part);
  return [mix(0), mix(1), mix(2)];
}

const isDark = (): boolean => matchMedia(DARK).matches;

export function useDark(): boolean {
  const [dark, setDark] = useState(isDark);
  useEffect(() => onThemeChange(() => setDark(isDark())), []);
  return dark;
}
