//! Bundles the page, and lists its files for the program.
//!
//! The page is in `page/`. If its bundle in `page/dist/` is older than its sources, this script
//! runs `npm ci` and `npm run build`. `IBNET_HUB_PAGE=FOLDER` uses a finished bundle instead, for a
//! build without Node.

use std::error::Error;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Files and folders that the bundle depends on.
const SOURCES: [&str; 5] = [
    "src",
    "build.mjs",
    "package.json",
    "package-lock.json",
    "tsconfig.json",
];

/// Content types by the ending of the name.
const TYPES: [(&str, &str); 6] = [
    ("css", "text/css; charset=utf-8"),
    ("html", "text/html; charset=utf-8"),
    ("js", "text/javascript; charset=utf-8"),
    ("json", "application/json"),
    ("svg", "image/svg+xml"),
    ("woff2", "font/woff2"),
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed=IBNET_HUB_PAGE");
    let root = PathBuf::from(std::env::var("CARGO_MANIFEST_DIR")?);
    let page = root.join("page");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={}", page.join(source).display());
    }
    let bundle = match std::env::var_os("IBNET_HUB_PAGE") {
        Some(folder) => PathBuf::from(folder),
        None if page.join("package.json").exists() => {
            bundle(&page)?;
            page.join("dist")
        }
        // Before the page exists, one plain file shows that the hub works.
        None => root.join("src/http/placeholder"),
    };
    println!("cargo::rerun-if-changed={}", bundle.display());
    let list = list(&bundle)?;
    fs::write(
        PathBuf::from(std::env::var("OUT_DIR")?).join("page.rs"),
        list,
    )?;
    Ok(())
}

/// Runs the bundler if the bundle is older than its sources.
fn bundle(page: &Path) -> Result<(), Box<dyn Error>> {
    let built = modified(&page.join("dist/index.html"));
    let mut newest = SystemTime::UNIX_EPOCH;
    for source in SOURCES {
        newest = newest.max(newest_in(&page.join(source))?);
    }
    if built.is_some_and(|built| built >= newest) {
        return Ok(());
    }
    let installed = modified(&page.join("node_modules/.package-lock.json"));
    if installed.is_none() || installed < modified(&page.join("package-lock.json")) {
        npm(page, &["ci", "--no-audit", "--no-fund", "--ignore-scripts"])?;
    }
    npm(page, &["run", "--silent", "build"])
}

fn npm(page: &Path, arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    let command = format!("npm {}", arguments.join(" "));
    let status = Command::new("npm").args(arguments).current_dir(page).status().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => "cannot bundle the page of ibnet-hub: Node is not installed (found no npm in PATH); install Node 18 or \
                                    newer with npm (Debian: apt install nodejs npm), or set IBNET_HUB_PAGE to a folder with a finished bundle"
            .to_owned(),
        _ => format!("cannot run {command} in {}: {error}", page.display()),
    })?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("cannot bundle the page of ibnet-hub: {command} in {} failed ({status}); its messages are above", page.display())
            .into())
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// Returns the time of the last change of a file, or of any file in a folder.
fn newest_in(path: &Path) -> io::Result<SystemTime> {
    let Some(mut newest) = modified(path) else {
        return Ok(SystemTime::UNIX_EPOCH);
    };
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            newest = newest.max(newest_in(&entry?.path())?);
        }
    }
    Ok(newest)
}

/// Returns the Rust code of a list of all files: URL, content type, content.
fn list(bundle: &Path) -> Result<String, Box<dyn Error>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(bundle)
        .map_err(|error| {
            format!(
                "cannot read the bundle of the page in {}: {error}; run npm run build in hub/page",
                bundle.display()
            )
        })?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<_>>()?;
    paths.sort();
    let mut list = String::from("&[\n");
    for path in paths {
        let Some((_, content_type)) = TYPES
            .iter()
            .find(|(ending, _)| path.extension() == Some(OsStr::new(ending)))
        else {
            continue;
        };
        let name = path
            .file_name()
            .and_then(OsStr::to_str)
            .ok_or("a file of the bundle has a name that is not UTF-8")?;
        let url = if name == "index.html" {
            "/".to_owned()
        } else {
            format!("/{name}")
        };
        list += &format!(
            "    ({url:?}, {content_type:?}, include_bytes!({:?})),\n",
            path.display().to_string()
        );
    }
    Ok(list + "]\n")
}
