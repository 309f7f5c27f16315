//! Describes the subnet managers.

import type { ManagerRow, ManagerRows } from "../contract/types";
import { count, dateTime } from "./units";

export function nameOf({ node, guid, lid }: ManagerRow): string {
  return node ?? guid ?? `LID ${lid}`;
}

/** Describes the master and its standbys in one sentence. */
export function managersText({ rows, master_changes }: ManagerRows): string {
  const [master] = rows;
  if (master === undefined) return "Subnet manager: no event of the samplers has named it yet.";
  if (!master.is_master) {
    // A standby that answers comes before the master that does not.
    const [last] = rows
      .filter(({ state }) => state === "master")
      .sort((x, y) => y.since_ns - x.since_ns);
    const was = last === undefined ? "" : `; ${nameOf(last)} was the last one`;
    return `Subnet manager: no master is known${was}.`;
  }
  const facts = [
    master.lid === null ? "" : `LID ${master.lid}`,
    master.priority === null ? "" : `priority ${master.priority}`,
  ].filter((fact) => fact !== "");
  const behind = rows.filter(({ is_master, is_present }) => !is_master && is_present);
  const others = behind.length === 0 ? "" : ` Standby: ${behind.map(nameOf).join(", ")}.`;
  const changes = master_changes === 0 ? "" : ` ${count(master_changes, "failover")}.`;
  return `Subnet manager: ${nameOf(master)} (${facts.join(", ")}) is the master since ${dateTime(master.since_ns / 1e6)}.${others}${changes}`;
}
