//! RPM builds under the agent: key and phases come from the command and its output, and a failure is judged by both.
//!
//! `rpmbuild` runs for real. It is in Debian's package `rpm`; without it these tests are skipped, unless `PLIMSOLL_RPM_REQUIRED` is set.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use plimsoll_tests::{Site, assert_has};
use serde_json::Value;

/// A source package `acme-1.0-1` with these commands in `%build` and `%check`; `None` without rpmbuild.
fn source_package(dir: &Path, build: &str, check: &str) -> Option<PathBuf> {
    let spec = format!(
        "Name: acme\nVersion: 1.0\nRelease: 1\nSummary: x\nLicense: MIT\nBuildArch: noarch\n%description\nx\n%prep\ntrue\n\
         %build\n{build}\n%install\nmkdir -p %{{buildroot}}/usr\n%check\n{check}\n%files\n/usr\n"
    );
    fs::write(dir.join("acme.spec"), spec).unwrap();
    let mut rpmbuild = Command::new("rpmbuild");
    rpmbuild.args(["--define", &top(dir), "-bs", "acme.spec"]).current_dir(dir);
    let Ok(output) = rpmbuild.output() else {
        let required = std::env::var_os("PLIMSOLL_RPM_REQUIRED").is_some();
        assert!(!required, "rpmbuild is missing, and PLIMSOLL_RPM_REQUIRED is set");
        eprintln!("skipped: no rpmbuild");
        return None;
    };
    assert!(output.status.success(), "{output:?}");
    Some(dir.join("SRPMS/acme-1.0-1.src.rpm"))
}

fn top(dir: &Path) -> String {
    format!("_topdir {}", dir.display())
}

/// What was measured, reported and decided of a build.
struct JudgedBuild {
    code: Option<i32>,
    stderr: String,
    shown: Value,
    phases: Vec<String>,
    verdict: Value,
}

/// Runs a command under the agent, and asks for a verdict with its output.
fn judged(site: &Site, attempt: &str, options: &[&str], command: &[&str]) -> JudgedBuild {
    let [report, log] = ["report.json", "log"].map(|name| site.dir.path().join(format!("{attempt}.{name}")));
    let run = ["run", "--attempt", attempt, "--phases", "rpm", "--report-file", report.to_str().unwrap()];
    let ran = site.agent.call(&[&run[..], options, &["--"], command].concat());
    fs::write(&log, format!("{}{}", ran.stdout, ran.stderr)).unwrap();
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let phases = report["phases"].as_array().unwrap().iter();
    JudgedBuild {
        code: ran.code,
        stderr: ran.stderr,
        shown: site.agent.json(&["show", "--attempt", attempt]),
        phases: phases.map(|phase| phase["name"].as_str().unwrap().to_owned()).collect(),
        verdict: site.agent.json(&["should-retry", "--attempt", attempt, "--log", log.to_str().unwrap()]),
    }
}

impl JudgedBuild {
    /// Cause and action of the verdict.
    fn decision(&self) -> (&str, &str) {
        (self.verdict["cause"].as_str().unwrap(), self.verdict["action"].as_str().unwrap())
    }

    /// Newer versions of rpmbuild make and remove a directory of their own around the sections.
    fn sections(&self) -> Vec<&str> {
        let of_spec = self.phases.iter().map(String::as_str);
        of_spec.filter(|name| name.starts_with('%') && *name != "%mkbuilddir").collect()
    }
}

#[test]
fn an_rpm_rebuild_gets_key_and_phases() {
    let site = Site::start().unwrap();
    let check = "echo '1 of 12 checks differ'; false";
    let Some(package) = source_package(site.dir.path(), "sleep 0.3", check) else { return };
    let top = top(site.dir.path());
    let rebuild = ["rpmbuild", "--define", &top, "--rebuild", package.to_str().unwrap()];
    let failed = judged(&site, "check", &[], &rebuild);
    assert_eq!(failed.code, Some(1), "{}", failed.stderr);
    let shown = failed.shown.to_string();
    assert_has(&shown, ["\"acme\"", "\"1.0\"", "\"rpm\""]);
    assert_eq!(failed.sections(), ["%prep", "%build", "%install", "%check"]);
    assert_eq!(failed.decision(), ("deterministic", "no"), "{}", failed.verdict);
    assert!(failed.verdict.to_string().contains("(%check)"), "{}", failed.verdict);
}

/// As `systemd-nspawn` does with its container: the build goes on in a scope outside of the group that was made for it.
#[test]
fn a_build_moved_to_another_cgroup_is_measured() {
    let site = Site::start().unwrap();
    let memory = Path::new("/sys/fs/cgroup/memory");
    let (mount, field) =
        if memory.is_dir() { (memory, "[0-9]*:memory:") } else { (Path::new("/sys/fs/cgroup"), "0::") };
    let name = format!("moved-{}.scope", std::process::id());
    let script = format!(
        "own={}$(sed -n 's/^{field}//p' /proc/self/cgroup); mkdir $own/../{name} && echo 0 >$own/../{name}/cgroup.procs || exit 3; \
         cd $own/../{name} && pwd -P; {{ head -c 100M /dev/zero; echo; sleep 8; }} | tail >/dev/null",
        mount.display()
    );
    let report = site.dir.path().join("report.json");
    let ran = site.agent.run(&format!("--key package=mover --report-file {}", report.display()), &script);
    let moved_to = ran.stdout.trim();
    if ran.code == Some(3) || moved_to.is_empty() {
        eprintln!("skipped, no cgroup can be made here: {}", ran.stderr);
        return;
    }
    // a group stays busy for a moment after its last process
    let removed = (0..10_000).any(|_try| fs::remove_dir(moved_to).is_ok());
    assert!(removed, "{moved_to}");
    let report: Value = serde_json::from_str(&fs::read_to_string(report).unwrap()).unwrap();
    let need = report["totals"]["need_peak_bytes"].as_u64().unwrap();
    assert!((95 << 20..200 << 20).contains(&need), "{need}: {report}");
}
