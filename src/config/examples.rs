//! An example of a valid value for each key, which messages show.

/// The keys of a configuration file.
#[derive(Debug)]
pub struct Keys {
    /// Name of the file that lists every key.
    pub file: &'static str,
    /// Keys with the names of their tables, each with a valid value as in the file.
    pub examples: &'static [&'static [(&'static str, &'static str)]],
}

/// The keys of `ibnet.toml`.
pub(super) static KEYS: Keys = Keys {
    file: "ibnet.toml.example",
    examples: &[EXAMPLES, SIMULATED],
};

/// The keys of the table `[simulated]`.
pub const SIMULATED: &[(&str, &str)] = &[
    ("simulated.scenario", "\"incast\""),
    ("simulated.scenario_start", "\"5s\""),
    ("simulated.scenario_length", "\"10s\""),
    ("simulated.loss", "0.01"),
    ("simulated.wide_counters", "\"switches\""),
    ("simulated.dead", "[\"node007\", \"leaf03\"]"),
    ("simulated.links_down", "3"),
    ("simulated.smps_by_lid", "false"),
    ("simulated.planes", "4"),
    ("simulated.seed", "1"),
];

/// The other keys.
const EXAMPLES: &[(&str, &str)] = &[
    ("assignments", "\"/etc/ibnet/plan.toml\""),
    ("net", "\"fabric.p\""),
    ("sampler", "\"node001\""),
    ("interval", "\"1s\""),
    ("groups", "[\"extended\", \"base/1s\"]"),
    ("wait_every", "1"),
    ("force_groups", "[\"xmtdisc\"]"),
    ("clear", "[\"xmtsl\", \"rcvsl\"]"),
    ("identity", "\"1m\""),
    ("window", "32"),
    ("peers", "true"),
    ("max_mads_per_second", "50000"),
    ("timeout", "\"5ms\""),
    ("grace", "\"50ms\""),
    ("ca", "\"mlx5_0:1\""),
    ("cpus", "[2, 3]"),
    ("sl", "0"),
    ("pkey", "\"0xffff\""),
    ("smp", "\"directed\""),
    ("traps", "true"),
    ("output", "\"/var/log/ibnet/lines.jsonl\""),
    ("drain", "\"4s\""),
    ("simulate", "\"fabric.p\""),
    ("metrics.listen", "\"127.0.0.1:9315\""),
    ("metrics.tls_cert", "\"/etc/ibnet/metrics.crt\""),
    ("metrics.tls_key", "\"/etc/ibnet/metrics.key\""),
    ("metrics.password_file", "\"/etc/ibnet/metrics.password\""),
    ("metrics.plain_http", "\"10.1.0.0/16\""),
    ("metrics.secondary", "false"),
    ("metrics.families", "[\"infiniband_*\", \"ibnet_*\"]"),
    ("links.state", "true"),
    ("routes.enabled", "true"),
    ("physical.enabled", "true"),
    ("physical.every", "\"1m\""),
    ("physical.bit_errors_every", "\"30s\""),
    ("physical.modules_every", "\"5m\""),
    ("physical.sensors_every", "\"1m\""),
    ("physical.planes_every", "\"10m\""),
    ("physical.budget", "0.03"),
    ("physical.timeout", "\"500ms\""),
    ("plan_server.user", "\"ibnet\""),
    ("plan_server.password_file", "\"/etc/ibnet/nats.password\""),
    ("plan_server.credentials", "\"/etc/ibnet/nats.creds\""),
    ("plan_server.ca_file", "\"/etc/ibnet/ca.pem\""),
    ("plan_server.cert_file", "\"/etc/ibnet/client.pem\""),
    ("plan_server.key_file", "\"/etc/ibnet/client.key\""),
    ("plan_server.copy", "\"/var/lib/ibnet/plan.toml\""),
    ("output.type", "\"file\""),
    ("output.path", "\"/var/log/ibnet/lines.jsonl\""),
    ("output.rotate_mib", "1024"),
    ("output.rotate_every", "\"1h\""),
    ("output.compress", "true"),
    ("output.keep", "24"),
    ("output.keep_age", "\"14d\""),
    ("output.keep_total", "\"50GiB\""),
    ("output.listen", "\"9331\""),
    ("output.readers", "16"),
    ("output.server", "\"nats://nats.example:4222\""),
    ("output.fabric", "\"fabric\""),
    ("output.user", "\"ibnet\""),
    ("output.password_file", "\"/etc/ibnet/nats.password\""),
    ("output.credentials", "\"/etc/ibnet/nats.creds\""),
    ("output.ca_file", "\"/etc/ibnet/ca.pem\""),
    ("output.cert_file", "\"/etc/ibnet/client.pem\""),
    ("output.key_file", "\"/etc/ibnet/client.key\""),
    ("output.batch", "\"slot\""),
    ("output.create", "true"),
    ("output.spool", "\"/var/lib/ibnet/spool\""),
    ("output.spool_max", "\"10GiB\""),
    ("output.buffer_mib", "64"),
];

impl Keys {
    /// Returns a line that sets the key to a valid value, such as `window = 32`. `key` contains
    /// the name of its table: `output.keep`.
    pub fn example(&self, key: &str) -> Option<String> {
        let (_, value) = self.iter().find(|(name, _)| *name == key)?;
        Some(format!(
            "{} = {value}",
            key.rsplit('.').next().unwrap_or(key)
        ))
    }

    /// Returns whether a key or a table exists. `key` contains the name of its table.
    pub(super) fn has(&self, key: &str) -> bool {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        self.names(table).contains(&name)
    }

    /// Returns the keys of a table or, if `table` is empty, the keys and tables of the file.
    pub(super) fn names(&self, table: &str) -> Vec<&'static str> {
        let inside = |name: &'static str| {
            if table.is_empty() {
                Some(name)
            } else {
                name.strip_prefix(table)?.strip_prefix('.')
            }
        };
        self.iter()
            .filter_map(|(name, _)| inside(name)?.split('.').next())
            .collect()
    }

    fn iter(&self) -> impl Iterator<Item = &'static (&'static str, &'static str)> + use<> {
        self.examples.iter().copied().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::super::Raw;
    use super::super::output::{Outputs, TYPES};
    use super::*;

    /// Returns the keys of a table. `within` is its name with a dot, or empty.
    fn keys(table: &toml::Table, within: &str) -> Vec<String> {
        table
            .iter()
            .filter(|(_, value)| !value.is_table())
            .map(|(key, _)| format!("{within}{key}"))
            .collect()
    }

    #[test]
    fn every_key_has_an_example_that_is_valid() {
        let defaults = toml::Table::try_from(Raw::default()).expect("it serializes");
        let mut expected = keys(&defaults, "");
        for inner in [
            "simulated",
            "metrics",
            "plan_server",
            "links",
            "routes",
            "physical",
        ] {
            expected.extend(keys(
                defaults[inner].as_table().expect("a table"),
                &format!("{inner}."),
            ));
        }
        let mut of_outputs: Vec<_> = TYPES
            .iter()
            .flat_map(|(_, keys)| *keys)
            .chain(&["type", "buffer_mib"])
            .map(|key| format!("output.{key}"))
            .collect();
        of_outputs.sort();
        of_outputs.dedup();
        expected.extend(of_outputs);
        let mut found: Vec<_> = KEYS.iter().map(|(key, _)| (*key).to_owned()).collect();
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
        for key in found {
            let line = KEYS.example(&key).expect("it has one");
            let text = match key.split_once('.') {
                Some(("output", "type")) => format!("[[output]]\n{line}\n"),
                Some(("output", _)) => format!("[[output]]\ntype = \"x\"\n{line}\n"),
                Some((table, _)) => format!("[{table}]\n{line}\n"),
                None => format!("{line}\n"),
            };
            let raw: Raw = toml::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
            if !key.contains('.') {
                let net = if ["net", "assignments"].contains(&&*key) {
                    raw.net.clone()
                } else {
                    "fabric.p".to_owned()
                };
                // Only groups that are queried can be cleared.
                let groups = [raw.groups, raw.clear.clone()].concat();
                Raw { net, groups, ..raw }
                    .check()
                    .unwrap_or_else(|error| panic!("{text}: {error}"));
            } else {
                assert!(matches!(raw.output, Outputs::Tables(_)) == key.starts_with("output."));
            }
        }
    }
}
