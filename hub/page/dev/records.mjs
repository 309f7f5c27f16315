// Records as samplers write them, with the default counter groups and random rates. Random rates
// compress worse than those of a real fabric.

/** Ports of a sampler: 11 switches of 11 ports. */
export const PORTS = 121;

const COUNTERS = [
  "port_xmit_data_bytes",
  "port_rcv_data_bytes",
  "port_xmit_pkts",
  "port_rcv_pkts",
  "port_unicast_xmit_pkts",
  "port_unicast_rcv_pkts",
  "port_multicast_xmit_pkts",
  "port_multicast_rcv_pkts",
  "port_xmit_wait_ticks",
  "symbol_error_counter",
  "link_error_recovery_counter",
  "link_downed_counter",
  "port_rcv_errors",
  "port_rcv_remote_physical_errors",
  "port_rcv_switch_relay_errors",
  "port_xmit_discards",
  "port_xmit_constraint_errors",
  "port_rcv_constraint_errors",
  "local_link_integrity_errors",
  "excessive_buffer_overrun_errors",
  "vl15_dropped",
  "port_inactive_discards",
  "port_neighbor_mtu_discards",
  "port_sw_lifetime_limit_discards",
  "port_sw_hoq_lifetime_limit_discards",
  "port_local_physical_errors",
  "port_malformed_packet_errors",
  "port_buffer_overrun_errors",
  "port_dlid_mapping_errors",
  "port_vl_mapping_errors",
  "port_looping_errors",
];
/** Counters that count data or waiting time; the others are constant. */
const BUSY = 9;

const guid = (number) => `0x${number.toString(16).padStart(16, "0")}`;
const name = (sampler) => `node${String(sampler + 1).padStart(5, "0")}`;
const totals = new Map();

/** Returns the start records of some samplers. */
export function startLines(samplers) {
  const ts = Date.now() * 1e6;
  return Array.from({ length: samplers }, (_, sampler) =>
    JSON.stringify({
      type: "start",
      ts,
      slot: Math.floor(ts / 1e9),
      sampler: name(sampler),
      schema: 1,
      version: "0.1.0",
      pid: 1,
      ca: "mlx5_0",
      ca_port: 1,
      role: "primary",
      interval_ns: 1e9,
      ports: PORTS,
    }),
  )
    .map((line) => `${line}\n`)
    .join("");
}

/** Returns the records of a sampler in a slot. */
export function slotLines(sampler, slot) {
  const lines = [];
  for (let index = 0; index < PORTS; index++) {
    lines.push(portLine(sampler, index, slot));
  }
  const ts = `${slot}${String(50_000_000).padStart(9, "0")}`;
  lines.push(
    `{"type":"sweep","ts":${ts},"slot":${slot},"sampler":"${name(sampler)}","ca":"mlx5_0","ca_port":1,"role":"primary","duration_ns":31000000,"ports":${PORTS},"ok":${PORTS},"late":0,"timeout":0}`,
  );
  return `${lines.join("\n")}\n`;
}

function portLine(sampler, index, slot) {
  const device = sampler * 11 + Math.floor(index / 11) + 1;
  const port = (index % 11) + 1;
  const used = Math.random();
  const received = Math.random();
  const key = sampler * PORTS + index;
  const busy = totals.get(key) ?? new Array(BUSY).fill(1e9);
  totals.set(key, busy);
  for (let each = 0; each < BUSY; each++)
    busy[each] += Math.floor(1e9 * (each % 2 === 0 ? used : received));
  const counters = COUNTERS.map((counter, each) => `"${counter}":${each < BUSY ? busy[each] : 0}`);
  const ts = `${slot}${String(1_000_000 + 200_000 * index).padStart(9, "0")}`;
  const fixed = (value) => value.toFixed(6);
  const rates = `"dt_ns":1000000000,"xmit_gbps":${fixed(100 * used)},"rcv_gbps":${fixed(100 * received)},"xmit_utilization":${fixed(used)},"rcv_utilization":${fixed(received)},"xmit_blocked":${fixed(0.2 * received)}`;
  const peer = `"peer_guid":"${guid(0x100000 + key)}","peer_port":1,"peer":"host${key} mlx5_0"`;
  return `{"type":"port","ts":${ts},"slot":${slot},"sampler":"${name(sampler)}","guid":"${guid(device)}","port":${port},"lid":${device},"node":"leaf${device}","kind":"switch","hops":2,${peer},"link":"4xEDR","link_source":"live","status":"ok","rtt_ns":${40_000 + Math.floor(9000 * used)},"rtt_min_ns":39000,"mads":2,"identity":"ok",${counters.join(",")},${rates}}`;
}
