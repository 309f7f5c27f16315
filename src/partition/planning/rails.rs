//! Samplers of several subnets: rails of one machine, or fabrics side by side.
//!
//! Each subnet is planned by itself, since no sampler reaches another one and LIDs repeat. A host samples in each subnet that it has a port in, unless
//! its adapter was named.

use super::hosts::{self, Host, HostsError, Wanted};
use crate::topology::{Device, Fabric};
use crate::types::{Guid, NodeKind};

/// Finds samplers in each of several subnets. Shape: the samplers of each, sorted by name; there may be none in one of them.
///
/// A sampler that is in several subnets gets the name of its adapter in each, where the node description tells it: it is not the only active one.
///
/// # Errors
/// When a sampler is in none of them.
pub fn locate(wanted: &[Wanted], guids: &[(String, Guid)], fabrics: &[&Fabric]) -> Result<Vec<Vec<Host>>, HostsError> {
    if let [fabric] = fabrics {
        return Ok(vec![hosts::locate(wanted, guids, fabric)?]);
    }
    if let Some((host, _)) = guids.iter().find(|(host, _)| !wanted.iter().any(|wanted| wanted.host == *host)) {
        return Err(HostsError::GuidOfNobody { host: host.clone() });
    }
    let mut found = vec![false; wanted.len()];
    let mut located = Vec::with_capacity(fabrics.len());
    for fabric in fabrics {
        let known = Known::new(fabric);
        let here: Vec<_> = (0..wanted.len()).filter(|n| known.has(&wanted[*n], guids)).collect();
        here.iter().for_each(|n| found[*n] = true);
        let some: Vec<_> = here.iter().map(|n| wanted[*n].clone()).collect();
        let of_some: Vec<_> = guids.iter().filter(|(host, _)| some.iter().any(|wanted| wanted.host == *host)).cloned().collect();
        located.push(hosts::locate(&some, &of_some, fabric)?);
    }
    let missing: Vec<_> = wanted.iter().zip(&found).filter(|(_, found)| !**found).map(|(wanted, _)| wanted.clone()).collect();
    if !missing.is_empty() {
        return Err(nowhere(&missing, guids, fabrics));
    }
    for n in 0..fabrics.len() {
        let others: Vec<_> = located
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != n)
            .flat_map(|(_, hosts)| hosts)
            .map(|host| host.name.clone())
            .collect();
        for host in located[n].iter_mut().filter(|host| host.ca.is_none() && others.contains(&host.name)) {
            host.ca = adapter(host, fabrics[n]);
        }
    }
    Ok(located)
}

/// The hosts of a fabric, and its ports that a host may sit on.
struct Known<'a> {
    /// Sorted by host.
    adapters: Vec<&'a Device>,
}

impl<'a> Known<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let adapters = fabric.devices().iter().filter(|device| device.kind == NodeKind::Hca && !fabric.is_aggregation_node(device));
        let mut adapters: Vec<_> = adapters.collect();
        adapters.sort_by_key(|device| device.host());
        Self { adapters }
    }

    /// Whether a sampler has a port here that it may send from.
    fn has(&self, wanted: &Wanted, guids: &[(String, Guid)]) -> bool {
        let has_port = |device: &Device| wanted.ca_port.is_none_or(|port| device.port(port).is_some());
        if let Some((_, guid)) = guids.iter().find(|(host, _)| *host == wanted.host) {
            return self.adapters.iter().any(|device| device.guid == *guid && has_port(device));
        }
        let first = self.adapters.partition_point(|device| device.host() < &*wanted.host);
        let mut of_host = self.adapters[first..].iter().take_while(|device| device.host() == wanted.host);
        of_host.any(|device| has_port(device) && wanted.ca.as_deref().is_none_or(|ca| second_word(device).is_none_or(|word| word == ca)))
    }
}

/// What to tell of samplers that are nowhere: of all subnets, what helps most.
fn nowhere(missing: &[Wanted], guids: &[(String, Guid)], fabrics: &[&Fabric]) -> HostsError {
    let of_missing: Vec<_> = guids.iter().filter(|(host, _)| missing.iter().any(|wanted| wanted.host == *host)).cloned().collect();
    let errors = fabrics.iter().filter_map(|fabric| hosts::locate(missing, &of_missing, fabric).err());
    let helps = |error: &HostsError| match error {
        HostsError::UnknownCa { .. } => 2,
        HostsError::Unknown { nearest: Some(_), .. } => 1,
        _ => 0,
    };
    let best = errors.reduce(|best, next| if helps(&next) > helps(&best) { next } else { best });
    best.unwrap_or_else(|| HostsError::Empty { place: missing[0].place.clone() })
}

/// The adapter that all ports of a host in this fabric are of, if their descriptions tell a device name such as `mlx5_0`.
fn adapter(host: &Host, fabric: &Fabric) -> Option<String> {
    let mut words = host.at.iter().map(|id| second_word(fabric.device(*id)));
    let first = words.next()??;
    let is_device = first.contains('_') && first.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_device && words.all(|word| word == Some(first))).then(|| first.to_owned())
}

fn second_word(device: &Device) -> Option<&str> {
    device.name.split_whitespace().nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::ports_report;

    /// A switch with these adapters.
    fn fabric(base: u64, adapters: &[&str]) -> Fabric {
        let lines = (1..).zip(adapters).map(|(n, name)| {
            let (guid, lid) = (base + n, 1 + n);
            format!("CA {lid:5}  1 {guid:#018x} 4x EDR - SW     1 {n:2} {base:#018x} ( '{name}' - 'leaf' )\n")
        });
        ports_report::parse(lines.collect::<String>().as_bytes(), "net").unwrap().fabric
    }

    /// A host and its adapter.
    type Found = (String, Option<String>);

    fn located(list: &str, guids: &[(String, Guid)]) -> Result<Vec<Vec<Found>>, HostsError> {
        let (one, two) = (fabric(0x1000, &["a mlx5_0", "b HCA-1", "c mlx5_0"]), fabric(0x2000, &["a mlx5_1", "b HCA-2", "d mlx5_0"]));
        let found = locate(&hosts::parse_list(list).unwrap(), guids, &[&one, &two])?;
        Ok(found.into_iter().map(|hosts| hosts.into_iter().map(|host| (host.name, host.ca)).collect()).collect())
    }

    fn host(name: &str, ca: Option<&str>) -> Found {
        (name.to_owned(), ca.map(str::to_owned))
    }

    #[test]
    fn a_host_samples_wherever_it_has_a_port() {
        let both = located("d,c,b,a", &[]).unwrap();
        assert_eq!(both[0], [host("a", Some("mlx5_0")), host("b", None), host("c", None)]);
        assert_eq!(both[1], [host("a", Some("mlx5_1")), host("b", None), host("d", None)]);
        assert_eq!(located("a:mlx5_1,c", &[]).unwrap(), [vec![host("c", None)], vec![host("a", Some("mlx5_1"))]]);
        assert_eq!(located("c", &[]).unwrap()[1], []);
        let guid = [("mgmt".to_owned(), Guid(0x2003))];
        assert_eq!(located("mgmt", &guid).unwrap(), [vec![], vec![host("mgmt", None)]]);
    }

    #[test]
    fn who_is_nowhere_is_told_with_what_helps_most() {
        assert!(matches!(located("a,x", &[]), Err(HostsError::Unknown { host, .. }) if host == "x"));
        assert!(matches!(located("a:mlx5_7", &[]), Err(HostsError::UnknownCa { known, .. }) if known == "mlx5_0:1"));
        assert!(matches!(located("a", &[("x".to_owned(), Guid(1))]), Err(HostsError::GuidOfNobody { .. })));
        assert!(matches!(located("a", &[("a".to_owned(), Guid(1))]), Err(HostsError::UnknownGuid { .. })));
    }
}
