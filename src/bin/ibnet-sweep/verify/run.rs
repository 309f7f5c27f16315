//! The steps of a verification, on a real or a simulated fabric.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use ibnet::assignments::AssignedDevice;
use ibnet::cli::{self, Progress};
use ibnet::config::Config;
use ibnet::mad::exchange::Target;
use ibnet::mad::libibmad::LibibmadClient;
use ibnet::mad::pma;
use ibnet::mad::query::Query;
use ibnet::mad::sa;
use ibnet::mad::transport::Transport;
use ibnet::mad::transport::sim::SimTransport;
use ibnet::mad::transport::umad::UmadTransport;
use ibnet::sweep::driver::{Address, DeviceClient, SystemClock};
use ibnet::sweep::routes::Routes;
use ibnet::verify::device::{MADS_PER_DEVICE, Verifier};
use ibnet::verify::models::{self, Model};
use ibnet::verify::reference::{Libibmad, Reference, SecondClient, Shared};
use ibnet::verify::report::{DeviceReport, HcaReport, ModelReport, ServiceReport, SilentReport};
use ibnet::verify::timing::Burst;
use ibnet_record::attributes::Group;
use ibnet_record::types::Lid;

use super::fabric::{self, Fabric, Verified};
use super::{Steps, lines, programs, slot};
use crate::check::report::Verdict;
use crate::failure::Failure;
use crate::{simulation, workers};

/// Max wait for the reply to one MAD. Each MAD is sent at most three times.
const TIMEOUT: Duration = Duration::from_millis(100);

/// Max number of devices whose model is queried.
const MAX_IDENTIFIED: usize = 200;

/// Number of requests in a burst to a device and, below, in a burst to a LID that does not exist.
const BURST: u32 = 20;
const SILENT_BURST: u32 = 24;

/// Number of requests in flight in the second burst to a device.
const IN_FLIGHT: u32 = 4;

/// Timeout of requests to a LID that does not exist. It is several ticks of the kernel's timer,
/// so that the first and the second batch of a kernel with flow control can be distinguished.
const SILENT: Duration = Duration::from_millis(50);

/// Names of the second reader: libibmad, or a second client where libibmad cannot query.
const LIBIBMAD: &str = "libibmad";
const SECOND_CLIENT: &str = "a second client of ibnet, decoded by libibmad";

/// Creates a client that starts with a random TID.
pub(super) fn client<T: Transport>(
    transport: T,
    address: Address,
    (config, fabric): (&Config, &Fabric),
) -> DeviceClient<T, SystemClock> {
    let routes = Routes::new(Arc::clone(&fabric.cables));
    DeviceClient::new(transport, SystemClock::start(), address, cli::random_seed())
        .with_routes(config.engine.smp, routes)
}

/// Runs all steps. On a real fabric, ibnet is also compared with the programs of rdma-core.
pub(super) fn run(config: &Config, fabric: &Fabric, steps: &mut Steps) -> Result<(), Failure> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    steps.document.kernel = format!("Linux {}", release.trim());
    let sl = config.engine.sl;
    let address = |pkey_index, pkey_table| Address {
        lid: Lid(0),
        sl,
        pkey_index,
        pkey_table,
        timeout: TIMEOUT,
    };
    if let Some(simulated) = simulation::build(config)? {
        steps.document.reference = SECOND_CLIENT;
        let local = SimTransport::new(simulated.clone()).locator()();
        let manager = local.map_or(Lid(0), |local| local.sm_lid);
        let [ours, theirs] = [(); 2].map(|()| {
            client(
                SimTransport::new(simulated.clone()),
                address(0, Vec::new()),
                (config, fabric),
            )
        });
        verify(
            Verifier::new(ours, SecondClient::new(theirs, manager), local, sl),
            config,
            fabric,
            steps,
            false,
        )?;
        return Ok(());
    }
    let (port, pkey_index) = workers::hca_port(config, &fabric.ca)?;
    let hca = describe_hca(&port.ca);
    let kind = Some(hca.to_string())
        .filter(|text| !text.is_empty())
        .map(|text| format!(" ({text})"))
        .unwrap_or_default();
    steps.document.hca = Some(hca);
    let found = format!(
        "{port}{kind}, LID {}, P_Key {:#06x} at index {pkey_index}, SL {sl}, {}",
        port.lid, config.pkey, steps.document.kernel
    );
    steps.line(Verdict::Ok, "HCA", &found)?;
    let transport = UmadTransport::open(&port)?;
    let local = transport.locator()();
    let verified = if transport.is_of_kernel() {
        steps.document.reference = LIBIBMAD;
        let reference = Libibmad::new(LibibmadClient::open(&port, sl, pkey_index, TIMEOUT)?);
        let ours = client(
            transport,
            address(pkey_index, port.pkeys.clone()),
            (config, fabric),
        );
        verify(
            Verifier::new(ours, reference, local, sl),
            config,
            fabric,
            steps,
            true,
        )?
    } else {
        steps.document.reference = SECOND_CLIENT;
        steps.line(
            Verdict::Warn,
            "libibmad",
            "ibsim cannot serve libibmad beside ibnet in one process: libibmad decodes, but queries nothing",
        )?;
        let [ours, theirs] = Shared::pair(transport);
        let [ours, theirs] = [ours, theirs].map(|transport| {
            client(
                transport,
                address(pkey_index, port.pkeys.clone()),
                (config, fabric),
            )
        });
        // ibsim replaces the kernel and reports timeouts at once, so they are not measured.
        verify(
            Verifier::new(ours, SecondClient::new(theirs, port.sm_lid), local, sl),
            config,
            fabric,
            steps,
            false,
        )?
    };
    programs::topology(&port, fabric, &verified, steps)?;
    slot::compare(&port, pkey_index, config, fabric, &verified, steps)
}

/// Reads the description of an HCA from sysfs. With ibsim there is none.
fn describe_hca(ca: &str) -> HcaReport {
    let read = |file: &str| fs::read_to_string(format!("/sys/class/infiniband/{ca}/{file}")).ok();
    let text = |file| {
        read(file)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    };
    HcaReport {
        hca_type: text("hca_type"),
        firmware: text("fw_ver"),
        board: text("board_id"),
    }
}

/// Compares devices and measures times; those of the kernel only if the kernel sends the MADs.
/// Returns the devices.
fn verify<T: Transport, R: Reference>(
    mut verifier: Verifier<T, SystemClock, R>,
    config: &Config,
    fabric: &Fabric,
    steps: &mut Steps,
    has_kernel: bool,
) -> Result<Vec<Verified>, Failure> {
    let chosen = choose(&mut verifier, fabric, steps)?;
    let devices: usize = chosen.iter().map(|(_, devices)| devices.len()).sum();
    let bursts = chosen.len() as u64 * 2 * u64::from(BURST)
        + if has_kernel {
            1 + u64::from(SILENT_BURST)
        } else {
            0
        };
    let planned = verifier.mads() + devices as u64 * MADS_PER_DEVICE + bursts;
    let what = format!(
        "{devices} devices of {} models; at most {planned} MADs if every MAD is answered",
        chosen.len()
    );
    steps.line(Verdict::Ok, "sample", &what)?;
    let bar = Progress::new(devices as u64, "devices");
    let mut verified = Vec::new();
    for (model, devices) in &chosen {
        for device in devices {
            verified.extend(one_device(
                &mut verifier,
                model,
                device,
                config,
                fabric,
                steps,
            )?);
            bar.advance();
        }
    }
    bar.finish();
    let mut sent = 0;
    for (model, devices) in &chosen {
        sent += service_times(&mut verifier, model, devices, config, steps)?;
    }
    if has_kernel {
        sent += silent_lid(&mut verifier, fabric, steps)?;
    }
    steps.document.mads_sent = verifier.mads() + sent;
    Ok(verified)
}

/// Devices of one model.
type OfModel<'a> = (Model, Vec<&'a AssignedDevice>);

/// Queries the models of devices, and selects some devices of each model.
fn choose<'a, T: Transport, R: Reference>(
    verifier: &mut Verifier<T, SystemClock, R>,
    fabric: &'a Fabric,
    steps: &mut Steps,
) -> Result<Vec<OfModel<'a>>, Failure> {
    let asked = models::spread(fabric.devices.len(), MAX_IDENTIFIED);
    let bar = Progress::new(asked.len() as u64, "models");
    let mut found = Vec::new();
    for place in &asked {
        let device = &fabric.devices[*place];
        let info = verifier
            .identify(device.lid)
            .map_err(Failure::TransportLost)?;
        found.extend(info.map(|info| (Model::of(&info), device)));
        bar.advance();
    }
    bar.finish();
    let (known, asked, answered) = (fabric.devices.len(), asked.len(), found.len());
    (
        steps.document.devices_known,
        steps.document.devices_identified,
    ) = (known, answered);
    let elsewhere = match fabric.elsewhere {
        0 => String::new(),
        more => {
            format!("; {more} devices of other HCA ports are not verified (--ca selects the port)")
        }
    };
    let what = format!(
        "{known} devices; {answered} of {asked} that were asked answer NodeInfo{elsewhere}"
    );
    steps.line(
        if answered > 0 {
            Verdict::Ok
        } else {
            Verdict::Warn
        },
        "fabric",
        &what,
    )?;
    let all = models::choose(found.iter().copied(), usize::MAX);
    steps.document.models = all
        .iter()
        .map(|(model, devices)| ModelReport::new(model, devices.len()))
        .collect();
    Ok(models::choose(found, steps.per_model).into_iter().collect())
}

/// Compares one device, and returns it if it answered.
fn one_device<T: Transport, R: Reference>(
    verifier: &mut Verifier<T, SystemClock, R>,
    model: &Model,
    device: &AssignedDevice,
    config: &Config,
    fabric: &Fabric,
    steps: &mut Steps,
) -> Result<Option<Verified>, Failure> {
    let Some(subject) = fabric::subject(device) else {
        return Ok(None);
    };
    let result = verifier.device(&subject).map_err(Failure::TransportLost)?;
    let name = fabric::describe(device, subject.port);
    let identity = fabric.identity(device, subject.port);
    steps
        .document
        .devices
        .push(DeviceReport::new(identity, model, &result));
    steps.document.differences += result.differences();
    if result.is_silent() {
        steps.line(
            Verdict::Warn,
            "device",
            &format!("{name}: no attribute is answered on either path"),
        )?;
        return Ok(None);
    }
    let reader = if steps.document.reference == LIBIBMAD {
        LIBIBMAD
    } else {
        "the second client"
    };
    for difference in lines::differences(&result, reader) {
        steps.line(Verdict::Differ, "device", &format!("{name}: {difference}"))?;
    }
    if result.differences() == 0 {
        steps.line(
            Verdict::Ok,
            "device",
            &format!("{name}: {}", lines::equal(&result)),
        )?;
    }
    if let Some(sl) = result
        .path_sl
        .filter(|sl| *sl != config.engine.sl && !config.engine.path_sl)
    {
        let found = format!(
            "{name}: its path record has SL {sl}, the configuration has SL {}: give --sl path",
            config.engine.sl
        );
        steps.line(Verdict::Warn, "device", &found)?;
    }
    let link = result.link.map(|link| link.to_string());
    Ok(Some(Verified {
        device: device.clone(),
        subject,
        link,
    }))
}

/// Measures the time until one device of a model replies. Returns the number of MADs.
fn service_times<T: Transport, R: Reference>(
    verifier: &mut Verifier<T, SystemClock, R>,
    model: &Model,
    devices: &[&AssignedDevice],
    config: &Config,
    steps: &mut Steps,
) -> Result<u64, Failure> {
    let Some(subject) = devices.first().and_then(|device| fabric::subject(device)) else {
        return Ok(0);
    };
    let client = verifier.client_mut();
    client.turn_to(subject.lid);
    client.set_sl(config.engine.sl);
    let query = Query::Pma(pma::Query {
        attribute: Group::Base.attribute().id,
        port: Some(subject.port),
    });
    let target = client.target(&query);
    let mut texts = Vec::new();
    for in_flight in [1, IN_FLIGHT] {
        let burst = Burst {
            query,
            target,
            count: BURST,
            in_flight,
            first_tid: cli::random_seed() as u32,
        };
        let times = burst
            .run(client.transport_mut(), &SystemClock::start())
            .map_err(Failure::TransportLost)?;
        texts.push(format!("{in_flight} in flight: {}", lines::times(&times)));
        steps
            .document
            .service_times
            .push(ServiceReport::new(model, in_flight, &times));
    }
    steps.line(
        Verdict::Ok,
        "service time",
        &format!("{model}: {}", texts.join("; ")),
    )?;
    Ok(2 * u64::from(BURST))
}

/// Measures when the kernel reports the timeouts of requests to a LID that does not exist.
/// Returns the number of MADs.
fn silent_lid<T: Transport, R: Reference>(
    verifier: &mut Verifier<T, SystemClock, R>,
    fabric: &Fabric,
    steps: &mut Steps,
) -> Result<u64, Failure> {
    let Some(lid) = fabric.unused_lid() else {
        return Ok(0);
    };
    let target = Target::general(lid, 0, 0, SILENT);
    let transport = verifier.client_mut().transport_mut();
    let clock = SystemClock::start();
    let mut run = |query, count| {
        let burst = Burst {
            query,
            target,
            count,
            in_flight: count,
            first_tid: cli::random_seed() as u32,
        };
        burst.run(transport, &clock).map_err(Failure::TransportLost)
    };
    let one = run(
        Query::Pma(pma::Query {
            attribute: Group::Base.attribute().id,
            port: None,
        }),
        1,
    )?;
    let path = sa::Query {
        source: sa::Gid::default(),
        destination: sa::Gid::default(),
    };
    let several = run(Query::Sa(path), SILENT_BURST)?;
    let nanos = |time: &Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    steps.document.silent_lid = Some(SilentReport {
        lid,
        timeout_ns: nanos(&SILENT),
        reported_ns: one.timeouts.first().map(nanos),
        burst_ns: several.timeouts.iter().map(nanos).collect(),
    });
    let found = match (one.timeouts.first(), one.replies.first()) {
        (Some(time), _) => format!(
            "LID {lid}: timeout {}, reported by the kernel after {}",
            lines::millis(SILENT),
            lines::millis(*time)
        ),
        (None, Some(_)) => format!("LID {lid}: it is not in the fabric, but something answers"),
        (None, None) => format!("LID {lid}: the kernel reported no timeout"),
    };
    steps.line(
        if one.timeouts.is_empty() {
            Verdict::Warn
        } else {
            Verdict::Ok
        },
        "silent LID",
        &found,
    )?;
    let found = match (several.timeouts.first(), several.timeouts.last()) {
        (Some(first), Some(last)) => {
            let batch = several
                .timeouts
                .iter()
                .take_while(|time| **time < *first + SILENT / 2)
                .count();
            let times = format!(
                "{} timeouts after {} to {}",
                several.timeouts.len(),
                lines::millis(*first),
                lines::millis(*last)
            );
            if batch == several.timeouts.len() {
                format!(
                    "none for {SILENT_BURST} queries of subnet administration in flight: {times}"
                )
            } else {
                format!(
                    "the kernel sends {batch} queries of subnet administration at once, and holds back the others: {times}"
                )
            }
        }
        _ => "not measured: the kernel reported no timeout".to_owned(),
    };
    steps.line(
        if several.timeouts.is_empty() {
            Verdict::Warn
        } else {
            Verdict::Ok
        },
        "flow control",
        &found,
    )?;
    Ok(1 + u64::from(SILENT_BURST))
}
