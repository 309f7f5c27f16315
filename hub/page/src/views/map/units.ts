//! The units of a map: a unit is drawn as one box, for a switch or for a group of switches of a
//! large fabric.

import type { Link, Topology } from "../../model/topology";
import { commonName } from "./names";

/** Number of switches above which a fabric is drawn as groups. */
export const MAX_SWITCHES = 60;
/** Number of switches above which the top tier is drawn as groups, if there are lower tiers. */
const MAX_TOP = 36;
/** Number of switches of a group without a natural border. */
const CHUNK = 16;

export interface Unit {
  id: string;
  name: string;
  /** Name for a narrow box. */
  short: string;
  /** Indices of the switches. */
  switches: number[];
  tier: number;
}

/** All links between two units. */
export interface Bundle {
  upper: number;
  lower: number;
  links: Link[];
}

export interface Scene {
  units: Unit[];
  bundles: Bundle[];
  /** Unit of each device, or -1. Hosts belong to the unit of their first switch. */
  unitOf: Int32Array;
  grouped: boolean;
}

/** Returns the boxes of a fabric. `open` is the group whose switches are shown; empty shows all. */
export function sceneOf(topology: Topology, open: string): Scene {
  const switches = topology.devices.flatMap((device, index) =>
    device.kind === "switch" ? [index] : [],
  );
  const small = switches.length <= MAX_SWITCHES;
  const all = small ? switches.map((index) => single(topology, index)) : groups(topology, switches);
  const opened = all.find(({ id }) => id === open && !small);
  const units = opened === undefined ? all : openedUnits(topology, all, opened);
  return connect(topology, units, !small && opened === undefined);
}

function single(topology: Topology, index: number): Unit {
  const device = topology.devices[index];
  return {
    id: device.guid,
    name: device.node,
    short: device.node,
    switches: [index],
    tier: device.tier,
  };
}

/** Returns an opened group as its switches, with the units above to which they are cabled. */
function openedUnits(topology: Topology, all: Unit[], opened: Unit): Unit[] {
  const inside = new Set(opened.switches);
  const near = new Set<number>();
  for (const index of opened.switches) {
    for (const cable of topology.cablesOf[index]) {
      near.add(topology.cables[cable].upper);
      near.add(topology.cables[cable].lower);
    }
  }
  const around = all.filter(
    (unit) => unit !== opened && unit.switches.some((index) => near.has(index)),
  );
  return [...opened.switches.map((index) => single(topology, index)), ...around].filter(
    (unit) =>
      unit.switches.length > 1 || inside.has(unit.switches[0]) || near.has(unit.switches[0]),
  );
}

/**
 * Groups the switches of a large fabric. Below the top tier, switches that are connected without
 * the top tier form a group: a pod or an island. Other switches form blocks of neighbours.
 */
function groups(topology: Topology, switches: number[]): Unit[] {
  const component = components(topology, switches);
  const pods = new Map<number, number[]>();
  for (const index of switches) {
    const root = component.get(index)!;
    const pod = pods.get(root);
    if (pod === undefined) pods.set(root, [index]);
    else pod.push(index);
  }
  const units: Unit[] = [];
  const alone = new Map<number, number[]>();
  for (const members of pods.values()) {
    if (members.length > 1) {
      const tier = Math.min(...members.map((index) => topology.devices[index].tier));
      units.push(named(topology, members, tier));
    } else {
      const { tier } = topology.devices[members[0]];
      alone.set(tier, [...(alone.get(tier) ?? []), members[0]]);
    }
  }
  const isFlat = switches.every((index) => topology.devices[index].tier === topology.top);
  for (const [tier, members] of alone) {
    const most = isFlat ? 2 * MAX_SWITCHES : MAX_TOP;
    const few = tier === topology.top && members.length <= most;
    if (few) units.push(...members.map((index) => single(topology, index)));
    else for (const block of blocks(topology, members)) units.push(named(topology, block, tier));
  }
  return units;
}

/** Finds switches that are connected below the top tier. */
function components(topology: Topology, switches: number[]): Map<number, number> {
  const parent = new Map(switches.map((index) => [index, index]));
  const find = (index: number): number => {
    let root = index;
    while (parent.get(root) !== root) root = parent.get(root)!;
    parent.set(index, root);
    return root;
  };
  const tier = (device: number) => topology.devices[device].tier;
  // Switches of the top tier that are cabled to each other have no tier above them, as in the
  // groups of a Dragonfly+. A link within such a group connects two tiers.
  const isFlat = topology.cables.some(
    ({ upper, lower }) =>
      parent.has(lower) && tier(upper) === topology.top && tier(lower) === topology.top,
  );
  for (const { upper, lower } of topology.cables) {
    const inner = isFlat ? tier(upper) !== tier(lower) : tier(upper) < topology.top;
    if (inner && parent.has(upper) && parent.has(lower)) parent.set(find(upper), find(lower));
  }
  return new Map(switches.map((index) => [index, find(index)]));
}

function blocks(topology: Topology, members: number[]): number[][] {
  const prefix = (index: number) => topology.devices[index].node.replace(/\d+\D*$/, "");
  const result: number[][] = [];
  for (const index of members) {
    const block = result.at(-1);
    if (block !== undefined && block.length < CHUNK && prefix(block[0]) === prefix(index))
      block.push(index);
    else result.push([index]);
  }
  return result;
}

function named(topology: Topology, members: number[], tier: number): Unit {
  const names = members
    .filter((index) => topology.devices[index].tier === tier)
    .map((index) => topology.devices[index].node);
  const [first, last] = [names[0], names[names.length - 1]];
  const name = names.length === 1 ? first : `${first} – ${last}`;
  const short = commonName(names) ?? name.replaceAll(/[A-Za-z_-]+(?=\d)/g, "");
  return { id: topology.devices[members[0]].guid, name, short, switches: members, tier };
}

function connect(topology: Topology, units: Unit[], grouped: boolean): Scene {
  const unitOf = new Int32Array(topology.devices.length).fill(-1);
  units.forEach((unit, index) => {
    for (const device of unit.switches) unitOf[device] = index;
  });
  const bundles = new Map<number, Bundle>();
  for (const cable of topology.cables) {
    const upper = unitOf[cable.upper];
    const lower = unitOf[cable.lower];
    if (!topology.isSwitch(cable.lower) || !topology.isSwitch(cable.upper)) continue;
    if (upper < 0 || lower < 0 || upper === lower) continue;
    const key = upper * units.length + lower;
    const bundle = bundles.get(key);
    if (bundle === undefined) bundles.set(key, { upper, lower, links: [...cable.links] });
    else bundle.links.push(...cable.links);
  }
  for (const { upper, lower } of topology.cables) {
    if (!topology.isSwitch(lower) && unitOf[lower] < 0) unitOf[lower] = unitOf[upper];
  }
  return { units, bundles: [...bundles.values()], unitOf, grouped };
}
