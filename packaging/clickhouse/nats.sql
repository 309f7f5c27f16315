-- Records from NATS JetStream into the tables of tables.sql, for `batch = "slot"` without `compress`:
-- ClickHouse does not decompress payloads.
--
-- ClickHouse 25.8 and later read from JetStream. Until 26.7, the table stops reading when the NATS
-- server restarts, until DETACH TABLE and ATTACH TABLE (ClickHouse issue 96651).
--
-- The stream and its consumer exist already. The consumer delivers a message again that ClickHouse
-- has not acknowledged, so rows can come twice. rollup.sql and queries with max and min are not
-- affected; `SELECT DISTINCT`, or ReplacingMergeTree in tables.sql, removes the copies of others.
--
--   nats stream add IBNET --subjects 'ibnet.>' --storage file --max-age 2d --defaults
--   nats consumer add IBNET clickhouse --pull --ack explicit --filter 'ibnet.*.*.batch' \
--     --max-pending 2000 --wait 5m --defaults
--
-- NOT RUN by the tests: the engine NATS, because chdb does not have it. chdb parses its settings, and
-- runs all other statements of this file, with the engine Null in its place.

CREATE TABLE ibnet_nats (
  type String, ts Int64,
  -- ports, stream: from the code
  slot UInt64, sampler LowCardinality(String), role String DEFAULT 'primary', guid Nullable(String),
  port Nullable(UInt8), lid Nullable(UInt16), node LowCardinality(String),
  kind LowCardinality(String), hops Nullable(UInt16), peer_guid LowCardinality(Nullable(String)),
  peer_port Nullable(UInt8), peer LowCardinality(Nullable(String)), link LowCardinality(String),
  link_source LowCardinality(String), mtu Nullable(UInt16), vls Nullable(UInt8),
  mtu_cap Nullable(UInt16), vl_cap Nullable(UInt8), vl_high_limit Nullable(UInt8),
  vl_stall_count Nullable(UInt8), hoq_life Nullable(UInt8), mkey_violations Nullable(UInt16),
  pkey_violations Nullable(UInt16), qkey_violations Nullable(UInt16), status LowCardinality(String),
  rtt_ns UInt64, rtt_min_ns Nullable(UInt64), mads UInt32, mad_status Nullable(UInt16),
  errno Nullable(Int32), identity LowCardinality(String), port_xmit_data_bytes Nullable(UInt64),
  port_rcv_data_bytes Nullable(UInt64), port_xmit_pkts Nullable(UInt64),
  port_rcv_pkts Nullable(UInt64), port_unicast_xmit_pkts Nullable(UInt64),
  port_unicast_rcv_pkts Nullable(UInt64), port_multicast_xmit_pkts Nullable(UInt64),
  port_multicast_rcv_pkts Nullable(UInt64), symbol_error_counter Nullable(UInt64),
  link_error_recovery_counter Nullable(UInt64), link_downed_counter Nullable(UInt64),
  port_rcv_errors Nullable(UInt64), port_rcv_remote_physical_errors Nullable(UInt64),
  port_rcv_switch_relay_errors Nullable(UInt64), port_xmit_discards Nullable(UInt64),
  port_xmit_constraint_errors Nullable(UInt64), port_rcv_constraint_errors Nullable(UInt64),
  local_link_integrity_errors Nullable(UInt64), excessive_buffer_overrun_errors Nullable(UInt64),
  vl15_dropped Nullable(UInt64), port_xmit_wait_ticks Nullable(UInt64),
  qp1_dropped Nullable(UInt64), port_inactive_discards Nullable(UInt64),
  port_neighbor_mtu_discards Nullable(UInt64), port_sw_lifetime_limit_discards Nullable(UInt64),
  port_sw_hoq_lifetime_limit_discards Nullable(UInt64), port_local_physical_errors Nullable(UInt64),
  port_malformed_packet_errors Nullable(UInt64), port_buffer_overrun_errors Nullable(UInt64),
  port_dlid_mapping_errors Nullable(UInt64), port_vl_mapping_errors Nullable(UInt64),
  port_looping_errors Nullable(UInt64), port_xmit_data_sl_bytes Array(UInt64),
  port_rcv_data_sl_bytes Array(UInt64), extended_dt_slots Nullable(UInt32),
  base_dt_slots Nullable(UInt32), xmtdisc_dt_slots Nullable(UInt32),
  rcverr_dt_slots Nullable(UInt32), xmtsl_dt_slots Nullable(UInt32),
  rcvsl_dt_slots Nullable(UInt32), saturated Array(LowCardinality(String)),
  clear_lost_bytes Nullable(UInt64), dt_ns Nullable(UInt64), xmit_gbps Nullable(Float64),
  rcv_gbps Nullable(Float64), xmit_utilization Nullable(Float64), rcv_utilization Nullable(Float64),
  xmit_blocked Nullable(Float64), xmit_blocked_dt_ns Nullable(UInt64)
  -- ports, stream: end
  , ca LowCardinality(String), ca_port UInt8,
  duration_ns UInt64, decode_ns UInt64, ports UInt32, ok UInt32, late UInt32, timeout UInt32,
  unreachable UInt32, skipped UInt32, down UInt32, errors UInt32, mads_sent UInt64,
  mads_late UInt64, mads_rejected UInt64, mads_duplicate UInt64, mads_foreign UInt64,
  mads_bad_length UInt64, mads_bad_class UInt64, mads_bad_attribute UInt64, mads_bad_port UInt64,
  mads_refused UInt64, load_bytes UInt64, slots_missed UInt64, lines_lost UInt64,
  rtt_p50_ns Nullable(UInt64), rtt_p99_ns Nullable(UInt64), rtt_max_ns Nullable(UInt64),
  event LowCardinality(String), detail String, device_kind LowCardinality(Nullable(String)),
  system_guid Nullable(String), vendor_id Nullable(UInt32), device_id Nullable(UInt16),
  clock_ns UInt64, mean_ns UInt64, min_ns Nullable(UInt64), count UInt64, v2 String
) ENGINE = NATS SETTINGS
  nats_url = 'nats.example:4222', nats_stream = 'IBNET', nats_consumer_name = 'clickhouse',
  nats_subjects = 'ibnet.*.*.batch', nats_format = 'JSONEachRow',
  nats_max_block_size = 65536, nats_flush_interval_ms = 1000;

CREATE MATERIALIZED VIEW ibnet_port_from_nats TO ibnet_port AS SELECT
  ts,
  -- ports, stream to table: from the code
  slot, sampler, role, assumeNotNull(guid) AS guid, assumeNotNull(port) AS port,
  assumeNotNull(lid) AS lid, node, kind, hops, peer_guid, peer_port, peer, link, link_source, mtu,
  vls, mtu_cap, vl_cap, vl_high_limit, vl_stall_count, hoq_life, mkey_violations, pkey_violations,
  qkey_violations, status, rtt_ns, rtt_min_ns, mads, mad_status, errno, identity,
  port_xmit_data_bytes, port_rcv_data_bytes, port_xmit_pkts, port_rcv_pkts, port_unicast_xmit_pkts,
  port_unicast_rcv_pkts, port_multicast_xmit_pkts, port_multicast_rcv_pkts, symbol_error_counter,
  link_error_recovery_counter, link_downed_counter, port_rcv_errors,
  port_rcv_remote_physical_errors, port_rcv_switch_relay_errors, port_xmit_discards,
  port_xmit_constraint_errors, port_rcv_constraint_errors, local_link_integrity_errors,
  excessive_buffer_overrun_errors, vl15_dropped, port_xmit_wait_ticks, qp1_dropped,
  port_inactive_discards, port_neighbor_mtu_discards, port_sw_lifetime_limit_discards,
  port_sw_hoq_lifetime_limit_discards, port_local_physical_errors, port_malformed_packet_errors,
  port_buffer_overrun_errors, port_dlid_mapping_errors, port_vl_mapping_errors, port_looping_errors,
  port_xmit_data_sl_bytes, port_rcv_data_sl_bytes, extended_dt_slots, base_dt_slots,
  xmtdisc_dt_slots, rcverr_dt_slots, xmtsl_dt_slots, rcvsl_dt_slots, saturated, clear_lost_bytes,
  dt_ns, xmit_gbps, rcv_gbps, xmit_utilization, rcv_utilization, xmit_blocked, xmit_blocked_dt_ns
  -- ports, stream to table: end
FROM ibnet_nats WHERE type = 'port';

CREATE MATERIALIZED VIEW ibnet_sweep_from_nats TO ibnet_sweep AS SELECT
  ts, slot, sampler, ca, ca_port, role, duration_ns, decode_ns, ports, ok, late, timeout,
  unreachable, skipped, down, errors, mads_sent, mads_late, mads_rejected, mads_duplicate,
  mads_foreign, mads_bad_length, mads_bad_class, mads_bad_attribute, mads_bad_port, mads_refused,
  load_bytes, slots_missed, lines_lost, rtt_p50_ns, rtt_p99_ns, rtt_max_ns
FROM ibnet_nats WHERE type = 'sweep';

CREATE MATERIALIZED VIEW ibnet_event_from_nats TO ibnet_event AS SELECT
  ts, slot, sampler, ca, ca_port, role, event, guid, port, lid, detail
FROM ibnet_nats WHERE type = 'event';

CREATE MATERIALIZED VIEW ibnet_histogram_from_nats TO ibnet_histogram AS SELECT
  ts, slot, sampler, ca, ca_port, role, kind, device_kind, guid, lid, hops, system_guid,
  vendor_id, device_id, clock_ns, mean_ns, min_ns, count, v2
FROM ibnet_nats WHERE type = 'histogram';
