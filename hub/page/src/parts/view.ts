//! What every view has in common.

import type { App, Change } from "../model/app";
import type { Topology } from "../model/topology";

/** A view of the page. The shell creates it when the URL names it, and closes it afterwards. */
export interface View {
  readonly element: HTMLElement;
  /** Shows what changed. It is also called once after the creation, with all changes. */
  update(changes: ReadonlySet<Change>): void;
  close(): void;
}

/** A view of a fabric that is known. The topology of a view never changes. */
export type MakeView = (app: App, topology: Topology) => View;
