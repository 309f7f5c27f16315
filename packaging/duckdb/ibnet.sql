-- Macros that read the JSON lines of ibnet-sweep into DuckDB: ibnet_ports, ibnet_sweeps,
-- ibnet_events and ibnet_histograms. docs/recipes.md explains them. Run with DuckDB 2.0 by
-- `make test-all`.

-- Ports in files
CREATE OR REPLACE MACRO ibnet_ports(files) AS TABLE
SELECT make_timestamp_ns(ts) AS time, * EXCLUDE (type)
FROM read_json(files, format = 'newline_delimited', ignore_errors = true, columns = {
  type: 'VARCHAR', ts: 'BIGINT',
  -- ports, file: from the code
  slot: 'UBIGINT', sampler: 'VARCHAR', role: 'VARCHAR', guid: 'VARCHAR', port: 'UTINYINT',
  lid: 'USMALLINT', node: 'VARCHAR', kind: 'VARCHAR', hops: 'USMALLINT', peer_guid: 'VARCHAR',
  peer_port: 'UTINYINT', peer: 'VARCHAR', link: 'VARCHAR', link_source: 'VARCHAR', mtu: 'USMALLINT',
  vls: 'UTINYINT', mtu_cap: 'USMALLINT', vl_cap: 'UTINYINT', vl_high_limit: 'UTINYINT',
  vl_stall_count: 'UTINYINT', hoq_life: 'UTINYINT', mkey_violations: 'USMALLINT',
  pkey_violations: 'USMALLINT', qkey_violations: 'USMALLINT', status: 'VARCHAR', rtt_ns: 'UBIGINT',
  rtt_min_ns: 'UBIGINT', mads: 'UINTEGER', mad_status: 'USMALLINT', errno: 'INTEGER',
  identity: 'VARCHAR', port_xmit_data_bytes: 'UBIGINT', port_rcv_data_bytes: 'UBIGINT',
  port_xmit_pkts: 'UBIGINT', port_rcv_pkts: 'UBIGINT', port_unicast_xmit_pkts: 'UBIGINT',
  port_unicast_rcv_pkts: 'UBIGINT', port_multicast_xmit_pkts: 'UBIGINT',
  port_multicast_rcv_pkts: 'UBIGINT', symbol_error_counter: 'UBIGINT',
  link_error_recovery_counter: 'UBIGINT', link_downed_counter: 'UBIGINT',
  port_rcv_errors: 'UBIGINT', port_rcv_remote_physical_errors: 'UBIGINT',
  port_rcv_switch_relay_errors: 'UBIGINT', port_xmit_discards: 'UBIGINT',
  port_xmit_constraint_errors: 'UBIGINT', port_rcv_constraint_errors: 'UBIGINT',
  local_link_integrity_errors: 'UBIGINT', excessive_buffer_overrun_errors: 'UBIGINT',
  vl15_dropped: 'UBIGINT', port_xmit_wait_ticks: 'UBIGINT', qp1_dropped: 'UBIGINT',
  port_inactive_discards: 'UBIGINT', port_neighbor_mtu_discards: 'UBIGINT',
  port_sw_lifetime_limit_discards: 'UBIGINT', port_sw_hoq_lifetime_limit_discards: 'UBIGINT',
  port_local_physical_errors: 'UBIGINT', port_malformed_packet_errors: 'UBIGINT',
  port_buffer_overrun_errors: 'UBIGINT', port_dlid_mapping_errors: 'UBIGINT',
  port_vl_mapping_errors: 'UBIGINT', port_looping_errors: 'UBIGINT',
  port_xmit_data_sl_bytes: 'UBIGINT[]', port_rcv_data_sl_bytes: 'UBIGINT[]',
  extended_dt_slots: 'UINTEGER', base_dt_slots: 'UINTEGER', xmtdisc_dt_slots: 'UINTEGER',
  rcverr_dt_slots: 'UINTEGER', xmtsl_dt_slots: 'UINTEGER', rcvsl_dt_slots: 'UINTEGER',
  saturated: 'VARCHAR[]', clear_lost_bytes: 'UBIGINT', dt_ns: 'UBIGINT', xmit_gbps: 'DOUBLE',
  rcv_gbps: 'DOUBLE', xmit_utilization: 'DOUBLE', rcv_utilization: 'DOUBLE', xmit_blocked: 'DOUBLE',
  xmit_blocked_dt_ns: 'UBIGINT'
  -- ports, file: end
}) WHERE type = 'port';

-- Sweeps in files
CREATE OR REPLACE MACRO ibnet_sweeps(files) AS TABLE
SELECT make_timestamp_ns(ts) AS time, * EXCLUDE (type)
FROM read_json(files, format = 'newline_delimited', ignore_errors = true, columns = {
  type: 'VARCHAR', ts: 'BIGINT', slot: 'UBIGINT', sampler: 'VARCHAR', ca: 'VARCHAR',
  ca_port: 'UTINYINT', role: 'VARCHAR',
  duration_ns: 'UBIGINT', decode_ns: 'UBIGINT', ports: 'UINTEGER', ok: 'UINTEGER',
  late: 'UINTEGER', timeout: 'UINTEGER',
  unreachable: 'UINTEGER', skipped: 'UINTEGER', down: 'UINTEGER', errors: 'UINTEGER',
  mads_sent: 'UBIGINT', mads_late: 'UBIGINT',
  mads_rejected: 'UBIGINT', mads_duplicate: 'UBIGINT', mads_foreign: 'UBIGINT',
  mads_bad_length: 'UBIGINT',
  mads_bad_class: 'UBIGINT', mads_bad_attribute: 'UBIGINT', mads_bad_port: 'UBIGINT',
  mads_refused: 'UBIGINT',
  load_bytes: 'UBIGINT', slots_missed: 'UBIGINT', lines_lost: 'UBIGINT',
  rtt_p50_ns: 'UBIGINT', rtt_p99_ns: 'UBIGINT', rtt_max_ns: 'UBIGINT'
}) WHERE type = 'sweep';

-- Events in files
CREATE OR REPLACE MACRO ibnet_events(files) AS TABLE
SELECT make_timestamp_ns(ts) AS time, * EXCLUDE (type)
FROM read_json(files, format = 'newline_delimited', ignore_errors = true, columns = {
  type: 'VARCHAR', ts: 'BIGINT', slot: 'UBIGINT', sampler: 'VARCHAR', ca: 'VARCHAR',
  ca_port: 'UTINYINT', role: 'VARCHAR',
  event: 'VARCHAR', guid: 'VARCHAR', port: 'UTINYINT', lid: 'USMALLINT', detail: 'VARCHAR'
}) WHERE type = 'event';

-- Histograms in files
CREATE OR REPLACE MACRO ibnet_histograms(files) AS TABLE
SELECT make_timestamp_ns(ts) AS time, * EXCLUDE (type)
FROM read_json(files, format = 'newline_delimited', ignore_errors = true, columns = {
  type: 'VARCHAR', ts: 'BIGINT', slot: 'UBIGINT', sampler: 'VARCHAR', ca: 'VARCHAR',
  ca_port: 'UTINYINT', role: 'VARCHAR',
  kind: 'VARCHAR', device_kind: 'VARCHAR', guid: 'VARCHAR', lid: 'USMALLINT', hops: 'USMALLINT',
  system_guid: 'VARCHAR', vendor_id: 'UINTEGER', device_id: 'USMALLINT', clock_ns: 'UBIGINT',
  mean_ns: 'UBIGINT', min_ns: 'UBIGINT', count: 'UBIGINT', v2: 'VARCHAR'
}) WHERE type = 'histogram';
