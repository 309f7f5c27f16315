-- One-minute values of each port, kept for two years: mean, maximum and 95th percentile of the rates,
-- and the last value of the most used counters. Run with chdb 4.4 (ClickHouse 26.9) by `make test-all`.
--
-- A row that NATS delivers twice counts twice in `slots`, `answered`, the means and the percentiles.
-- The percentile has an error of less than 1 % of its value.

CREATE TABLE ibnet_port_1m (
  minute DateTime('UTC') CODEC(DoubleDelta, ZSTD),
  guid LowCardinality(String), port UInt8, node SimpleAggregateFunction(anyLast, String),
  slots SimpleAggregateFunction(sum, UInt64), answered SimpleAggregateFunction(sum, UInt64),
  xmit_utilization_mean AggregateFunction(avg, Nullable(Float64)),
  xmit_utilization_max SimpleAggregateFunction(max, Nullable(Float64)),
  xmit_utilization_p95 AggregateFunction(quantileDD(0.01, 0.95), Nullable(Float64)),
  rcv_utilization_mean AggregateFunction(avg, Nullable(Float64)),
  rcv_utilization_max SimpleAggregateFunction(max, Nullable(Float64)),
  rcv_utilization_p95 AggregateFunction(quantileDD(0.01, 0.95), Nullable(Float64)),
  xmit_blocked_mean AggregateFunction(avg, Nullable(Float64)),
  xmit_blocked_max SimpleAggregateFunction(max, Nullable(Float64)),
  xmit_blocked_p95 AggregateFunction(quantileDD(0.01, 0.95), Nullable(Float64)),
  port_xmit_data_bytes AggregateFunction(argMax, Nullable(UInt64), Int64),
  port_rcv_data_bytes AggregateFunction(argMax, Nullable(UInt64), Int64)
) ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(minute) ORDER BY (guid, port, minute)
TTL minute + INTERVAL 2 YEAR SETTINGS ttl_only_drop_parts = 1;

CREATE MATERIALIZED VIEW ibnet_port_1m_from_port TO ibnet_port_1m AS SELECT
  toStartOfMinute(toDateTime(intDiv(ts, 1000000000), 'UTC')) AS minute, guid, port,
  anyLast(node) AS node,
  count() AS slots, countIf(status IN ('ok', 'late')) AS answered,
  avgState(xmit_utilization) AS xmit_utilization_mean,
  max(xmit_utilization) AS xmit_utilization_max,
  quantileDDState(0.01, 0.95)(xmit_utilization) AS xmit_utilization_p95,
  avgState(rcv_utilization) AS rcv_utilization_mean,
  max(rcv_utilization) AS rcv_utilization_max,
  quantileDDState(0.01, 0.95)(rcv_utilization) AS rcv_utilization_p95,
  avgState(xmit_blocked) AS xmit_blocked_mean,
  max(xmit_blocked) AS xmit_blocked_max,
  quantileDDState(0.01, 0.95)(xmit_blocked) AS xmit_blocked_p95,
  argMaxState(port_xmit_data_bytes, ts) AS port_xmit_data_bytes,
  argMaxState(port_rcv_data_bytes, ts) AS port_rcv_data_bytes
FROM ibnet_port GROUP BY minute, guid, port;

-- The finished values: one row for each port and minute.
CREATE VIEW ibnet_port_minutes AS SELECT
  minute, guid, port, anyLast(node) AS node,
  sum(slots) AS slots, sum(answered) AS answered,
  avgMerge(xmit_utilization_mean) AS xmit_utilization_mean,
  max(xmit_utilization_max) AS xmit_utilization_max,
  quantileDDMerge(0.01, 0.95)(xmit_utilization_p95) AS xmit_utilization_p95,
  avgMerge(rcv_utilization_mean) AS rcv_utilization_mean,
  max(rcv_utilization_max) AS rcv_utilization_max,
  quantileDDMerge(0.01, 0.95)(rcv_utilization_p95) AS rcv_utilization_p95,
  avgMerge(xmit_blocked_mean) AS xmit_blocked_mean,
  max(xmit_blocked_max) AS xmit_blocked_max,
  quantileDDMerge(0.01, 0.95)(xmit_blocked_p95) AS xmit_blocked_p95,
  argMaxMerge(port_xmit_data_bytes) AS port_xmit_data_bytes,
  argMaxMerge(port_rcv_data_bytes) AS port_rcv_data_bytes
FROM ibnet_port_1m GROUP BY minute, guid, port;
