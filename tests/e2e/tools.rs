//! External programs that some tests need, and the files of the repository.

use std::{path::Path, process::Command};

/// Whether a program is here. If not, says that the test is skipped; fails where `PLIMSOLL_..._REQUIRED` is set, if there is such a
/// variable. `words` are those with which the program does nothing and succeeds.
pub(crate) fn has(program: &str, words: &[&str], required: Option<&str>) -> bool {
    let is_here = Command::new(program).args(words).output().is_ok_and(|output| output.status.success());
    let is_required = required.is_some_and(|name| std::env::var_os(name).is_some());
    assert!(is_here || !is_required, "{program} is missing, and {required:?} is set");
    if !is_here {
        eprintln!("skipped: {program} is not installed");
    }
    is_here
}

/// Whether `script`(1) is here, which makes terminals.
pub(crate) fn has_script() -> bool {
    has("script", &["--version"], None)
}

/// Whether Python is here.
pub(crate) fn has_python() -> bool {
    has("python3", &["--version"], Some("PLIMSOLL_PYTHON_REQUIRED"))
}

/// Whether Prometheus and its tool are here.
pub(crate) fn has_prometheus() -> bool {
    let has = |program| has(program, &["--version"], Some("PLIMSOLL_PROMETHEUS_REQUIRED"));
    has("prometheus") && has("promtool")
}

/// The root of the repository.
pub(crate) fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}
