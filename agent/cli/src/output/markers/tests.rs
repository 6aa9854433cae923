//! Marks in lines that come whole, in pieces, and broken.

use proptest::prelude::*;

use super::*;

fn all() -> PhaseMarks {
    let patterns = ["^Entering (.+)$", r"^\[(?:\d+)/(?:\d+)\] (?P<what>\w+)"];
    PhaseMarks {
        tools: PHASE_TOOLS.clone(),
        patterns: patterns.map(|text| Pattern::new(text).unwrap()).to_vec(),
        terminals: false,
    }
}

fn scan(text: &[u8]) -> Vec<PhaseMark> {
    Scanner::new(all()).scan(text)
}

fn phase(name: &str) -> PhaseMark {
    PhaseMark::Phase(name.to_owned())
}

#[test]
fn multiline_patterns_scan_each_line_once() {
    let kinds = PhaseMarks { patterns: vec![Pattern::new(r"\s*(x)").unwrap()], ..PhaseMarks::default() };
    let mut lines = vec![b'\n'; 1 << 19];
    lines.extend(b"x\n");
    assert_eq!(Scanner::new(kinds).scan(&lines), [phase("x")]);
}

const LOG: &str = "hello\r\n\x1b[0Ksection_start:1560896352:prepare[collapsed=true,hide_duration=true]\r\x1b[0KPrepare\n\
    \x1b[1;34m==>\x1b[0m zlib: Executing phase: \x1b[0;36m'edit'\x1b[0m\n==> [a1b2c3d] zlib-ng: Executing phase: 'build'\n\
    section_end:1560896353:prepare\r\x1b[0K\x1b[0Ksection_start:1:b-2.x\r\x1b[0Kb\r\n50 %\r100 %\r\n\
    \x1b[32mEntering\x1b[m directory \u{e4}\r\n[ 1/20] no [2/2] x\n[2/20] Compiling\n\
    ==> zlib: Successfully installed zlib-1.3-abc\nEntering nowhere without an end";

fn marks() -> Vec<PhaseMark> {
    vec![
        PhaseMark::SectionStart("prepare".to_owned()),
        phase("zlib: edit"),
        phase("zlib-ng: build"),
        PhaseMark::SectionEnd("prepare".to_owned()),
        PhaseMark::SectionStart("b-2.x".to_owned()),
        phase("directory ä"),
        phase("Compiling"),
        PhaseMark::PhaseEnd,
    ]
}

#[test]
fn marks_are_found_wherever_the_bytes_are_cut() {
    assert_eq!(scan(LOG.as_bytes()), marks());
    for cut in 0..=LOG.len() {
        let (first, second) = LOG.as_bytes().split_at(cut);
        let mut scanner = Scanner::new(all());
        let found = [scanner.scan(first), scanner.scan(second)].concat();
        assert_eq!(found, marks(), "cut at {cut}");
    }
    let mut scanner = Scanner::new(all());
    let found: Vec<PhaseMark> = LOG.bytes().flat_map(|byte| scanner.scan(&[byte])).collect();
    assert_eq!(found, marks(), "byte by byte");
}

#[test]
fn what_only_looks_like_a_mark_is_none() {
    for text in [
        "section_start:1:a\n",
        "+ echo 'section_start:1:a\\r\\e[0K'\r\n",
        "section_start::a\r",
        "section_start:now:a\r",
        "section_start:1:\r",
        "section_start:1:a b\r",
        "section_begin:1:a\r",
        "section_start:1:a[open\r",
        "say: Executing phase: 'x'\n",
        "==> zlib: Executing phase: 'x\n",
        "==> Error: zlib Executing phase: 'x'\n",
        "==> [a Executing phase: 'x'\n",
        "Entering \r\n",
        " Entering here\n",
    ] {
        assert_eq!(scan(text.as_bytes()), [], "{text:?}");
    }
}

#[test]
fn an_unterminated_line_is_kept_in_bounded_memory() {
    let mut scanner = Scanner::new(all());
    for _megabyte in 0..100 {
        assert_eq!(scanner.scan(&vec![b'x'; 1 << 20]), []);
        assert!(scanner.line.capacity() <= 2 * LINE_BYTES);
    }
    assert_eq!(scanner.scan(b"section_start:1:a\rEntering b\n"), [phase("b")]);
}

#[test]
fn a_match_never_spans_two_lines() {
    let kinds =
        PhaseMarks { patterns: vec![Pattern::new(r"phase\s+(\w+)").unwrap()], ..PhaseMarks::default() };
    assert_eq!(Scanner::new(kinds).scan(b"phase\nphase one\nphase\r\ntwo\n"), [phase("one")]);
}

#[test]
fn a_name_fits_the_wire() {
    let long = format!("Entering {}\n", "ä".repeat(100));
    assert_eq!(scan(long.as_bytes()), [phase(&"ä".repeat(64))]);
    assert_eq!(scan(b"Entering a\x00\x07b \n"), [phase("ab")]);
    assert_eq!(scan(b"Entering \x00\x01\n"), []);
}

proptest! {
    #[test]
    fn marks_do_not_depend_on_chunk_boundaries(
        pieces in proptest::collection::vec(proptest::sample::select(vec![
            &b"section_start:1:a\r\x1b[0K"[..], b"section_end:1:a\r", b"==> z: Executing phase: 'b'\n",
            b"Entering c", b"\n", b"\r", b"\x1b", b"\x1b[1", b"\x1b]0;t\x07", b"\xff\x00", b"xxxxxxxxxxxxxxxxxxx",
        ]), 0..40),
        fill in 0_usize..5000,
        step in 1_usize..50,
    ) {
        let mut bytes = pieces.concat();
        bytes.splice(0..0, vec![b'y'; fill]);
        let whole = scan(&bytes);
        let mut scanner = Scanner::new(all());
        let cut: Vec<PhaseMark> = bytes.chunks(step).flat_map(|chunk| scanner.scan(chunk)).collect();
        prop_assert_eq!(cut, whole);
    }
}

/// What rpmbuild prints, and mock around it.
const RPM: &str = "Start: rpmbuild hello-2.12-1.fc42.src.rpm\nStart: build phase for hello-2.12-1.fc42.src.rpm\n\
    Building target platforms: x86_64\nExecuting(%mkbuilddir): /bin/sh -e /var/tmp/rpm-tmp.a\n\
    Executing(%prep): /bin/sh -e /var/tmp/rpm-tmp.LkWnGm\n+ umask 022\nExecuting(%build): /bin/sh -e /var/tmp/rpm-tmp.b\n\
    echo 'Executing(%nothing)'\nExecuting(%install): /bin/sh -e /var/tmp/rpm-tmp.c\nExecuting(%check): /bin/sh -e /var/tmp/rpm-tmp.d\n\
    Processing files: hello-2.12-1.fc42.x86_64\nExecuting(%clean): /bin/sh -e /var/tmp/rpm-tmp.e\nFinish: rpmbuild\n";

#[test]
fn the_sections_of_a_spec_file_are_phases() {
    let expected: Vec<PhaseMark> = ["%mkbuilddir", "%prep", "%build", "%install", "%check"]
        .map(phase)
        .into_iter()
        .chain([PhaseMark::PhaseEnd])
        .collect();
    assert_eq!(scan(RPM.as_bytes()), expected);
    let mut scanner = Scanner::new(PhaseMarks { tools: vec![&BUILD_TOOLS[0]], ..PhaseMarks::default() });
    assert_eq!(scanner.scan(RPM.as_bytes()), []);
}

/// A package whose test fails.
const SPEC: &str = "Name: hello\nVersion: 1.0\nRelease: 1\nSummary: x\nLicense: MIT\nBuildArch: noarch\n%description\nx\n%prep\ntrue\n\
    %build\necho build\n%install\nmkdir -p %{buildroot}/usr\n%check\nfalse\n%files\n/usr\n";

/// Needs Debian's package `rpm`; skipped without it, unless `PLIMSOLL_RPM_REQUIRED` is set.
#[test]
fn real_rpmbuild_output_is_parsed_until_the_failure() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("hello.spec"), SPEC).unwrap();
    let top = format!("_topdir {}", dir.path().display());
    let mut rpmbuild = std::process::Command::new("rpmbuild");
    rpmbuild.args(["--define", &top, "-bb", "hello.spec"]).current_dir(dir.path());
    let Ok(output) = rpmbuild.output() else {
        let required = std::env::var_os("PLIMSOLL_RPM_REQUIRED").is_some();
        assert!(!required, "rpmbuild is missing, and PLIMSOLL_RPM_REQUIRED is set");
        return;
    };
    assert!(!output.status.success());
    let log = [output.stdout, output.stderr].concat();
    let mut marks = scan(&log);
    // newer versions make and remove a directory of their own around the sections
    marks.retain(|mark| *mark != phase("%mkbuilddir") && *mark != PhaseMark::PhaseEnd);
    let log = String::from_utf8_lossy(&log);
    assert_eq!(marks, ["%prep", "%build", "%install", "%check"].map(phase), "{log}");
}
