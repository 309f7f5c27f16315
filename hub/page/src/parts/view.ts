//! The interface of all views.

import type { App, Change } from "../model/app";
import type { Topology } from "../model/topology";

/** A view of the web page. The shell creates it when the URL names it, and closes it afterwards. */
export interface View {
  readonly element: HTMLElement;
  /** Shows what changed. It is also called once after the view is created, with all changes. */
  update(changes: ReadonlySet<Change>): void;
  close(): void;
  /** Whether the view has lists that do not wait for the next slot that the page shows. */
  readonly isPrompt?: boolean;
  /** What the user has zoomed to and the URL does not have. A view that is made again gets it. */
  zoomed?: { top: number; size: number };
}

/** Creates a view of a known fabric. The topology of a view never changes. */
export type MakeView = (app: App, topology: Topology) => View;
