//! Finds samplers in several subnets, which are the rails of one machine, or separate fabrics.
//!
//! Each subnet has its own plan, because a sampler reaches only one subnet, and because different
//! subnets use the same LIDs. A host is a sampler in each subnet in which it has a port. If the
//! host list names an HCA, the host is a sampler only in the subnet of this HCA.

use ibnet_record::types::{Guid, NodeKind};

use super::hosts::{self, Host, HostsError, SamplerSpec};
use crate::topology::{Device, Fabric};

/// Finds the samplers of each subnet. Returns one list for each subnet, sorted by name and
/// possibly empty.
///
/// A host in several subnets has several active ports. In each subnet, its sampler therefore gets
/// the name of the HCA that sends, if the node description contains this name.
///
/// # Errors
/// Returns an error if a sampler is in no subnet.
pub fn locate(
    wanted: &[SamplerSpec],
    guids: &[(String, Guid)],
    fabrics: &[&Fabric],
) -> Result<Vec<Vec<Host>>, HostsError> {
    if let [fabric] = fabrics {
        return Ok(vec![hosts::locate(wanted, guids, fabric)?]);
    }
    if let Some((host, _)) = guids
        .iter()
        .find(|(host, _)| !wanted.iter().any(|wanted| wanted.host == *host))
    {
        return Err(HostsError::GuidOfOther { host: host.clone() });
    }
    let mut found = vec![false; wanted.len()];
    let mut located = Vec::with_capacity(fabrics.len());
    for fabric in fabrics {
        let hcas = Hcas::new(fabric);
        let here: Vec<_> = (0..wanted.len())
            .filter(|n| hcas.has(&wanted[*n], guids))
            .collect();
        here.iter().for_each(|n| found[*n] = true);
        let some: Vec<_> = here.iter().map(|n| wanted[*n].clone()).collect();
        let of_some: Vec<_> = guids
            .iter()
            .filter(|(host, _)| some.iter().any(|wanted| wanted.host == *host))
            .cloned()
            .collect();
        located.push(hosts::locate(&some, &of_some, fabric)?);
    }
    let missing: Vec<_> = wanted
        .iter()
        .zip(&found)
        .filter(|(_, found)| !**found)
        .map(|(wanted, _)| wanted.clone())
        .collect();
    if !missing.is_empty() {
        return Err(not_found(&missing, guids, fabrics));
    }
    for n in 0..fabrics.len() {
        let others: Vec<_> = located
            .iter()
            .enumerate()
            .filter(|(other, _)| *other != n)
            .flat_map(|(_, hosts)| hosts)
            .map(|host| host.name.clone())
            .collect();
        for host in located[n]
            .iter_mut()
            .filter(|host| host.ca.is_none() && others.contains(&host.name))
        {
            host.ca = hca_name(host, fabrics[n]);
        }
    }
    Ok(located)
}

/// The HCA ports of a subnet.
struct Hcas<'a> {
    /// Sorted by host.
    ports: Vec<&'a Device>,
}

impl<'a> Hcas<'a> {
    fn new(fabric: &'a Fabric) -> Self {
        let ports = fabric
            .devices()
            .iter()
            .filter(|device| device.kind == NodeKind::Hca && !fabric.is_aggregation_node(device));
        let mut ports: Vec<_> = ports.collect();
        ports.sort_by_key(|device| device.host());
        Self { ports }
    }

    /// Returns whether a sampler has a port in this subnet from which it may send.
    fn has(&self, wanted: &SamplerSpec, guids: &[(String, Guid)]) -> bool {
        let has_port = |device: &Device| {
            wanted
                .ca_port
                .is_none_or(|port| device.port(port).is_some())
        };
        if let Some((_, guid)) = guids.iter().find(|(host, _)| *host == wanted.host) {
            return self
                .ports
                .iter()
                .any(|device| device.guid == *guid && has_port(device));
        }
        let first = self
            .ports
            .partition_point(|device| device.host() < &*wanted.host);
        let mut of_host = self.ports[first..]
            .iter()
            .take_while(|device| device.host() == wanted.host);
        of_host.any(|device| {
            has_port(device)
                && wanted
                    .ca
                    .as_deref()
                    .is_none_or(|ca| second_word(device).is_none_or(|word| word == ca))
        })
    }
}

/// Returns the error for samplers that are in no subnet. Each subnet gives its own error, and
/// this function selects the most helpful one.
fn not_found(missing: &[SamplerSpec], guids: &[(String, Guid)], fabrics: &[&Fabric]) -> HostsError {
    let of_missing: Vec<_> = guids
        .iter()
        .filter(|(host, _)| missing.iter().any(|wanted| wanted.host == *host))
        .cloned()
        .collect();
    let errors = fabrics
        .iter()
        .filter_map(|fabric| hosts::locate(missing, &of_missing, fabric).err());
    let helps = |error: &HostsError| match error {
        HostsError::UnknownCa { .. } => 2,
        HostsError::Unknown {
            nearest: Some(_), ..
        } => 1,
        _ => 0,
    };
    let best = errors.reduce(|best, next| {
        if helps(&next) > helps(&best) {
            next
        } else {
            best
        }
    });
    best.unwrap_or_else(|| HostsError::Empty {
        origin: missing[0].origin.clone(),
    })
}

/// Returns the HCA name of a host in this fabric, such as `mlx5_0`. Returns `None` unless the node
/// descriptions of all its ports have the same name.
fn hca_name(host: &Host, fabric: &Fabric) -> Option<String> {
    let mut words = host
        .sending
        .iter()
        .map(|id| second_word(fabric.device(*id)));
    let first = words.next()??;
    let is_device = first.contains('_')
        && first
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (is_device && words.all(|word| word == Some(first))).then(|| first.to_owned())
}

fn second_word(device: &Device) -> Option<&str> {
    device.name.split_whitespace().nth(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::ports_report;

    /// A switch with these HCAs.
    fn fabric(base: u64, hcas: &[&str]) -> Fabric {
        let lines = (1..).zip(hcas).map(|(n, name)| {
            let (guid, lid) = (base + n, 1 + n);
            format!("CA {lid:5}  1 {guid:#018x} 4x EDR - SW     1 {n:2} {base:#018x} ( '{name}' - 'leaf' )\n")
        });
        ports_report::parse(lines.collect::<String>().as_bytes(), "net")
            .unwrap()
            .fabric
    }

    /// A host and its HCA.
    type Found = (String, Option<String>);

    fn located(list: &str, guids: &[(String, Guid)]) -> Result<Vec<Vec<Found>>, HostsError> {
        let (one, two) = (
            fabric(0x1000, &["a mlx5_0", "b HCA-1", "c mlx5_0"]),
            fabric(0x2000, &["a mlx5_1", "b HCA-2", "d mlx5_0"]),
        );
        let found = locate(&hosts::parse_list(list).unwrap(), guids, &[&one, &two])?;
        Ok(found
            .into_iter()
            .map(|hosts| hosts.into_iter().map(|host| (host.name, host.ca)).collect())
            .collect())
    }

    fn host(name: &str, ca: Option<&str>) -> Found {
        (name.to_owned(), ca.map(str::to_owned))
    }

    #[test]
    fn host_samples_in_each_subnet_with_a_port() {
        let both = located("d,c,b,a", &[]).unwrap();
        assert_eq!(
            both[0],
            [host("a", Some("mlx5_0")), host("b", None), host("c", None)]
        );
        assert_eq!(
            both[1],
            [host("a", Some("mlx5_1")), host("b", None), host("d", None)]
        );
        assert_eq!(
            located("a:mlx5_1,c", &[]).unwrap(),
            [vec![host("c", None)], vec![host("a", Some("mlx5_1"))]]
        );
        assert_eq!(located("c", &[]).unwrap()[1], []);
        let guid = [("mgmt".to_owned(), Guid(0x2003))];
        assert_eq!(
            located("mgmt", &guid).unwrap(),
            [vec![], vec![host("mgmt", None)]]
        );
    }

    #[test]
    fn missing_sampler_has_the_most_helpful_error() {
        assert!(
            matches!(located("a,x", &[]), Err(HostsError::Unknown { host, .. }) if host == "x")
        );
        assert!(
            matches!(located("a:mlx5_7", &[]), Err(HostsError::UnknownCa { known, .. }) if known == "mlx5_0:1")
        );
        assert!(matches!(
            located("a", &[("x".to_owned(), Guid(1))]),
            Err(HostsError::GuidOfOther { .. })
        ));
        assert!(matches!(
            located("a", &[("a".to_owned(), Guid(1))]),
            Err(HostsError::UnknownGuid { .. })
        ));
    }
}
