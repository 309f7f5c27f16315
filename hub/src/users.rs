//! Who sends a request, and what this user may do.
//!
//! A request is identified by the password, by the token of a user, or by the headers of a trusted
//! proxy. If two of them give different roles, the least one counts; two names are refused. Without
//! a password, roles and a proxy, everybody may see everything.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use ibnet::metrics::{Role, SecretsError, Tokens, Users as File, credentials};

use crate::audit::{Audit, By};
use crate::query::error::ApiError;

/// Header with the token of a user. A page of another site cannot send it, because the hub answers
/// no request for permission (CORS preflight).
pub(crate) const TOKEN: &str = "ibnet-token";

/// Max length of the name of a user in bytes.
const LONGEST: usize = 256;

/// A proxy that authenticates users, and names them in headers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Proxy {
    /// Addresses of the proxy. The headers of other clients are ignored.
    pub from: Vec<IpAddr>,
    /// Header with the name of the user.
    pub user: HeaderName,
    /// Header with the groups of the user, separated by commas.
    pub groups: HeaderName,
    /// Groups whose members are admins, and operators. All others are users.
    pub admins: Vec<String>,
    /// Groups whose members are operators.
    pub operators: Vec<String>,
}

/// The sender of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    /// Name of the user. `None` with the password alone.
    pub(crate) name: Option<String>,
    pub(crate) role: Role,
    /// Address of the client, or of its proxy.
    pub(crate) address: String,
}

/// Address of the other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub(crate) IpAddr);

/// The users of the hub.
#[derive(Debug, Default)]
pub(crate) struct Users {
    file: Option<File>,
    proxy: Option<Proxy>,
    pub(crate) audit: Audit,
    /// Whether the file had roles when it was last read. It stays in force if the file becomes
    /// unreadable.
    has_roles: AtomicBool,
}

impl Users {
    pub(crate) fn new(file: Option<File>, proxy: Option<Proxy>, audit: Audit) -> Self {
        let has_roles = file.as_ref().is_some_and(|file| {
            // Nobody gets in without a role, if it cannot be read.
            file.read().map_or(true, |tokens| tokens.has_roles())
        });
        Self {
            file,
            proxy,
            audit,
            has_roles: AtomicBool::new(has_roles),
        }
    }

    /// Returns whether there can be users who change something.
    pub(crate) fn may_post(&self) -> bool {
        self.file.is_some() || self.proxy.is_some()
    }

    /// Returns whether a peer is a trusted proxy.
    pub(crate) fn trusts(&self, peer: Option<IpAddr>) -> bool {
        let peer = peer.map(|peer| peer.to_canonical());
        self.proxy
            .as_ref()
            .is_some_and(|proxy| peer.is_some_and(|peer| proxy.from.contains(&peer)))
    }

    /// Returns the sender of a request, or `None` if the sender is unknown and must be identified.
    /// `password` is true if the request has the password, and `None` if the hub has none.
    ///
    /// The second value is true if the sender must be identified.
    pub(crate) fn identify(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
        password: Option<bool>,
    ) -> Result<(Option<Identity>, bool), ApiError> {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let token = headers.get(TOKEN).and_then(|token| token.to_str().ok());
        let tokens = self.file.as_ref().map(File::read).transpose();
        let tokens = tokens.or_else(|error| self.without_file(&error, token.is_some()))?;
        let known = tokens.as_ref().map(Tokens::has_roles);
        if let Some(has_roles) = known {
            self.has_roles.store(has_roles, Ordering::Relaxed);
        }
        let has_roles = self.has_roles.load(Ordering::Relaxed);
        let is_needed = password.is_some() || has_roles || self.proxy.is_some();
        // Names and roles. A line of the file without a role gives a name only.
        let mut found: Vec<(Option<String>, Option<Role>)> = Vec::new();
        if !is_needed || password == Some(true) {
            found.push((None, Some(Role::Admin)));
        }
        let find = |token: &str| tokens.as_ref().and_then(|tokens| tokens.find(token));
        if let Some((name, token)) = text(&AUTHORIZATION).and_then(credentials)
            && let Some(user) = find(&token)
            && user.role.is_some()
            && name.is_none_or(|name| name == user.name)
        {
            found.push((Some(user.name.clone()), user.role));
        }
        let user = token.and_then(find);
        found.extend(user.map(|user| (Some(user.name.clone()), user.role)));
        if self.trusts(peer) {
            let proxy = self.proxy.as_ref();
            found.extend(proxy.and_then(|proxy| proxy.identify(headers)));
        }
        let names: BTreeSet<&String> = found.iter().filter_map(|(name, _)| name.as_ref()).collect();
        if names.len() > 1 {
            return Err(ApiError {
                status: StatusCode::FORBIDDEN,
                reason: "the request names two users; send the token or the headers of one"
                    .to_owned(),
            });
        }
        let name = names.first().map(|name| (*name).clone());
        let role = found.iter().filter_map(|(_, role)| *role).min();
        let address = peer.map_or_else(String::new, |peer| peer.to_canonical().to_string());
        let identity = role.map(|role| Identity {
            name,
            role,
            address,
        });
        Ok((identity, is_needed))
    }

    /// A file that cannot be read gives nobody a right, and takes no rule out of force.
    fn without_file(
        &self,
        error: &SecretsError,
        is_used: bool,
    ) -> Result<Option<Tokens>, ApiError> {
        if is_used || self.has_roles.load(Ordering::Relaxed) {
            tracing::warn!(%error, "cannot read the tokens of users, so requests are refused");
            return Err(ApiError::failed(
                "the file of tokens cannot be used; the log of the hub has the reason",
            ));
        }
        Ok(None)
    }
}

impl Proxy {
    /// Returns name and role of the user of the headers. A header that is given twice names nobody.
    fn identify(&self, headers: &HeaderMap) -> Option<(Option<String>, Option<Role>)> {
        let single = |name: &HeaderName| {
            let mut values = headers.get_all(name).iter();
            let value = values
                .next()
                .map_or(Some(""), |value| value.to_str().ok())?;
            values.next().is_none().then(|| value.trim())
        };
        let name = single(&self.user).filter(|name| !name.is_empty() && name.len() <= LONGEST)?;
        let groups: Vec<&str> = single(&self.groups)?.split(',').map(str::trim).collect();
        let is_in = |known: &[String]| known.iter().any(|group| groups.contains(&group.as_str()));
        let role = if is_in(&self.admins) {
            Role::Admin
        } else if is_in(&self.operators) {
            Role::Operator
        } else {
            Role::User
        };
        Some((Some(name.to_owned()), Some(role)))
    }
}

impl Identity {
    /// Returns who it is for the audit log.
    pub(crate) fn by(&self) -> By {
        By {
            who: self.name.clone().unwrap_or_else(|| "password".to_owned()),
            role: self.role.as_str(),
            address: self.address.clone(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const PROXY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 9));

    /// Headers, peer, whether the request has the password, and what is found.
    type Case<'a> = (&'a [(&'static str, &'a str)], IpAddr, Option<bool>, &'a str);

    /// Writes a file of tokens, and returns its users.
    pub(crate) fn file(folder: &std::path::Path, text: &str) -> File {
        let path = folder.join("tokens");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("mode is set");
        File::new("users.", &path).expect("a valid file")
    }

    pub(crate) fn proxy() -> Proxy {
        let groups = |name: &str| vec![name.to_owned()];
        Proxy {
            from: vec![PROXY],
            user: HeaderName::from_static("x-remote-user"),
            groups: HeaderName::from_static("x-remote-groups"),
            admins: groups("admins"),
            operators: groups("ops"),
        }
    }

    /// Returns name and role, `401`, or the status of an error.
    fn found(
        users: &Users,
        headers: &[(&'static str, &str)],
        peer: IpAddr,
        password: Option<bool>,
    ) -> String {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().expect("a value"));
        }
        match users.identify(&map, Some(peer), password) {
            Err(error) => error.status.as_u16().to_string(),
            Ok((None, _)) => "401".to_owned(),
            Ok((Some(Identity { name, role, .. }), _)) => {
                format!("{} {}", name.unwrap_or_default(), role.as_str())
            }
        }
    }

    #[test]
    fn least_role_counts_and_two_names_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let text =
            "ada aaaaaaaaaaaaaaaa user\nola oooooooooooooooo operator\nmark mmmmmmmmmmmmmmmm\n";
        let users = Users::new(
            Some(file(folder.path(), text)),
            Some(proxy()),
            Audit::default(),
        );
        let other = IpAddr::from([10, 0, 0, 8]);
        let (ada, ola) = ("Bearer aaaaaaaaaaaaaaaa", "Bearer oooooooooooooooo");
        let (user, groups) = ("x-remote-user", "x-remote-groups");
        let cases: [Case; 17] = [
            (&[], other, None, "401"),
            (&[], other, Some(false), "401"),
            (&[], other, Some(true), " admin"),
            (&[("authorization", ada)], other, None, "ada user"),
            (&[("authorization", ola)], other, None, "ola operator"),
            // The name of Basic is that of the line: `ola:` and `ada:` with the token of ola.
            (
                &[("authorization", "Basic b2xhOm9vb29vb29vb29vb29vb28=")],
                other,
                None,
                "ola operator",
            ),
            (
                &[("authorization", "Basic YWRhOm9vb29vb29vb29vb29vb28=")],
                other,
                None,
                "401",
            ),
            // A line without a role gives no access, and its name alone no role.
            (
                &[("authorization", "Bearer mmmmmmmmmmmmmmmm")],
                other,
                None,
                "401",
            ),
            (&[(TOKEN, "mmmmmmmmmmmmmmmm")], other, None, "401"),
            (
                &[(TOKEN, "mmmmmmmmmmmmmmmm")],
                other,
                Some(true),
                "mark admin",
            ),
            (
                &[("authorization", ada), (TOKEN, "mmmmmmmmmmmmmmmm")],
                other,
                None,
                "403",
            ),
            // Only the proxy may name users.
            (&[(user, "eve"), (groups, "admins")], other, None, "401"),
            (
                &[(user, "eve"), (groups, "x, admins")],
                PROXY,
                None,
                "eve admin",
            ),
            (
                &[(user, "eve"), (groups, "ops")],
                PROXY,
                Some(true),
                "eve operator",
            ),
            (&[(user, "eve")], PROXY, None, "eve user"),
            (
                &[
                    (user, "ada"),
                    (groups, "admins"),
                    (TOKEN, "aaaaaaaaaaaaaaaa"),
                ],
                PROXY,
                None,
                "ada user",
            ),
            (&[(user, "eve"), (user, "ada")], PROXY, None, "401"),
        ];
        for (headers, peer, password, expected) in cases {
            let found = found(&users, headers, peer, password);
            assert_eq!(found, expected, "{headers:?} {peer} {password:?}");
        }
    }

    #[test]
    fn roles_stay_in_force_without_their_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let users =
            |text: &str| Users::new(Some(file(folder.path(), text)), None, Audit::default());
        let peer = PROXY;
        let with_roles = users("ada aaaaaaaaaaaaaaaa user\n");
        assert_eq!(found(&with_roles, &[], peer, None), "401");
        let without = users("ada aaaaaaaaaaaaaaaa\n");
        assert_eq!(found(&without, &[], peer, None), " admin");
        assert_eq!(
            found(&without, &[(TOKEN, "aaaaaaaaaaaaaaaa")], peer, None),
            "ada admin"
        );
        fs::remove_file(folder.path().join("tokens")).expect("removed");
        assert_eq!(found(&with_roles, &[], peer, None), "500");
        assert_eq!(found(&without, &[], peer, None), " admin");
        assert_eq!(
            found(&without, &[(TOKEN, "aaaaaaaaaaaaaaaa")], peer, None),
            "500"
        );
    }
}
