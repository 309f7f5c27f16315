//! Two fingers on a picture.

/** The pointers of two fingers. */
export type Fingers = readonly [MouseEvent, MouseEvent];

/**
 * Calls `begin` for the second finger on an element, `move` with both fingers at first and now, and
 * `end` for the first finger that leaves. Listeners that are added later see no event from the
 * second finger until all fingers have left.
 */
export function listenForPinch(
  element: HTMLElement,
  begin: () => void,
  move: (first: Fingers, now: Fingers) => void,
  end: () => void,
): void {
  const fingers = new Map<number, PointerEvent>();
  let first: Fingers | null = null;
  let isPinch = false;
  const listen = (event: PointerEvent) => {
    if (event.pointerType !== "touch") return;
    const isLast = event.type === "pointerup" || event.type === "pointercancel";
    if (isLast) fingers.delete(event.pointerId);
    else if (event.type === "pointerdown" || fingers.has(event.pointerId))
      fingers.set(event.pointerId, event);
    const [one, two] = fingers.values();
    if (two === undefined) {
      if (first !== null) end();
      first = null;
    } else if (first === null) {
      first = [one, two];
      isPinch = true;
      begin();
    } else move(first, [one, two]);
    if (isPinch) event.stopImmediatePropagation();
    if (fingers.size === 0) isPinch = false;
  };
  for (const name of ["pointerdown", "pointermove", "pointerup", "pointercancel"] as const)
    element.addEventListener(name, listen);
}

/** Returns the distance of two fingers along an axis, and at least a finger's width. */
export function apart([one, two]: Fingers, axis: "offsetX" | "offsetY"): number {
  return Math.max(24, Math.abs(one[axis] - two[axis]));
}

/** Returns the distance of two fingers. */
export function distance(fingers: Fingers): number {
  return Math.hypot(apart(fingers, "offsetX"), apart(fingers, "offsetY"));
}
