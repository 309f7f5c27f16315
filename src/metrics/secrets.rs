//! Access control of the metrics endpoint: certificate, key and password.
//!
//! Each of them is a file, which is read again when it has changed.

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ibnet_record::limits;
use miette::Diagnostic;
use rustix::fs::OFlags;
use subtle::ConstantTimeEq;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Settings;

/// Min number of characters of a password. The server does not delay replies to wrong passwords,
/// so a short one could be guessed.
const SHORTEST_PASSWORD: usize = 16;

/// User name of HTTP basic authentication.
const USER: &str = "ibnet";

/// One of the three files. It is displayed as its configuration key without the name of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SecretFile {
    /// `tls_cert`.
    Certificate,
    /// `tls_key`.
    Key,
    /// `password_file`.
    Password,
    /// `tokens_file`.
    Tokens,
}

impl fmt::Display for SecretFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Certificate => "tls_cert",
            Self::Key => "tls_key",
            Self::Password => "password_file",
            Self::Tokens => "tokens_file",
        })
    }
}

/// The configuration key of a file. It is displayed with the name of the table, such as
/// `metrics.tls_cert`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SecretKey {
    prefix: &'static str,
    file: SecretFile,
}

impl fmt::Display for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.prefix, self.file)
    }
}

/// Reason why a certificate, key or password file cannot be used.
#[derive(Debug, thiserror::Error, Diagnostic)]
pub enum SecretsError {
    /// The file cannot be read.
    #[error("cannot read {} for {key}", path.display())]
    #[diagnostic(help("give the path of a file that the user of the service can read"))]
    Io {
        /// Configuration key of the file.
        key: SecretKey,
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// Other users can read or write the file.
    #[error("cannot use {} for {key}: other users can read or write it (found mode {mode:04o})", path.display())]
    #[diagnostic(help("run chmod 0600 on the file, or chmod 0640 with the group of the service"))]
    Mode {
        /// Configuration key of the file.
        key: SecretKey,
        /// Path of the file.
        path: PathBuf,
        /// Permission bits of the file.
        mode: u32,
    },
    /// The content of the file is not valid.
    #[error("cannot use {} for {key}: {found}", path.display())]
    #[diagnostic(help(
        "the certificate and the key are PEM files that belong together; the file of tokens has lines with a name and a token; the password file has one line of at least 16 characters without blanks, such as the output of `openssl rand -hex 24`"
    ))]
    Content {
        /// Configuration key of the file.
        key: SecretKey,
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with the content.
        found: String,
    },
}

/// Contents of the certificate, key and password files, as they were last read successfully.
pub struct Secrets {
    settings: Settings,
    stamps: Vec<Option<(SystemTime, u64)>>,
    tls: Option<TlsAcceptor>,
    password: Option<String>,
    /// Whether the last attempt to read failed. A failure is logged once.
    is_failing: bool,
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The password must not get into a log.
        f.debug_struct("Secrets")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl Secrets {
    /// Reads all files.
    ///
    /// # Errors
    /// Returns an error for the first file that cannot be used.
    pub fn read(settings: &Settings) -> Result<Self, SecretsError> {
        let stamps = stamps(settings);
        let tls = settings
            .tls
            .as_ref()
            .map(|(cert, key)| acceptor(settings.prefix, cert, key))
            .transpose()?;
        let password = settings
            .password_file
            .as_deref()
            .map(|path| password(settings.prefix, path))
            .transpose()?;
        Ok(Self {
            settings: settings.clone(),
            stamps,
            tls,
            password,
            is_failing: false,
        })
    }

    /// Reads changed files again. If a file cannot be used, all previous contents stay in use.
    pub fn refresh(&mut self) {
        if stamps(&self.settings) == self.stamps {
            return;
        }
        match Self::read(&self.settings) {
            Ok(fresh) => {
                *self = fresh;
                tracing::info!("certificate and password are reloaded");
            }
            Err(error) => {
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "cannot reload certificate and password; keeping the previous ones");
                }
            }
        }
    }

    /// Returns the TLS settings with the certificate, or `None` without a certificate.
    pub fn tls(&self) -> Option<TlsAcceptor> {
        self.tls.clone()
    }

    /// Returns whether requests need a password.
    pub fn has_password(&self) -> bool {
        self.password.is_some()
    }

    /// Returns whether the value of an `Authorization` header grants access: `Bearer` with the
    /// password, or `Basic` with `ibnet:password`. If no password is configured, any value does.
    pub fn authorizes(&self, authorization: Option<&str>) -> bool {
        let Some(password) = &self.password else {
            return true;
        };
        let same = |given: &str| bool::from(given.as_bytes().ct_eq(password.as_bytes()));
        match authorization.and_then(credentials) {
            Some((name, given)) => same(&given) && name.is_none_or(|name| name == USER),
            None => false,
        }
    }
}

/// What a user may do. The least comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Role {
    /// Sees the fabric and the own jobs.
    User,
    /// Sees everything, and marks alerts.
    Operator,
    /// May do everything.
    Admin,
}

impl Role {
    /// Returns the name of the role.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::User, Self::Operator, Self::Admin]
            .into_iter()
            .find(|role| role.as_str() == name)
    }
}

/// A user of the file of tokens. One without a role may mark alerts, and nothing else.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// Name, as the resource manager calls the user.
    pub name: String,
    /// Role, if the line has one.
    pub role: Option<Role>,
}

/// The users, each with a token of at least 16 characters. The file has a line `NAME TOKEN` or
/// `NAME TOKEN ROLE` for each of them; empty lines and lines with `#` at their beginning are
/// skipped.
#[derive(Clone, Debug)]
pub struct Users {
    prefix: &'static str,
    path: PathBuf,
}

impl Users {
    /// Names the file, and checks it.
    ///
    /// # Errors
    /// Returns an error if the file cannot be used.
    pub fn new(prefix: &'static str, path: &Path) -> Result<Self, SecretsError> {
        let users = Self {
            prefix,
            path: path.to_owned(),
        };
        users.read()?;
        Ok(users)
    }

    /// Reads the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be used.
    pub fn read(&self) -> Result<Tokens, SecretsError> {
        let key = SecretKey {
            prefix: self.prefix,
            file: SecretFile::Tokens,
        };
        let wrong = |found: String| SecretsError::Content {
            key,
            path: self.path.clone(),
            found,
        };
        let text = String::from_utf8(read(key, &self.path)?)
            .map_err(|_| wrong("it is not UTF-8 text".to_owned()))?;
        let mut all = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let (name, token, role) = match words[..] {
                [name, token] => (name, token, None),
                [name, token, role] => (name, token, Some(Role::named(role))),
                _ => ("", "", None),
            };
            if token.chars().count() < SHORTEST_PASSWORD || role == Some(None) {
                return Err(wrong(format!(
                    "line {number} is not a name, a token of at least 16 characters and, if \
                     any, one of the roles user, operator and admin"
                )));
            }
            let user = User {
                name: name.to_owned(),
                role: role.flatten(),
            };
            all.push((token.to_owned(), user));
        }
        Ok(Tokens(all))
    }
}

/// The users of a file by their tokens.
pub struct Tokens(Vec<(String, User)>);

impl Tokens {
    /// Returns the user with a token.
    pub fn find(&self, token: &str) -> Option<&User> {
        // Each token is compared, so the time does not depend on which one fits.
        self.0.iter().fold(None, |found, (known, user)| {
            let is_equal = bool::from(known.as_bytes().ct_eq(token.as_bytes()));
            if is_equal { Some(user) } else { found }
        })
    }

    /// Returns whether a user has a role.
    pub fn has_roles(&self) -> bool {
        self.0.iter().any(|(_, user)| user.role.is_some())
    }
}

/// Returns the name and the password of an `Authorization` header. The name of a bearer token is
/// `None`.
pub fn credentials(authorization: &str) -> Option<(Option<String>, String)> {
    let (scheme, given) = authorization.split_once(' ')?;
    let given = given.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some((None, given.to_owned()));
    }
    let text = String::from_utf8(BASE64.decode(given).ok()?).ok()?;
    let (name, password) = text.split_once(':')?;
    let is_basic = scheme.eq_ignore_ascii_case("basic");
    is_basic.then(|| (Some(name.to_owned()), password.to_owned()))
}

/// Returns the modification time and size of each file.
fn stamps(settings: &Settings) -> Vec<Option<(SystemTime, u64)>> {
    let tls = settings.tls.iter().flat_map(|(cert, key)| [cert, key]);
    let stamp = |path: &PathBuf| {
        fs::metadata(path)
            .and_then(|file| Ok((file.modified()?, file.len())))
            .ok()
    };
    tls.chain(&settings.password_file).map(stamp).collect()
}

/// Reads a file. Other users must not have access to key and password files.
fn read(key: SecretKey, path: &Path) -> Result<Vec<u8>, SecretsError> {
    let failed = |source| SecretsError::Io {
        key,
        path: path.to_owned(),
        source,
    };
    // Without this flag, opening a named pipe would wait for its other end and block the server.
    let file = File::options()
        .read(true)
        .custom_flags(OFlags::NONBLOCK.bits() as i32)
        .open(path)
        .map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(SecretsError::Content {
            key,
            path: path.to_owned(),
            found: "it is not a regular file".to_owned(),
        });
    }
    let mode = metadata.mode() & 0o7777;
    if key.file != SecretFile::Certificate && mode & 0o037 != 0 {
        return Err(SecretsError::Mode {
            key,
            path: path.to_owned(),
            mode,
        });
    }
    limits::read(file, limits::SECRET).map_err(failed)
}

fn password(prefix: &'static str, path: &Path) -> Result<String, SecretsError> {
    let key = SecretKey {
        prefix,
        file: SecretFile::Password,
    };
    let wrong = |found: &str| SecretsError::Content {
        key,
        path: path.to_owned(),
        found: found.to_owned(),
    };
    let text =
        String::from_utf8(read(key, path)?).map_err(|_| wrong("the password is not UTF-8 text"))?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    match password {
        password
            if password
                .chars()
                .any(|c| c.is_whitespace() || c.is_control()) =>
        {
            Err(wrong("the password contains blanks or control characters"))
        }
        password if password.chars().count() < SHORTEST_PASSWORD => {
            Err(wrong("the password is shorter than 16 characters"))
        }
        password => Ok(password.to_owned()),
    }
}

fn acceptor(prefix: &'static str, cert: &Path, key: &Path) -> Result<TlsAcceptor, SecretsError> {
    let [of_cert, of_key] =
        [SecretFile::Certificate, SecretFile::Key].map(|file| SecretKey { prefix, file });
    let wrong = |key, path: &Path, found: String| SecretsError::Content {
        key,
        path: path.to_owned(),
        found,
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(of_cert, cert)?).collect();
    let chain = chain.map_err(|error| wrong(of_cert, cert, error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong(
            of_cert,
            cert,
            "the file contains no certificate".to_owned(),
        ));
    }
    let key_der = PrivateKeyDer::from_pem_slice(&read(of_key, key)?)
        .map_err(|error| wrong(of_key, key, error.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions();
    let config = config.and_then(|config| {
        config
            .with_no_client_auth()
            .with_single_cert(chain, key_der)
    });
    Ok(TlsAcceptor::from(Arc::new(
        config.map_err(|error| wrong(of_key, key, error.to_string()))?,
    )))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::metrics::Content;

    const PASSWORD: &str = "correct-horse-battery";

    fn file(text: &str, mode: u32) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("password");
        fs::write(&path, text).expect("written");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("mode is set");
        (folder, path)
    }

    fn settings(path: &Path) -> Settings {
        Settings {
            prefix: "metrics.",
            listen: ([127, 0, 0, 1], 0).into(),
            tls: None,
            password_file: Some(path.to_owned()),
            plain_http: Vec::new(),
            content: Content::default(),
        }
    }

    #[test]
    fn password_file_readable_by_others_is_rejected() {
        for mode in [0o644, 0o604, 0o620, 0o666, 0o602] {
            let (_folder, path) = file(PASSWORD, mode);
            assert!(
                matches!(password("", &path), Err(SecretsError::Mode { mode: found, .. }) if found == mode),
                "{mode:o}"
            );
        }
        for mode in [0o600, 0o400, 0o640, 0o440] {
            let (_folder, path) = file(PASSWORD, mode);
            assert_eq!(
                password("", &path).expect("the password is valid"),
                PASSWORD,
                "{mode:o}"
            );
        }
    }

    #[test]
    fn password_must_be_one_line_of_sixteen_characters_or_more() {
        for text in [
            "",
            "\n",
            "short",
            "fifteen-letters",
            "sixteen  letters",
            "two lines of it\n\nand more",
            "a\0bcdefghijklmnopqrst",
        ] {
            let (_folder, path) = file(text, 0o600);
            assert!(
                matches!(password("", &path), Err(SecretsError::Content { .. })),
                "{text:?}"
            );
        }
        for text in [
            "sixteen-letters!",
            "sixteen-letters!\n",
            "sixteen-letters!\r\n",
        ] {
            let (_folder, path) = file(text, 0o600);
            assert_eq!(
                password("", &path).expect("the password is valid"),
                "sixteen-letters!"
            );
        }
    }

    #[test]
    fn users_have_names_and_long_tokens() {
        let name = |text: &str, mode: u32, token: &str| {
            let (_folder, path) = file(text, mode);
            let tokens = Users::new("users.", &path)?.read()?;
            Ok::<_, SecretsError>(tokens.find(token).map(|user| user.name.clone()))
        };
        let text = "# people\n\nada 0123456789abcdef\ngrace fedcba9876543210\n";
        for (token, expected) in [
            ("0123456789abcdef", Some("ada")),
            ("fedcba9876543210", Some("grace")),
            ("0123456789abcde", None),
            ("ada", None),
            ("", None),
        ] {
            let found = name(text, 0o600, token).expect("a valid file");
            assert_eq!(found.as_deref(), expected, "{token}");
        }
        let refused = |text, mode| name(text, mode, "").expect_err("refused").to_string();
        assert!(refused(text, 0o644).contains("other users can read or write it"));
        let roles =
            "ada 0123456789abcdef user\ngrace fedcba9876543210 admin\nbob bbbbbbbbbbbbbbbb\n";
        let (_folder, path) = file(roles, 0o600);
        let tokens = Users::new("users.", &path)
            .and_then(|users| users.read())
            .expect("a valid file");
        let role = |token| tokens.find(token).and_then(|user| user.role);
        assert_eq!(
            ["0123456789abcdef", "fedcba9876543210", "bbbbbbbbbbbbbbbb"].map(role),
            [Some(Role::User), Some(Role::Admin), None]
        );
        assert!(tokens.has_roles() && Role::User < Role::Operator && Role::Operator < Role::Admin);
        for text in [
            "ada short",
            "ada 0123456789abcdef x",
            "ada 0123456789abcdef user x",
            "0123456789abcdef",
        ] {
            let error = refused(text, 0o600);
            assert!(
                error.contains("users.tokens_file: line 1 is not"),
                "{error}"
            );
            assert!(!error.contains("0123456789abcdef"), "{error}");
        }
    }

    #[test]
    fn named_pipe_is_rejected_without_waiting() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("pipe");
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).expect("a named pipe");
        let error = password("", &path).expect_err("it is not a file");
        assert!(
            error.to_string().contains("it is not a regular file"),
            "{error}"
        );
    }

    #[test]
    fn error_names_the_key_of_the_configuration() {
        let (_folder, path) = file("short", 0o600);
        for (prefix, key) in [
            ("metrics.", "for metrics.password_file:"),
            ("", "for password_file:"),
        ] {
            let error = Secrets::read(&Settings {
                prefix,
                ..settings(&path)
            })
            .expect_err("the password is short");
            assert!(error.to_string().contains(key), "{error}");
            let tls = Some((path.clone(), path.clone()));
            let error = Secrets::read(&Settings {
                prefix,
                tls,
                ..settings(&path)
            })
            .expect_err("no certificate");
            assert!(
                error
                    .to_string()
                    .contains(&format!("for {prefix}tls_cert: ")),
                "{error}"
            );
        }
    }

    #[test]
    fn only_the_password_grants_access() {
        let (_folder, path) = file(PASSWORD, 0o600);
        let secrets = Secrets::read(&settings(&path)).expect("the files are valid");
        let basic = |text: &str| format!("Basic {}", BASE64.encode(text));
        for good in [
            &format!("Bearer {PASSWORD}"),
            &format!("bearer {PASSWORD}"),
            &basic(&format!("ibnet:{PASSWORD}")),
        ] {
            assert!(secrets.authorizes(Some(good)), "{good}");
        }
        let wrong = [
            String::new(),
            PASSWORD.to_owned(),
            "Bearer".to_owned(),
            "Bearer ".to_owned(),
            format!("Bearer {PASSWORD}x"),
            format!("Bearer {}", &PASSWORD[1..]),
            format!("Digest {PASSWORD}"),
            basic(PASSWORD),
            basic(&format!("root:{PASSWORD}")),
            basic("ibnet:"),
            "Basic !".to_owned(),
        ];
        for wrong in wrong {
            assert!(!secrets.authorizes(Some(&wrong)), "{wrong}");
        }
        assert!(!secrets.authorizes(None));
    }

    #[test]
    fn changed_file_is_reloaded_and_invalid_one_is_ignored() {
        let (_folder, path) = file(PASSWORD, 0o600);
        let mut secrets = Secrets::read(&settings(&path)).expect("the files are valid");
        fs::write(&path, "short").expect("written");
        secrets.refresh();
        assert!(secrets.authorizes(Some(&format!("Bearer {PASSWORD}"))) && secrets.is_failing);
        fs::write(&path, "another-password-of-ours").expect("written");
        secrets.refresh();
        assert!(
            secrets.authorizes(Some("Bearer another-password-of-ours"))
                && !secrets.authorizes(Some(&format!("Bearer {PASSWORD}")))
        );
        fs::remove_file(&path).expect("removed");
        secrets.refresh();
        assert!(
            secrets.authorizes(Some("Bearer another-password-of-ours")),
            "a removed file keeps the last password"
        );
        assert!(!secrets.authorizes(None));
    }
}
