// Fingers on a canvas: one drags, two pinch. What a mouse does with a wheel, a hand does with two fingers.
export interface Pinch { x: number; y: number; spread: number }
interface Place { pointerId: number; offsetX: number; offsetY: number }

// Two fingers on one spot must not zoom without end.
const LEAST = 16;

export class Fingers {
  private readonly at = new Map<number, { x: number; y: number }>();

  down({ pointerId, offsetX, offsetY }: Place): void { this.at.set(pointerId, { x: offsetX, y: offsetY }); }
  move({ pointerId, offsetX, offsetY }: Place): void { if (this.at.has(pointerId)) this.at.set(pointerId, { x: offsetX, y: offsetY }); }
  up({ pointerId }: { pointerId: number }): void { this.at.delete(pointerId); }

  // Between the first two; null where there is one finger, or none.
  pinch(): Pinch | null {
    const [first, second] = [...this.at.values()];
    if (!first || !second) return null;
    return { x: (first.x + second.x) / 2, y: (first.y + second.y) / 2, spread: Math.max(Math.hypot(first.x - second.x, first.y - second.y), LEAST) };
  }
}

// A finger is less steady than a mouse: how far it goes before it drags.
export const slack = (event: { pointerType: string }): number => (event.pointerType === "touch" ? 10 : 4);

export const isTouched = (): boolean => matchMedia("(pointer: coarse)").matches;

// Where a stretch from..to goes when what was at `began` is to be at `now`, both parts of the width, and `zoom` times as wide.
export function pinched(from: number, to: number, began: number, now: number, zoom: number): { from: number; to: number } {
  const held = from + began * (to - from), span = (to - from) / zoom;
  return { from: held - now * span, to: held + (1 - now) * span };
}
