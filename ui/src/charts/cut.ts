// Where to cut a chart off so that a few spikes do not press all else to its floor; null: it needs no cut.
export function cutOf(values: (number | null)[]): number | null {
  const known = values.filter((value): value is number => value !== null).sort((a, b) => a - b);
  const usual = known[Math.floor(0.9 * known.length)] ?? 0;
  return known.length >= 20 && known.at(-1)! > 3 * usual ? 2 * usual : null;
}
