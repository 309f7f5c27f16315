// A generated fat tree with traffic, for work on the page without a hub. All values are functions
// of the port and the slot, so the past of any length is available.

export const INTERVAL = 1e9;
const NO_ANSWER = 65534;
const LINK_DOWN = 65533;
const INCAST_PERIOD = 60;
const INCAST_LENGTH = 24;

/** Mixes two numbers to a share, 0 to 1. */
function noise(a, b) {
  let x = Math.imul(a ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(b + 0x7f4a7c15, 0xc2b2ae35);
  x ^= x >>> 15;
  x = Math.imul(x, 0x2c1b3c6d);
  x ^= x >>> 12;
  return (x >>> 0) / 2 ** 32;
}

/** Noise that changes slowly. */
function smooth(a, slot, length) {
  const at = slot / length;
  const below = Math.floor(at);
  const part = at - below;
  return noise(a, below) * (1 - part) + noise(a, below + 1) * part;
}

export class Fabric {
  constructor({ leaves = 16, hosts = 24, spines = 6, cables = 2 } = {}) {
    Object.assign(this, { leaves, hosts, spines, cables });
    this.devices = [];
    this.ports = [];
    this.start = Math.floor(Date.now() / 1000) - 900;
    this.build();
  }

  build() {
    const guid = (kind, number) =>
      `0x${(0x200000 * kind + number * 16).toString(16).padStart(16, "0")}`;
    const name = (text, number, digits = 2) => text + String(number + 1).padStart(digits, "0");
    let lid = 1;
    const device = (node, kind, tier, id) => {
      this.devices.push({ guid: id, node, kind, tier, lid: lid++ });
      return this.devices.length - 1;
    };
    const storage = 4;
    const spine = Array.from({ length: this.spines }, (_, i) =>
      device(name("core", i), "switch", 2, guid(3, i)),
    );
    const leaf = Array.from({ length: this.leaves }, (_, i) =>
      device(
        i < this.leaves - storage
          ? name("leaf", i, this.leaves > 99 ? 3 : 2)
          : name("io", i - this.leaves + storage),
        "switch",
        1,
        guid(2, i),
      ),
    );
    let number = 0;
    const host = leaf.map((_, i) =>
      Array.from(
        { length: i < this.leaves - storage ? this.hosts : Math.min(8, this.hosts) },
        (_, j) =>
          device(
            i < this.leaves - storage
              ? `${name("node", number++, 5)} mlx5_0`
              : `${name("oss", j)} mlx5_${i - this.leaves + storage}`,
            "hca",
            0,
            guid(1, i * 64 + j),
          ),
      ),
    );
    const port = (index, num) => {
      const { guid: id, node, kind } = this.devices[index];
      this.ports.push({
        guid: id,
        port: num,
        node,
        kind,
        device: index,
        peer: null,
        peer_guid: null,
        peer_port: null,
        peer_node: null,
        link: "4xEDR",
        gbps: 100,
        sampler: `node${String((this.ports.length % 8) * 24 + 1).padStart(5, "0")}`,
      });
      return this.ports.length - 1;
    };
    const used = this.devices.map(() => 0);
    const join = (a, b) => {
      const x = port(a, ++used[a]);
      const y = port(b, ++used[b]);
      for (const [me, other] of [
        [x, y],
        [y, x],
      ]) {
        const peer = this.ports[other];
        Object.assign(this.ports[me], {
          peer: other,
          peer_guid: peer.guid,
          peer_port: peer.port,
          peer_node: peer.node,
        });
      }
    };
    for (const [i, index] of leaf.entries()) for (const each of host[i]) join(index, each);
    for (const index of leaf) {
      for (const each of spine) for (let cable = 0; cable < this.cables; cable++) join(each, index);
    }
    // As the hub does: a host belongs to the block of rows of its leaf switch.
    for (const each of this.ports) {
      each.group = each.kind === "switch" ? each.node : this.ports[each.peer].node;
    }
    this.deadLeaf = this.leaves - storage - 2;
    this.dead = new Set([leaf[this.deadLeaf], ...host[this.deadLeaf]]);
    this.byKey = new Map(this.ports.map((each, index) => [`${each.guid}/${each.port}`, index]));
    // The root of the incast is the port of the last storage switch to its third host.
    this.root =
      this.ports[
        this.find(
          this.devices[host[this.leaves - 1][Math.min(2, host[this.leaves - 1].length - 1)]].guid,
          1,
        )
      ].peer;
    this.senders = new Set(leaf.slice(0, 4));
    this.target = leaf[this.leaves - 1];
    this.flapping = this.ports.findIndex(
      (each) => each.device === leaf[1] && each.peer_node?.startsWith("core03"),
    );
    this.hostile();
  }

  /** One host has a name that attacks the page. */
  hostile() {
    const index = this.devices.findIndex((each) => each.node.startsWith("node00007"));
    if (index < 0) return;
    const node = `<img src=x onerror="window.attacked=1">'"\u202e`;
    this.devices[index].node = node;
    for (const each of this.ports) {
      if (each.device === index) each.node = node;
      if (each.peer !== null && this.ports[each.peer].device === index) each.peer_node = node;
    }
  }

  find(guid, port) {
    return (
      this.byKey?.get(`${guid}/${port}`) ??
      this.ports.findIndex((each) => each.guid === guid && each.port === port)
    );
  }

  incast(slot) {
    return slot % INCAST_PERIOD < INCAST_LENGTH;
  }

  flaps(slot) {
    return slot % 47 < 6;
  }

  /** Returns the code of a port. */
  code(port, slot, metric) {
    const row = this.ports[port];
    if (this.dead.has(row.device)) return NO_ANSWER;
    if ((port === this.flapping || row.peer === this.flapping) && this.flaps(slot))
      return LINK_DOWN;
    if (row.peer !== null && this.dead.has(this.ports[row.peer].device)) return LINK_DOWN;
    const share =
      metric === "xmit_blocked" ? this.blocked(port, slot) : this.used(port, slot, metric);
    return Math.round(64000 * Math.max(0, Math.min(1, share)));
  }

  used(port, slot, metric) {
    const row = this.ports[port];
    if (metric === "rcv_utilization" && row.peer !== null) return this.used(row.peer, slot, "");
    if (port === this.root && this.incast(slot)) return 0.985 + 0.01 * noise(port, slot);
    const busy = this.devices[row.device].tier === 0 ? 0.35 : 0.45;
    const job = smooth(row.device + 77, slot, 120) ** 2;
    const own = smooth(port, slot, 25) ** 3;
    const wave = 0.5 + 0.5 * Math.sin((slot + port * 3) / 9);
    return (
      busy * (0.45 * job + 0.5 * own + 0.12 * wave) +
      0.02 * noise(port, slot) +
      0.25 * (own > 0.7 ? own : 0)
    );
  }

  blocked(port, slot) {
    const row = this.ports[port];
    if (!this.incast(slot) || port === this.root)
      return noise(port, slot) < 0.01 ? 0.05 * noise(slot, port) : 0;
    const peer = row.peer === null ? null : this.ports[row.peer];
    const depth = this.depth(row, peer);
    return depth === 0 ? 0.004 * noise(port, slot) : 0.86 - 0.16 * depth + 0.08 * noise(port, slot);
  }

  /** Returns the number of links between a port and the root of the incast; 0 if it is no victim. */
  depth(row, peer) {
    if (peer === null) return 0;
    if (
      row.node.startsWith("core") &&
      peer.device === this.target &&
      ["core01", "core02", "core05", "core06"].includes(row.node)
    )
      return 1;
    if (
      this.senders.has(row.device) &&
      ["core01", "core02", "core05", "core06"].includes(peer.node)
    )
      return 2;
    if (this.senders.has(peer.device) && row.kind === "hca" && Number(row.guid.at(-2)) % 3 === 0)
      return 3;
    return 0;
  }

  name(port) {
    const { guid, port: num, node } = this.ports[port];
    return { guid, port: num, node };
  }

  trees(slot) {
    const active = Math.min(INCAST_LENGTH, slot % INCAST_PERIOD);
    if (active === 0) return [];
    const victims = [];
    this.ports.forEach((row, port) => {
      const peer = row.peer === null ? null : this.ports[row.peer];
      const depth = port === this.root || this.dead.has(row.device) ? 0 : this.depth(row, peer);
      if (depth === 0) return;
      const next =
        depth === 1
          ? this.root
          : this.ports.findIndex(
              (each, index) =>
                each.device === peer.device &&
                this.depth(each, each.peer === null ? null : this.ports[each.peer]) === depth - 1 &&
                index !== port,
            );
      const seconds = active * (0.86 - 0.16 * depth);
      victims.push({
        ...this.name(port),
        to: row.peer === null ? null : this.name(row.peer),
        is_host: row.kind === "hca",
        waits_for: this.name(next < 0 ? this.root : next),
        depth,
        seconds: active,
        blocked_seconds: seconds,
        used_seconds: active * 0.3,
      });
    });
    const hosts = victims.filter((each) => each.is_host).length;
    return [
      {
        root: this.name(this.root),
        to: this.name(this.ports[this.root].peer),
        link: "4xEDR",
        why: "full",
        confidence: "high",
        ports_beyond: 0,
        since_ns: (slot - active) * INTERVAL,
        until_ns: slot * INTERVAL,
        seconds: active,
        xmit_utilization: 0.988,
        blocked: 0,
        held_up_seconds: victims.reduce((sum, each) => sum + each.blocked_seconds, 0),
        host_ports: hosts,
        switch_ports: victims.length - hosts,
        regions: [this.region(slot - active, slot, victims)],
        victims,
      },
    ];
  }

  /** Returns the region of a tree, which began 40 s before the tree. */
  region(since, until, victims) {
    const hosts = victims.filter((each) => each.is_host).length;
    const root = this.name(this.root);
    const job = (job, causes, share) => ({
      job,
      causes,
      host_ports: 2,
      blocked_seconds: 30,
      share,
    });
    return {
      region: `${root.node}/${root.port}@${since - 40}`,
      root,
      to: this.name(this.ports[this.root].peer),
      why: "full",
      confidence: "high",
      ports_beyond: 0,
      other_ways: null,
      other_ways_utilization: null,
      since_ns: (since - 40) * INTERVAL,
      until_ns: until * INTERVAL,
      xmit_utilization: 0.988,
      held_up_seconds: victims.reduce((sum, each) => sum + each.blocked_seconds, 40),
      host_ports: hosts,
      switch_ports: victims.length - hosts,
      jobs: [job("4711", true, 0.7), job("<img", false, 0.02)],
    };
  }

  errors(slot) {
    const rows = [];
    const since = (this.start + 300) * 1e9;
    const row = (port, what, increase = null) => ({
      ...this.name(port),
      peer: this.ports[port].peer === null ? null : this.name(this.ports[port].peer),
      link: "4xEDR",
      what,
      increase,
      is_lower_bound: false,
      rate: increase === null ? null : increase / 60,
      value: increase === null ? null : increase + 41,
      since_ns: since,
      began_in_range: true,
      devices_behind: 0,
      behind: [],
    });
    const dead = this.devices.find(
      (each) => each.kind === "switch" && this.dead.has(this.devices.indexOf(each)),
    );
    rows.push({
      ...row(0, "unreachable"),
      guid: dead.guid,
      port: 0,
      node: dead.node,
      peer: null,
      link: null,
      devices_behind: this.hosts,
    });
    rows.push(row(this.flapping, this.flaps(slot) ? "link_down" : "flapping"));
    rows.push(row(this.root, "port_xmit_discards", 1800 + (slot % 60) * 12));
    rows.push(row(33, "symbol_error_counter", 17));
    rows.push(row(120 % this.ports.length, "degraded"));
    return rows;
  }
}
