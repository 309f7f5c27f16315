//! The expected cost of a plan, for `suggest`.

use std::fmt::{self, Write};
use std::time::Duration;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use ibnet::config::{self, ConfigError};
use ibnet::cost::{Cost, DeviceLoad, PhysicalCost, PlanCost, Sampling};
use ibnet::partition::{Plan, Share, Weights};
use ibnet::sweep::engine::PhysicalConfig;
use ibnet::topology::Fabric;
use ibnet_record::types::{NodeKind, Printable};

/// Rates that `suggest` tries, in sweeps per second, the highest first.
const RATES: [f64; 10] = [100.0, 50.0, 20.0, 10.0, 5.0, 2.0, 1.0, 0.5, 0.2, 0.1];

/// Max number of rows of the table.
const MAX_ROWS: usize = 40;

#[derive(Debug, clap::Args)]
pub(crate) struct CostArgs {
    /// Sweeps per second for which the cost is computed, such as 10; without --cap, the cap becomes
    /// smaller if one sampler is not fast enough for 150 ports at this rate [default: 1]
    #[arg(long, value_name = "HZ", value_parser = rate)]
    rate: Option<f64>,
    /// Counter groups of the sweep, as for ibnet-sweep [default: its default groups]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    groups: Option<Vec<String>>,
}

/// Parses sweeps per second. The limits are those of the key `interval`.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text
        .strip_suffix("Hz")
        .unwrap_or(text)
        .trim_end()
        .parse()
        .ok();
    rate.filter(|rate| (1.0 / 3600.0..=100.0).contains(rate))
        .ok_or_else(|| "expected sweeps per second, from 0.0003 to 100".to_owned())
}

/// The sweep whose cost is computed: the defaults of `ibnet-sweep` with the given groups.
pub(crate) struct Sweep {
    raw: config::Raw,
    rate: f64,
    config: config::Config,
}

impl CostArgs {
    /// Returns the sweep with these arguments.
    pub(crate) fn sweep(&self) -> Result<Sweep, ConfigError> {
        let defaults = config::Raw::default();
        let groups = self
            .groups
            .clone()
            .unwrap_or_else(|| defaults.groups.clone());
        // The name is a placeholder and is never used.
        let raw = config::Raw {
            net: "-".to_owned(),
            groups,
            ..defaults
        };
        let rate = self.rate.unwrap_or(1.0);
        Ok(Sweep {
            config: at_rate(&raw, rate)?,
            raw,
            rate,
        })
    }
}

fn at_rate(raw: &config::Raw, rate: f64) -> Result<config::Config, ConfigError> {
    let interval = Duration::from_secs_f64(1.0 / rate);
    config::Raw {
        interval: humantime::format_duration(interval).to_string(),
        ..raw.clone()
    }
    .check()
}

fn sampling(config: &config::Config) -> Sampling<'_> {
    let engine = &config.engine;
    Sampling {
        interval: config.interval,
        groups: &engine.groups,
        cadence: &engine.cadence,
        window: engine.window,
        timeout: engine.timeout,
    }
}

impl Sweep {
    /// Returns the cap without `--cap`: 150, or fewer if one sampler is not fast enough for 150
    /// ports. It is at least the size of the largest device, because a single sampler queries a
    /// device.
    pub(crate) fn default_cap(&self, fabric: &Fabric) -> u32 {
        let largest = fabric
            .devices()
            .iter()
            .map(|device| device.linked_ports() as u32)
            .max()
            .unwrap_or(1);
        sampling(&self.config)
            .largest_cap()
            .max(largest)
            .clamp(1, super::DEFAULT_CAP)
    }

    /// Returns the expected cost of a plan.
    pub(crate) fn cost_of(
        &self,
        fabric: &Fabric,
        plan: &Plan,
        weights: Option<&Weights>,
    ) -> PlanCost {
        let costs = |config: &config::Config| -> Vec<Cost> {
            let of_share = |share: &Share| {
                sampling(config).cost(share.devices.iter().map(|planned| {
                    let device = fabric.device(planned.id);
                    let service = weights
                        .and_then(|weights| weights.mean_ns(device.guid))
                        .map(Duration::from_nanos);
                    DeviceLoad {
                        kind: device.kind,
                        ports: device.linked_ports() as u32,
                        service,
                    }
                }))
            };
            plan.shares.iter().map(of_share).collect()
        };
        let fits = |config: &config::Config| {
            sampling(config).fits(Duration::from_nanos(Cost::total(&costs(config)).sweep_ns))
        };
        let samplers = costs(&self.config);
        PlanCost {
            rate_hz: self.rate,
            groups: self.raw.groups.clone(),
            window_mads: self.config.engine.window,
            largest_cap_ports: sampling(&self.config).largest_cap(),
            fits: fits(&self.config),
            highest_rate_hz: RATES
                .into_iter()
                .find(|rate| at_rate(&self.raw, *rate).is_ok_and(|config| fits(&config))),
            physical: physical(fabric, plan),
            total: Cost::total(&samplers),
            samplers,
        }
    }
}

/// Returns what the physical layer of the devices of a plan costs.
fn physical(fabric: &Fabric, plan: &Plan) -> PhysicalCost {
    let config = PhysicalConfig::default();
    let devices = plan.shares.iter().flat_map(|share| &share.devices);
    let mut octets = 0.0;
    let mads_per_second = devices
        .map(|planned| {
            let device = fabric.device(planned.id);
            let is_switch = device.kind == NodeKind::Switch;
            let ports = device.linked_ports() as u32;
            octets += config.octets_per_second(ports, is_switch);
            config.requests_per_second(ports, is_switch)
        })
        .sum();
    PhysicalCost {
        mads_per_second,
        raw_bytes_per_day: (octets * 86_400.0).round() as u64,
    }
}

/// The cost of a suggestion as text.
pub(crate) struct Described<'a> {
    pub(crate) cost: &'a PlanCost,
    pub(crate) plan: &'a Plan,
    /// Name of the leaf switch of each sampler. The names are untrusted.
    pub(crate) switches: &'a [String],
}

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            cost,
            plan,
            switches,
        } = self;
        let PlanCost {
            rate_hz,
            groups,
            largest_cap_ports,
            fits,
            highest_rate_hz,
            total,
            samplers,
            physical,
            ..
        } = cost;
        writeln!(
            f,
            "cost      at {} with the counter groups {}",
            Hertz(*rate_hz),
            Printable(&groups.join(","))
        )?;
        let mut table = Table::new();
        table.load_preset(NOTHING).set_header([
            "sampler",
            "leaf switch",
            "ports",
            "sweep",
            "MADs per s",
            "raw per day",
            "packed per day",
        ]);
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for ((share, switch), cost) in plan
            .shares
            .iter()
            .zip(*switches)
            .zip(samplers)
            .take(MAX_ROWS)
        {
            table.add_row(row(
                &share.host.to_string(),
                &Printable(switch).to_string(),
                cost,
            ));
        }
        if samplers.len() > MAX_ROWS {
            table.add_row([format!("and {} more", samplers.len() - MAX_ROWS)]);
        }
        if samplers.len() > 1 {
            table.add_row(row("all", "", total));
        }
        writeln!(f, "{}", table.trim_fmt())?;
        writeln!(
            f,
            "physical  {} raw per day and {:.0} MADs per s more with [physical]",
            size(physical.raw_bytes_per_day),
            physical.mads_per_second
        )?;
        if !fits {
            writeln!(
                f,
                "note      the longest sweep does not fit into the interval at {}",
                Hertz(*rate_hz)
            )?;
        }
        if let Some(highest) = highest_rate_hz {
            writeln!(f, "rate      up to {} with this plan", Hertz(*highest))?;
        }
        if *fits && *largest_cap_ports > plan.cap {
            writeln!(
                f,
                "cap       up to {largest_cap_ports} ports per sampler are possible at {}: --cap {largest_cap_ports}",
                Hertz(*rate_hz)
            )?;
        }
        Ok(())
    }
}

fn row(host: &str, switch: &str, cost: &Cost) -> [String; 7] {
    let (least, most) = (
        cost.least_mads_per_second.round(),
        cost.most_mads_per_second.round(),
    );
    [
        host.to_owned(),
        switch.to_owned(),
        cost.ports.to_string(),
        format!("{:.0} ms", (cost.sweep_ns as f64 / 1e6).max(1.0)),
        if least == most {
            format!("{most}")
        } else {
            format!("{least} to {most}")
        },
        size(cost.raw_bytes_per_day),
        cost.packed_bytes_per_day
            .map_or_else(|| "-".to_owned(), size),
    ]
}

/// Formats a number of bytes with two or three digits.
fn size(octets: u64) -> String {
    let mut text = String::new();
    let (value, unit) = match octets {
        0..1_000_000_000 => (octets as f64 / 1e6, "MB"),
        1_000_000_000..1_000_000_000_000 => (octets as f64 / 1e9, "GB"),
        _ => (octets as f64 / 1e12, "TB"),
    };
    let _ = if value < 9.95 {
        write!(text, "{value:.1} {unit}")
    } else {
        write!(text, "{value:.0} {unit}")
    };
    text
}

/// A rate as text.
struct Hertz(f64);

impl fmt::Display for Hertz {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Hz", (self.0 * 1e4).round() / 1e4)
    }
}
