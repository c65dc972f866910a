// A line must not lead over time in which nothing was measured: three usual distances and more are a gap.
export function withGaps([times = [], ...columns]: (number | null)[][]): (number | null)[][] {
  const known = times as number[];
  const apart = known.slice(1).map((time, i) => time - known[i]!);
  const usual = apart.slice().sort((a, b) => a - b)[apart.length >> 1] ?? 0;
  const places = apart.flatMap((distance, i) => (distance > 3 * usual ? [i + 1] : []));
  if (!places.length) return [times, ...columns];
  const split = (column: (number | null)[], gap: (place: number) => number | null) =>
    [0, ...places].flatMap((from, i) => [...(i ? [gap(from)] : []), ...column.slice(from, places[i] ?? column.length)]);
  return [split(known, (place) => known[place - 1]! + usual), ...columns.map((column) => split(column, () => null))];
}
