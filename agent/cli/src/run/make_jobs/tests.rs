//! How commands get their number of jobs.

use super::*;

fn jobs(words: &[&str], known: Option<u32>, make_flags: &str) -> BuildJobs {
    let command: Vec<OsString> = words.iter().map(OsString::from).collect();
    BuildJobs::of(&command, known, make_flags)
}

#[test]
fn the_jobs_placeholder_is_replaced_on_every_try() {
    let mut jobs = jobs(&["make", "-j{jobs}", "x{jobs}y{jobs}", "echo ${jobs}"], Some(6), "");
    assert_eq!(jobs.command(), ["make", "-j6", "x6y6", "echo ${jobs}"]);
    assert_eq!((jobs.current(), jobs.unchangeable(), jobs.variables()), (Some(6), None, Vec::new()));
    jobs.set(2);
    assert_eq!(jobs.command(), ["make", "-j2", "x2y2", "echo ${jobs}"]);
}

#[test]
fn an_unknown_jobs_number_defaults_to_the_processors() {
    assert!(jobs(&["make", "-j", "{jobs}"], None, "").current().is_some_and(|jobs| jobs > 0));
    assert_eq!(jobs(&["make"], None, "").current(), None);
}

#[test]
fn a_command_is_unchanged_until_its_jobs_change() {
    let mut jobs = jobs(&["spack", "install"], Some(8), "w -j8 --jobserver-auth=3,4 -- A=b  c");
    assert_eq!((jobs.command(), jobs.variables().len()), (vec!["spack".into(), "install".into()], 0));
    jobs.set(3);
    let variables = jobs.variables();
    let variables: Vec<_> =
        variables.iter().map(|(n, v)| (n.to_str().unwrap(), v.to_str().unwrap())).collect();
    let expected = [
        ("SPACK_BUILD_JOBS", "3"),
        ("CMAKE_BUILD_PARALLEL_LEVEL", "3"),
        ("CARGO_BUILD_JOBS", "3"),
        ("MAKEFLAGS", "w -j3 -- A=b  c"),
    ];
    assert_eq!(variables, expected);
}

#[test]
fn only_the_jobs_in_makeflags_change() {
    for (flags, expected) in [
        ("", "-j2"),
        ("-j8", "-j2"),
        ("--jobs=8 -k", "-k -j2"),
        ("-j 8 -k", "-k -j2"),
        ("--jobs 8 -k", "-k -j2"),
        ("ks", "ks -j2"),
        (" -j -l4", " -l4 -j2"),
        (" --jobserver-fds=3,4 -j --no-print-directory", " --no-print-directory -j2"),
        ("-j4 CFLAGS=-O2", "CFLAGS=-O2 -j2"),
        ("--jobserver-style=fifo", "--jobserver-style=fifo -j2"),
    ] {
        assert_eq!(with_jobs(flags, 2), expected, "{flags:?}");
    }
}

#[test]
fn jobs_written_in_the_command_cannot_change() {
    let fixed = jobs(&["make", "-j8"], Some(8), "").unchangeable().unwrap();
    assert!(fixed.contains("-j8") && fixed.contains("{jobs}"), "{fixed}");
    let script = |line| jobs(&["sh", "-c", line], Some(8), "").unchangeable();
    for (line, says) in [
        ("cd build && make -j8", "says -j8 itself"),
        ("(make -kj8)", "says -kj8 itself"),
        ("make -j 8;true", "says -j 8 itself"),
        ("make all -j", "says -j itself"),
        ("cmake --build . --parallel", "says --parallel itself"),
        ("make -j$(nproc)", "says -j$ itself"),
        ("make -j\"$(nproc)\"", "says -j itself"),
        ("cmake .. -GNinja && ninja", "ninja reads its number"),
    ] {
        assert!(script(line).is_some_and(|why| why.contains(says) && why.contains("{jobs}")), "{line}");
    }
    let rpm = |words: &[&str]| jobs(words, Some(8), "").unchangeable();
    let why = rpm(&["unbuffer", "mock", "a-1-2.src.rpm"]);
    assert!(why.is_some_and(|why| why.contains("_smp_mflags -j{jobs}")));
    assert_eq!(rpm(&["mock", "-D", "_smp_mflags -j{jobs}", "a-1-2.src.rpm"]), None);
    for line in
        ["make", "make -j{jobs}", "ninja -j{jobs}", "java -jar x", "make -j${CARGO_BUILD_JOBS}", "tar -xjf x"]
    {
        assert_eq!(script(line), None, "{line}");
    }
}

#[test]
fn a_possibly_ignored_jobs_number_is_uncertain() {
    for (words, expected) in [
        (vec!["make", "-j{jobs}"], Some(2)),
        (vec!["./build", "{jobs}"], Some(2)),
        (vec!["/usr/bin/make"], Some(2)),
        (vec!["sh", "-c", "./configure;make install"], Some(2)),
        (vec!["cargo", "build"], Some(2)),
        (vec!["sh", "build.sh"], None),
        (vec!["python", "-m", "build"], None),
    ] {
        let mut jobs = jobs(&words, Some(8), "");
        assert_eq!(jobs.certain_number(), Some(8), "{words:?}");
        jobs.set(2);
        assert_eq!((jobs.current(), jobs.certain_number()), (Some(2), expected), "{words:?}");
    }
}
