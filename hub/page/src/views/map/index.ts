import { h } from "../../parts/dom";
import type { View } from "../view";
export function makeMap(): View { return { element: h("p"), update() {}, close() {} }; }
