-- Tables for the records of ibnet-sweep in ClickHouse. docs/recipes.md explains them. Run with chdb
-- 4.4 (ClickHouse 26.9) by `make test-all`.

-- Ports
CREATE TABLE ibnet_port (
  ts Int64 CODEC(DoubleDelta, ZSTD),
  time DateTime64(9, 'UTC') ALIAS fromUnixTimestamp64Nano(ts, 'UTC'),
  -- ports, table: from the code
  slot UInt64 CODEC(DoubleDelta, ZSTD), sampler LowCardinality(String),
  role LowCardinality(String) DEFAULT 'primary', guid LowCardinality(String), port UInt8,
  lid UInt16, node LowCardinality(String), kind LowCardinality(String), hops Nullable(UInt16),
  peer_guid LowCardinality(Nullable(String)), peer_port Nullable(UInt8),
  peer LowCardinality(Nullable(String)), link LowCardinality(String),
  link_source LowCardinality(String), mtu Nullable(UInt16), vls Nullable(UInt8),
  mtu_cap Nullable(UInt16), vl_cap Nullable(UInt8), vl_high_limit Nullable(UInt8),
  vl_stall_count Nullable(UInt8), hoq_life Nullable(UInt8), mkey_violations Nullable(UInt16),
  pkey_violations Nullable(UInt16), qkey_violations Nullable(UInt16), status LowCardinality(String),
  rtt_ns UInt64 CODEC(T64, ZSTD), rtt_min_ns Nullable(UInt64) CODEC(T64, ZSTD), mads UInt32,
  mad_status Nullable(UInt16), errno Nullable(Int32), identity LowCardinality(String),
  port_xmit_data_bytes Nullable(UInt64) CODEC(Delta, ZSTD),
  port_rcv_data_bytes Nullable(UInt64) CODEC(Delta, ZSTD),
  port_xmit_pkts Nullable(UInt64) CODEC(Delta, ZSTD),
  port_rcv_pkts Nullable(UInt64) CODEC(Delta, ZSTD),
  port_unicast_xmit_pkts Nullable(UInt64) CODEC(Delta, ZSTD),
  port_unicast_rcv_pkts Nullable(UInt64) CODEC(Delta, ZSTD),
  port_multicast_xmit_pkts Nullable(UInt64) CODEC(Delta, ZSTD),
  port_multicast_rcv_pkts Nullable(UInt64) CODEC(Delta, ZSTD),
  symbol_error_counter Nullable(UInt64) CODEC(Delta, ZSTD),
  link_error_recovery_counter Nullable(UInt64) CODEC(Delta, ZSTD),
  link_downed_counter Nullable(UInt64) CODEC(Delta, ZSTD),
  port_rcv_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  port_rcv_remote_physical_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  port_rcv_switch_relay_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  port_xmit_discards Nullable(UInt64) CODEC(Delta, ZSTD),
  port_xmit_constraint_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  port_rcv_constraint_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  local_link_integrity_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  excessive_buffer_overrun_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  vl15_dropped Nullable(UInt64) CODEC(Delta, ZSTD),
  port_xmit_wait_ticks Nullable(UInt64) CODEC(Delta, ZSTD),
  qp1_dropped Nullable(UInt64) CODEC(Delta, ZSTD),
  port_inactive_discards Nullable(UInt64) CODEC(Delta, ZSTD),
  port_neighbor_mtu_discards Nullable(UInt64) CODEC(Delta, ZSTD),
  port_sw_lifetime_limit_discards Nullable(UInt64) CODEC(Delta, ZSTD),
  port_sw_hoq_lifetime_limit_discards Nullable(UInt64) CODEC(Delta, ZSTD),
  port_local_physical_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  port_malformed_packet_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  port_buffer_overrun_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  port_dlid_mapping_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  port_vl_mapping_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  port_looping_errors Nullable(UInt64) CODEC(Delta, ZSTD),
  port_xmit_data_sl_bytes Array(UInt64) CODEC(ZSTD),
  port_rcv_data_sl_bytes Array(UInt64) CODEC(ZSTD), extended_dt_slots Nullable(UInt32),
  base_dt_slots Nullable(UInt32), xmtdisc_dt_slots Nullable(UInt32),
  rcverr_dt_slots Nullable(UInt32), xmtsl_dt_slots Nullable(UInt32),
  rcvsl_dt_slots Nullable(UInt32), saturated Array(LowCardinality(String)),
  clear_lost_bytes Nullable(UInt64) CODEC(T64, ZSTD), dt_ns Nullable(UInt64) CODEC(T64, ZSTD),
  xmit_gbps Nullable(Float64) CODEC(ZSTD), rcv_gbps Nullable(Float64) CODEC(ZSTD),
  xmit_utilization Nullable(Float64) CODEC(ZSTD), rcv_utilization Nullable(Float64) CODEC(ZSTD),
  xmit_blocked Nullable(Float64) CODEC(ZSTD), xmit_blocked_dt_ns Nullable(UInt64) CODEC(T64, ZSTD)
  -- ports, table: end
) ENGINE = MergeTree
PARTITION BY toDate(toDateTime(intDiv(ts, 1000000000), 'UTC')) ORDER BY (guid, port, ts)
TTL toDateTime(intDiv(ts, 1000000000), 'UTC') + INTERVAL 30 DAY SETTINGS ttl_only_drop_parts = 1;

-- Sweeps
CREATE TABLE ibnet_sweep (
  ts Int64 CODEC(DoubleDelta, ZSTD),
  time DateTime64(9, 'UTC') ALIAS fromUnixTimestamp64Nano(ts, 'UTC'),
  slot UInt64 CODEC(DoubleDelta, ZSTD), sampler LowCardinality(String), ca LowCardinality(String),
  ca_port UInt8,
  role LowCardinality(String),
  duration_ns UInt64, decode_ns UInt64, ports UInt32, ok UInt32, late UInt32, timeout UInt32,
  unreachable UInt32, skipped UInt32, down UInt32,
  errors UInt32, mads_sent UInt64, mads_late UInt64, mads_rejected UInt64, mads_duplicate UInt64,
  mads_foreign UInt64,
  mads_bad_length UInt64, mads_bad_class UInt64, mads_bad_attribute UInt64, mads_bad_port UInt64,
  mads_refused UInt64,
  load_bytes UInt64, slots_missed UInt64, lines_lost UInt64,
  rtt_p50_ns Nullable(UInt64), rtt_p99_ns Nullable(UInt64), rtt_max_ns Nullable(UInt64)
) ENGINE = MergeTree ORDER BY (sampler, ca, ca_port, role, ts)
TTL toDateTime(intDiv(ts, 1000000000), 'UTC') + INTERVAL 1 YEAR;

-- Events
CREATE TABLE ibnet_event (
  ts Int64 CODEC(DoubleDelta, ZSTD),
  time DateTime64(9, 'UTC') ALIAS fromUnixTimestamp64Nano(ts, 'UTC'),
  slot UInt64, sampler LowCardinality(String), ca LowCardinality(String), ca_port UInt8,
  role LowCardinality(String), event LowCardinality(String),
  guid Nullable(String), port Nullable(UInt8), lid Nullable(UInt16), detail String
) ENGINE = MergeTree ORDER BY (event, ts)
TTL toDateTime(intDiv(ts, 1000000000), 'UTC') + INTERVAL 1 YEAR;

-- Histograms
CREATE TABLE ibnet_histogram (
  ts Int64 CODEC(DoubleDelta, ZSTD),
  time DateTime64(9, 'UTC') ALIAS fromUnixTimestamp64Nano(ts, 'UTC'),
  slot UInt64, sampler LowCardinality(String), ca LowCardinality(String), ca_port UInt8,
  role LowCardinality(String), kind LowCardinality(String),
  device_kind LowCardinality(Nullable(String)), guid Nullable(String), lid Nullable(UInt16),
  hops Nullable(UInt16), system_guid Nullable(String), vendor_id Nullable(UInt32),
  device_id Nullable(UInt16), clock_ns UInt64, mean_ns UInt64, min_ns Nullable(UInt64),
  count UInt64, v2 String
) ENGINE = MergeTree ORDER BY (sampler, kind, ts)
TTL toDateTime(intDiv(ts, 1000000000), 'UTC') + INTERVAL 90 DAY;
