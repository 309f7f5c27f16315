//! The fabric: devices, ports and links, by the indices that frames use.

import type { DeviceRow, Kind, PortRow, TopologyAnswer } from "../contract/types";

/** A device whose kind and tier are known, or assumed. */
export interface Device extends DeviceRow {
  kind: Kind;
  tier: number;
}

export interface Port extends PortRow {
  kind: Kind;
}

/** Completes a device. Without a known kind it is a switch if it has a tier, else a host. */
function complete(device: DeviceRow): Device {
  const tier = device.tier ?? 0;
  return { ...device, tier, kind: device.kind ?? (tier > 0 ? "switch" : "hca") };
}

/**
 * A link between two ports that the hub has. `a` is the upper end, or the first one if both tiers
 * are equal.
 */
export interface Link {
  a: number;
  b: number;
}

/** All links between the same two devices. */
export interface Cable {
  /** Index of the upper device. */
  upper: number;
  /** Index of the lower device. */
  lower: number;
  links: Link[];
}

/** Returns the key of a port in requests and in the URL. */
export function portKey(guid: string, port: number): string {
  return `${guid}/${port}`;
}

/**
 * Returns the name of a host, which is the first word of its node description: `node00001 mlx5_0`
 * is `node00001`.
 */
export function hostName(node: string): string {
  return node.split(" ", 1)[0] || node;
}

export class Topology {
  readonly generation: number;
  readonly devices: Device[];
  readonly ports: Port[];
  readonly links: Link[] = [];
  readonly cables: Cable[] = [];
  /** Indices of the ports of each device, in the order of their numbers. */
  readonly portsOf: number[][];
  /** Indices of the cables of each device. */
  readonly cablesOf: number[][];
  /** Highest tier, which is the number of switch tiers. */
  readonly top: number;
  private readonly byKey = new Map<string, number>();
  private readonly byGuid = new Map<string, number>();
  /** Number of ports with the name of a host, and with a whole name. */
  private readonly portsNamed = new Map<string, number>();

  constructor(answer: TopologyAnswer) {
    this.generation = answer.generation;
    this.devices = answer.devices.map(complete);
    this.ports = answer.ports.map((port) => ({ ...port, kind: this.devices[port.device].kind }));
    this.portsOf = this.devices.map(() => []);
    this.cablesOf = this.devices.map(() => []);
    for (const [index, device] of this.devices.entries()) this.byGuid.set(device.guid, index);
    this.ports.forEach((port, index) => {
      this.byKey.set(portKey(port.guid, port.port), index);
      this.portsOf[port.device]?.push(index);
      if (port.kind === "switch") return;
      for (const name of new Set([hostName(port.node), port.node]))
        this.portsNamed.set(name, (this.portsNamed.get(name) ?? 0) + 1);
    });
    for (const ports of this.portsOf) ports.sort((x, y) => this.ports[x].port - this.ports[y].port);
    this.top = this.devices.reduce((top, device) => Math.max(top, device.tier), 0);
    this.collectLinks();
  }

  private collectLinks(): void {
    const cables = new Map<string, Cable>();
    this.ports.forEach((port, index) => {
      const peer = port.peer;
      if (peer === null || peer === undefined || this.ports[peer] === undefined) return;
      // Each link appears twice, and its upper end represents it; between equal tiers, the lower
      // index does.
      const mine = this.tierOf(index);
      const other = this.tierOf(peer);
      if (mine < other || (mine === other && peer < index)) return;
      const link = { a: index, b: peer };
      this.links.push(link);
      const upper = port.device;
      const lower = this.ports[peer].device;
      const key = `${upper} ${lower}`;
      let cable = cables.get(key);
      if (cable === undefined) {
        cable = { upper, lower, links: [] };
        cables.set(key, cable);
        this.cablesOf[upper].push(this.cables.length);
        this.cablesOf[lower].push(this.cables.length);
        this.cables.push(cable);
      }
      cable.links.push(link);
    });
  }

  tierOf(port: number): number {
    return this.devices[this.ports[port].device].tier;
  }

  isSwitch(device: number): boolean {
    return this.devices[device].kind === "switch";
  }

  /** Returns the index of a port, or -1. */
  indexOf(guid: string, port: number): number {
    return this.byKey.get(portKey(guid, port)) ?? -1;
  }

  indexOfKey(key: string): number {
    return this.byKey.get(key) ?? -1;
  }

  /** Returns the index of a device, or -1. */
  deviceOf(guid: string): number {
    return this.byGuid.get(guid) ?? -1;
  }

  /** Returns the GUID of the switch of a host; undefined for a switch, and if it is not known. */
  switchOf(guid: string): string | undefined {
    const device = this.deviceOf(guid);
    if (device < 0 || this.isSwitch(device)) return undefined;
    const peers = this.portsOf[device].map((port) => this.ports[port].peer_guid);
    return peers.find((peer) => peer !== null) ?? undefined;
  }

  /** Returns the node description of a port; empty if the port is not known. */
  nodeOf(key: string): string {
    return this.ports[this.indexOfKey(key)]?.node ?? "";
  }

  keyOf(port: number): string {
    const row = this.ports[port];
    return portKey(row.guid, row.port);
  }

  /** Returns the short name of a port, such as `leaf03 / 29`. */
  nameOf(port: number): string {
    const row = this.ports[port];
    return `${row.node} / ${row.port}`;
  }

  /** Returns the name of the other end, or an empty string. */
  peerNameOf(port: number): string {
    const row = this.ports[port];
    if (row.peer_node === null) return "";
    return row.peer_port === null ? row.peer_node : `${row.peer_node} / ${row.peer_port}`;
  }

  /** Returns a name for narrow fields: one for a host or an HCA with one port. */
  shortName(port: number): string {
    const row = this.ports[port];
    if (row.kind === "switch") return `${row.node} / ${row.port}`;
    const host = hostName(row.node);
    const name = [host, row.node].find((each) => this.portsNamed.get(each) === 1);
    return name ?? `${row.node} / ${row.port}`;
  }

  /** Returns the short name of the other end, or `unknown`. */
  shortPeer(port: number): string {
    const { peer } = this.ports[port];
    if (peer !== null && peer !== undefined) return this.shortName(peer);
    return this.peerNameOf(port) || "unknown";
  }

  /** Returns the display name of a tier. */
  tierName(tier: number): string {
    if (tier === 0) return "Hosts";
    if (tier === 1) return "Leaf switches";
    if (tier === this.top) return this.top === 2 ? "Spine switches" : "Top switches";
    return `Switches of tier ${tier}`;
  }
}
