-- Tables of ports on several machines: each shard has a part of the ports, each replica has a copy of
-- its shard. Use it in place of the table ibnet_port of tables.sql; the other tables are small and
-- need replicas only.
--
-- NOT RUN by the tests: it needs ClickHouse Keeper, a cluster `ibnet` in `remote_servers`, and the
-- macros {shard} and {replica}. chdb parses all statements, and runs the first one without its
-- replicas.
--
-- A port always goes to the same shard, because the key of a shard is its GUID. A query of one port
-- then reads one shard (optimize_skip_unused_shards = 1). ReplicatedReplacingMergeTree removes rows
-- that NATS delivered twice, because the sorting key is the key of a record.

CREATE TABLE ibnet_port_local ON CLUSTER ibnet AS ibnet_port
ENGINE = ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/ibnet_port', '{replica}')
PARTITION BY toDate(toDateTime(intDiv(ts, 1000000000), 'UTC')) ORDER BY (guid, port, ts, sampler)
TTL toDateTime(intDiv(ts, 1000000000), 'UTC') + INTERVAL 30 DAY SETTINGS ttl_only_drop_parts = 1;

CREATE TABLE ibnet_port_all ON CLUSTER ibnet AS ibnet_port
ENGINE = Distributed('ibnet', currentDatabase(), 'ibnet_port_local', cityHash64(guid));

-- In nats.sql, let ibnet_port_from_nats write TO ibnet_port_all on one machine, or on each machine
-- with one durable consumer for all: JetStream gives each message to one of them.
