//! Logs of RPM builds: mock makes a chroot with dnf and runs rpmbuild in it, and each of them can fail.

use std::fmt::Write as _;

use super::*;

/// What mock prints after a failure, with the output of the command that failed.
fn mock(output: &str) -> String {
    format!(
        "INFO: Start(acme-1-1.fc42.src.rpm)  Config(fedora-42-x86_64)\nStart: dnf5 install\n\
         WARNING: Dnf command failed, retrying, attempt #2, sleeping 10s\n\
         ERROR: Exception(acme-1-1.fc42.src.rpm) Config(fedora-42-x86_64) 0 minutes 52 seconds\n\
         INFO: Results and/or logs in: /var/lib/mock/fedora-42-x86_64/result\n\
         INFO: Cleaning up build root ('cleanup_on_failure=True')\nStart: clean chroot\nFinish: clean chroot\n\
         ERROR: Command failed: \n # /usr/bin/systemd-nspawn -q -M 4c26 -D /var/lib/mock/fedora-42-x86_64/root -a \
         --bind=/tmp/mock-resolv.b:/etc/resolv.conf --setenv=TERM=vt100 /usr/bin/dnf5 install @buildsys-build\n{output}\n"
    )
}

/// What rpmbuild prints: a chroot that needed two tries, then the phases up to the one that failed, with its output.
fn rpmbuild(phase: &str, output: &str) -> String {
    let mut log = "Errors during downloading metadata for repository 'fedora':\n\
                   \x20 - Curl error (28): Timeout was reached for https://mirror.example.org/repodata/repomd.xml []\n\
                   Error: Failed to download metadata for repo 'fedora': Cannot download repomd.xml: All mirrors were tried\n\
                   WARNING: Dnf command failed, retrying, attempt #2, sleeping 10s\nFinish: dnf install\n"
        .to_owned();
    for of in ["prep", "build", "install", "check"] {
        let script = "/bin/sh -e /var/tmp/rpm-tmp.4kGfUT\n+ umask 022\n+ cd /builddir/build/BUILD";
        writeln!(log, "Executing(%{of}): {script}").unwrap();
        if of == phase {
            break;
        }
        log += "+ RPM_EC=0\n+ exit 0\n";
    }
    format!(
        "{log}{output}\nerror: Bad exit status from /var/tmp/rpm-tmp.4kGfUT (%{phase})\n\n\nRPM build errors:\n    \
         Bad exit status from /var/tmp/rpm-tmp.4kGfUT (%{phase})\n"
    )
}

fn expect(log: &str, cause: Cause, action: Action) {
    let verdict = judged(&code(1, log));
    assert_eq!((verdict.cause, verdict.action), (cause, action), "{log}\n{:#?}", verdict.evidence);
}

#[test]
fn failing_mirrors_are_retried_but_missing_repositories_not() {
    for outside in [
        "Errors during downloading metadata for repository 'fedora':\n  - Curl error (6): Couldn't resolve host name for https://mirrors.example.org/metalink?repo=fedora-42&arch=x86_64 [Could not resolve host: mirrors.example.org]\nError: Failed to download metadata for repo 'fedora': Cannot prepare internal mirrorlist: Curl error (6): Couldn't resolve host name for https://mirrors.example.org/metalink?repo=fedora-42&arch=x86_64",
        ">>> Status code: 503 for https://mirrors.example.org/metalink?repo=fedora-42&arch=x86_64 (IP: 192.0.2.1)\nFailed to download metadata (metalink: \"https://mirrors.example.org/metalink?repo=fedora-42\") for repository \"fedora\"\n Librepo error: Cannot prepare internal mirrorlist: Status code: 503 for https://mirrors.example.org/metalink?repo=fedora-42",
        "Error: Failed to download metadata for repo 'updates': Cannot download repomd.xml: Cannot download repodata/repomd.xml: All mirrors were tried",
        "[MIRROR] acme-1-1.x86_64.rpm: Status code: 404 for http://mirror.example.org/acme-1-1.x86_64.rpm (IP: 192.0.2.1)\n[FAILED] acme-1-1.x86_64.rpm: No more mirrors to try - All mirrors were already tried without success\nError: Error downloading packages:\n  Cannot download Packages/acme-1-1.x86_64.rpm: All mirrors were tried",
        "  - Downloading successful, but checksum doesn't match. Calculated: 12(sha256)  Expected: 34(sha256)\nError: Failed to download metadata for repo 'acme': Yum repo downloading error",
        "[MIRROR] acme-1-1.x86_64.rpm: Interrupted by header callback: Server reports Content-Length: 234 but expected size is: 236",
        "repomd.xml GPG signature verification error: Bad GPG signature",
        // one mirror has not got it, and another does not answer
        "  - Status code: 404 for http://old.example.org/fedora/repodata/repomd.xml (IP: 192.0.2.1)\n  - Curl error (28): Timeout was reached for http://new.example.org/fedora/repodata/repomd.xml []\nError: Failed to download metadata for repo 'fedora': Cannot download repomd.xml: All mirrors were tried",
    ] {
        expect(&mock(outside), Cause::Infra, Action::AsIs);
    }
    for wrong in [
        "Errors during downloading metadata for repository 'copr-me-acme':\n  - Status code: 404 for https://download.example.org/results/me/acme/fedora-99-x86_64/repodata/repomd.xml (IP: 192.0.2.1)\nError: Failed to download metadata for repo 'copr-me-acme': Cannot download repomd.xml: Cannot download repodata/repomd.xml: All mirrors were tried",
        "Error: Failed to download metadata for repo 'appstream': Cannot prepare internal mirrorlist: No URLs in mirrorlist",
        "  - Curl error (37): Couldn't read a file:// file for file:///srv/acme/repodata/repomd.xml [Couldn't open file /srv/acme/repodata/repomd.xml]\nError: Failed to download metadata for repo 'acme': Cannot download repomd.xml: All mirrors were tried",
        "Public key for acme-1-1.x86_64.rpm is not installed. Failing package is: acme-1-1.x86_64\n GPG Keys are configured as: file:///etc/pki/RPM-GPG-KEY-acme\nError: GPG check FAILED",
    ] {
        expect(&mock(wrong), Cause::Configuration, Action::No);
    }
}

#[test]
fn unresolvable_packages_are_the_builds_own_failure() {
    for wrong in [
        "No matching package to install: 'acme-devel >= 3'\nNot all dependencies satisfied\nError: Some packages could not be found.",
        "Failed to resolve the transaction:\nNo match for argument: acme-devel\nYou can try to add to command line:\n  --skip-unavailable to skip unavailable packages",
        "Error: \n Problem: conflicting requests\n  - nothing provides libacme.so.3()(64bit) needed by bolt-1-1.x86_64 from fedora\n(try to add '--skip-broken' to skip uninstallable packages)",
        " Problem 1: package acme-1-1.x86_64 from fedora requires libbolt.so.3()(64bit), but none of the providers can be installed\n  - cannot install both bolt-2-1.x86_64 from fedora and bolt-3-1.x86_64 from copr",
        "Error: Transaction test error:\n  file /usr/bin/acme from install of acme-1-1.x86_64 conflicts with file from package bolt-2-1.x86_64",
        "error: Failed build dependencies:\n\tacme-devel is needed by hello-1-1.fc42.x86_64",
        "ERROR: Source RPM is not installable:\nerror: acme-1-1.src.rpm: not an rpm package",
        "ERROR: No specfile found in srpm: acme-1-1.src.rpm",
    ] {
        expect(&mock(wrong), Cause::Deterministic, Action::No);
    }
}

#[test]
fn chroot_setup_failures_are_not_the_builds() {
    for busy in [
        "ERROR: Build root is locked by another process.",
        "error: can't create transaction lock on /var/lib/rpm/.rpm.lock (Resource temporarily unavailable)",
        "useradd: cannot lock /etc/passwd; try again later.",
    ] {
        expect(&mock(busy), Cause::Contention, Action::AsIs);
    }
    for outside in [
        "Failed to register machine: Connection timed out",
        "Failed to allocate scope: Unit machine-4c26.scope was already loaded or has a fragment file.",
        "ERROR: Failed to initialize chroot",
        "BuildrootError: could not init mock buildroot, mock exited with status 30; see root.log for more information",
        "error: rpmdb: BDB0113 Thread/process 1/2 failed: BDB1507 Thread died in Berkeley DB library",
    ] {
        expect(&mock(outside), Cause::Infra, Action::AsIs);
    }
    for full in [
        "Error: Transaction test error:\n  installing package acme-1-1.x86_64 needs 12MB more space on the / filesystem\n\nError Summary\n-------------\nDisk Requirements:\n   At least 12MB more space needed on the / filesystem.",
        "error: unpacking of archive failed on file /usr/bin/acme;5f: cpio: write failed - No space left on device",
    ] {
        expect(&mock(full), Cause::DiskFull, Action::Elsewhere);
    }
    for wrong in [
        "ERROR: Could not find required config file: /etc/mock/fedora-99-x86_64.cfg",
        "ERROR: Must be member of 'mock' group to run mock! (Did you run usermod?)",
    ] {
        expect(wrong, Cause::Configuration, Action::No);
    }
    let not_permitted = mock("Failed to mount proc (type proc) on /proc: Operation not permitted");
    expect(&not_permitted, Cause::Deterministic, Action::No);
    let timeout = "ERROR: Timeout(3600) expired for command:\n # rpmbuild -bb acme.spec";
    expect(timeout, Cause::Timeout, Action::Longer);
}

#[test]
fn after_a_recovered_mirror_the_phase_decides() {
    expect(&rpmbuild("check", "1 of 12 checks differ"), Cause::Deterministic, Action::No);
    let failed_check = rpmbuild("check", "FAIL: run-x.sh\nmake: *** [Makefile:7: check] Error 1");
    expect(&failed_check, Cause::Deterministic, Action::No);
    expect(&rpmbuild("build", "a.c:3:1: error: 'x' undeclared"), Cause::Deterministic, Action::No);
    // nothing says why: one retry, and the mirror is not blamed
    expect(&rpmbuild("build", "make: *** [Makefile:7: all] Error 1"), Cause::Unknown, Action::AsIs);
    expect(&rpmbuild("prep", "+ exit 1"), Cause::Unknown, Action::AsIs);
    let files = "error: Installed (but unpackaged) file(s) found:\n   /usr/bin/acme";
    expect(&format!("{}{files}", rpmbuild("install", "+ exit 0")), Cause::Deterministic, Action::No);
}

#[test]
fn a_mirrors_missing_file_is_overcome_by_rpmbuild() {
    let lacks =
        "  - Status code: 404 for https://mirror.example.org/fedora/repodata/repomd.xml (IP: 192.0.2.1)";
    let build = rpmbuild("build", "make: *** [Makefile:7: all] Error 1");
    expect(&format!("{lacks}\n{build}"), Cause::Unknown, Action::AsIs);
    expect(&mock(lacks), Cause::Configuration, Action::No);
}

#[test]
fn denied_access_to_rpms_database_is_configuration() {
    let denied = "error: can't create transaction lock on /var/lib/rpm/.rpm.lock (Permission denied)\n\
                  error: cannot open Packages index using db5 - Permission denied (13)\n\
                  error: cannot open Packages database in /var/lib/rpm";
    expect(denied, Cause::Configuration, Action::No);
    expect("error: cannot open Packages database in /var/lib/rpm", Cause::Infra, Action::AsIs);
}

#[test]
fn outside_trouble_explains_its_own_failed_phase() {
    let lost = "curl: (28) Operation timed out after 30001 milliseconds";
    expect(&rpmbuild("prep", lost), Cause::Infra, Action::AsIs);
    let tests = judged(&code(1, &rpmbuild("check", lost)));
    let own = tests.outlook.own_failure.unwrap_or_default();
    assert!(own.contains("(%check)") && tests.confidence <= 0.5, "{own} {}", tests.confidence);
}

#[test]
fn a_kill_in_a_phase_keeps_memory_cause() {
    for killed in [
        "g++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\nmake: *** [Makefile:7: a.o] Error 1",
        "/var/tmp/rpm-tmp.4kGfUT: line 35:  4711 Killed                  make -j8",
        "BUILDSTDERR: g++: fatal error: Killed signal terminated program cc1plus",
        "DEBUG util.py:463:  BUILDSTDERR: g++: fatal error: Killed signal terminated program cc1plus",
    ] {
        for phase in ["build", "install", "check"] {
            let verdict = judged(&code(1, &rpmbuild(phase, killed)));
            assert_eq!(verdict.cause, Cause::Oom, "{killed} {:#?}", verdict.evidence);
            let counted =
                evidence(Some(failed(Some(1))), Exit::Code(1), &rpmbuild(phase, "make: *** [all] Error 1"));
            let proven = judged(&counted);
            assert_eq!((proven.cause, proven.action), (Cause::Oom, Action::Bigger), "{phase}");
        }
    }
}

#[test]
fn spec_file_errors_match_behind_mock_prefixes() {
    for wrong in [
        "error: line 12: Unknown tag: Foo: bar",
        "error: Architecture is not included: aarch64",
        "RPM build errors:\n    File not found: /builddir/build/BUILDROOT/acme-1-1.x86_64/usr/bin/acme",
        "error: Empty %files file /builddir/build/BUILD/acme/debugsourcefiles.list",
        "ERROR   0002: file '/usr/bin/acme' contains an invalid runpath '/build' in [/build]",
    ] {
        for before in ["", "DEBUG util.py:463:  ", "BUILDSTDERR: "] {
            let lines: Vec<String> = wrong.lines().map(|line| format!("{before}{line}")).collect();
            expect(&lines.join("\n"), Cause::Deterministic, Action::No);
        }
    }
}
