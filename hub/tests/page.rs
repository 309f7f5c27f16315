//! The page in a real browser, on a simulated fabric. `page/test/browser` has the tests.

use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Paths of Chromium in Debian and in other distributions.
const BROWSERS: [&str; 3] = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/// Prints why the test is skipped, so that the test runner does not capture it. With
/// `IBNET_REQUIRE_BROWSER` the test fails instead.
fn skip(reason: &str) {
    assert!(std::env::var_os("IBNET_REQUIRE_BROWSER").is_none(), "{reason}");
    let _ = std::io::stderr().write_all(format!("SKIPPED: {reason}\n").as_bytes());
}

#[test]
fn page_shows_the_simulated_fabric_in_a_browser() {
    run("test/browser/page.test.mjs");
}

#[test]
fn page_is_usable_with_a_keyboard_and_a_screen_reader() {
    run("test/browser/access.test.mjs");
}

#[test]
fn page_answers_the_questions_of_an_operator_about_known_faults() {
    run("test/browser/faults.test.mjs");
}

/// Runs the browser tests of a file.
fn run(file: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !BROWSERS.iter().any(|path| Path::new(path).exists()) {
        return skip("Chromium is not installed; the page is not tested in a browser (Debian: apt install chromium)");
    }
    if !folder.join("page/node_modules/playwright-core").exists() {
        return skip("the packages of the page are not installed; run npm ci in hub/page");
    }
    let tests = Command::new("node")
        .args(["--test", file])
        .current_dir(folder.join("page"))
        .env("IBNET_HUB", env!("CARGO_BIN_EXE_ibnet-hub"))
        .env("IBNET_NET", folder.join("../examples/stria.p"))
        .env("IBNET_OUT", folder.join("../out/hub"))
        .output()
        .expect("node is installed");
    let report = String::from_utf8_lossy(&tests.stdout);
    assert!(tests.status.success(), "{report}\n{}", String::from_utf8_lossy(&tests.stderr));
}
