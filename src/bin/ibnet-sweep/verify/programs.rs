//! Compares ibnet with `ibnetdiscover` and `perfquery`, where they are installed.

use std::collections::BTreeMap;
use std::io;
use std::process::{Command, Output};

use ibnet::mad::transport::umad::HcaPort;
use ibnet::topology::ports_report;
use ibnet::verify::device::Subject;
use ibnet::verify::report::{ProgramDifference, ProgramReport};

use super::Steps;
use super::fabric::{Fabric, Verified, describe};
use crate::check::report::Verdict;
use crate::failure::Failure;

/// Compares the fabric with new output of `ibnetdiscover`.
///
/// The LIDs and links of the verified devices must be equal. Other differences from the plan are
/// only counted, because the plan may be older than the fabric.
pub(super) fn topology(
    port: &HcaPort,
    fabric: &Fabric,
    verified: &[Verified],
    steps: &mut Steps,
) -> Result<(), Failure> {
    const PROGRAM: &str = "ibnetdiscover";
    let output = match output(PROGRAM, port, &["-p"]) {
        Ok(output) if output.status.success() => output,
        failed => return skip(PROGRAM, failed, steps),
    };
    let Ok(net) = ports_report::parse(&output.stdout, PROGRAM) else {
        return steps.line(Verdict::Skip, PROGRAM, "its output has no port");
    };
    let (mut compared, mut differences) = (0, Vec::new());
    for Verified {
        device,
        subject,
        link,
    } in verified
    {
        let found = net
            .fabric
            .find(subject.guid, subject.port)
            .map(|id| net.fabric.device(id));
        let Some((found, port)) = found.and_then(|found| Some((found, found.port(subject.port)?)))
        else {
            continue;
        };
        // PortInfo does not distinguish FDR10 from QDR.
        let rate = port
            .peer
            .as_ref()
            .map(|_| port.rate.to_string().replace("FDR10", "QDR"));
        for (what, ours, theirs) in [
            (
                "LID",
                Some(device.lid.to_string()),
                Some(found.lid.to_string()),
            ),
            ("link", link.clone(), rate.or_else(|| link.clone())),
        ] {
            compared += 1;
            if ours != theirs {
                let [ours, theirs] =
                    [ours, theirs].map(|value| value.unwrap_or_else(|| "nothing".to_owned()));
                let name = describe(device, subject.port);
                steps.line(
                    Verdict::Differ,
                    PROGRAM,
                    &format!("{name}: {what} {theirs}, ibnet has {ours}"),
                )?;
                let Subject { lid, port, .. } = *subject;
                differences.push(ProgramDifference {
                    lid,
                    port,
                    what: what.to_owned(),
                    ibnet: ours,
                    program: theirs,
                });
            }
        }
    }
    let (ports, changed) = changes(fabric, &net.fabric);
    let different = differences.len();
    let text = format!(
        "{compared} LIDs and links of the sample, {different} differ; {changed} of {ports} ports of the plan have changed"
    );
    steps.program(
        ProgramReport {
            program: PROGRAM,
            version: version(PROGRAM),
            compared,
            different,
            differences,
        },
        &text,
    )
}

/// Returns the number of ports of the plan, and how many of them now have another LID or another
/// peer.
fn changes(fabric: &Fabric, now: &ibnet::topology::Fabric) -> (usize, usize) {
    let (mut ports, mut changed) = (0, 0);
    for device in &fabric.devices {
        for port in &device.ports {
            let found = now
                .find(device.guid, port.num)
                .map(|id| now.device(id))
                .filter(|found| found.lid == device.lid);
            let peer = found
                .and_then(|found| found.port(port.num))
                .and_then(|port| port.peer.as_ref())
                .map(|peer| (peer.guid, peer.port));
            ports += 1;
            changed += usize::from(
                peer.is_none() || peer != port.peer.as_ref().map(|peer| (peer.guid, peer.port)),
            );
        }
    }
    (ports, changed)
}

/// Returns the counters of a port that `perfquery` prints, by name. A 64-bit counter replaces the
/// 32-bit one of the same name.
pub(super) fn perfquery(port: &HcaPort, subject: &Subject) -> io::Result<BTreeMap<String, u64>> {
    let (lid, num) = (subject.lid.to_string(), subject.port.to_string());
    let mut counters = BTreeMap::new();
    for options in [&[&*lid, &*num][..], &["-x", &lid, &num]] {
        let output = output("perfquery", port, options)?;
        if !output.status.success() {
            return Err(io::Error::other(first_line(&output.stderr)));
        }
        counters.extend(
            String::from_utf8_lossy(&output.stdout)
                .lines()
                .filter_map(|line| {
                    let (name, value) = line.split_once(':')?;
                    Some((name.to_owned(), value.trim_start_matches('.').parse().ok()?))
                }),
        );
    }
    Ok(counters)
}

/// Prints why a program is not compared.
pub(super) fn skip(
    program: &'static str,
    failed: io::Result<Output>,
    steps: &mut Steps,
) -> Result<(), Failure> {
    let reason = match failed {
        Ok(output) => format!("it failed: {}", first_line(&output.stderr)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => "it is not installed".to_owned(),
        Err(error) => error.to_string(),
    };
    steps.line(Verdict::Skip, program, &reason)
}

/// Runs a program of rdma-core on an HCA port. The program may be in a folder for administrators.
fn output(program: &str, port: &HcaPort, args: &[&str]) -> io::Result<Output> {
    command(program)
        .args(["-C", &port.ca, "-P", &port.port.to_string()])
        .args(args)
        .output()
}

fn command(program: &str) -> Command {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let mut command = Command::new(program);
    command.env("PATH", path);
    command
}

/// Returns the version of rdma-core that a program prints, such as `44.0`.
pub(super) fn version(program: &str) -> Option<String> {
    let output = command(program).arg("--version").output().ok()?;
    let texts = [output.stdout, output.stderr].map(|text| first_line(&text));
    texts
        .iter()
        .find_map(|line| line.split_once("VERSION:"))
        .map(|(_, version)| version.trim().to_owned())
}

fn first_line(text: &[u8]) -> String {
    String::from_utf8_lossy(text)
        .lines()
        .next()
        .unwrap_or_default()
        .to_owned()
}
