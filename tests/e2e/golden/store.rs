//! A server with a week of builds, the same in every run.

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use plimsoll_proto::v1 as pb;
use plimsoll_tests::{Sender, Site, finish, hello};

const HOUR_MS: u64 = 3_600_000;
const DAY_MS: u64 = 24 * HOUR_MS;
/// Milliseconds between two samples.
const TICK_MS: u64 = 5_000;
const MIB: u64 = 1 << 20;

/// What became of a build.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Succeeded,
    /// With this exit code.
    Failed(i32),
    /// The kernel killed a compiler at the build's own limit; make ends with 2.
    Killed,
}

/// A build that was measured.
struct Build {
    id: &'static str,
    package: &'static str,
    version: &'static str,
    jobs: u32,
    hours_after_monday: u64,
    wall_s: u64,
    need_mib: u64,
    /// Memory request and limit.
    size_mib: (u64, u64),
    retries: &'static str,
    end: End,
}

const ZLIB: Build = Build {
    id: "101",
    package: "zlib",
    version: "1.3.1",
    jobs: 2,
    hours_after_monday: 0,
    wall_s: 20,
    need_mib: 40,
    size_mib: (1024, 2048),
    retries: "",
    end: End::Succeeded,
};
const LLVM: Build = Build {
    id: "201",
    package: "llvm",
    version: "19.1.0",
    jobs: 8,
    hours_after_monday: 1,
    wall_s: 1500,
    need_mib: 3100,
    size_mib: (4096, 6144),
    ..ZLIB
};
const HDF5: Build = Build {
    id: "301",
    package: "hdf5",
    version: "1.14.5",
    hours_after_monday: 30,
    wall_s: 95,
    need_mib: 310,
    end: End::Failed(2),
    ..ZLIB
};

const BUILDS: [Build; 10] = [
    ZLIB,
    Build { id: "102", hours_after_monday: 5, wall_s: 22, need_mib: 42, ..ZLIB },
    Build { id: "103", hours_after_monday: 24, wall_s: 21, need_mib: 41, ..ZLIB },
    Build { id: "104", hours_after_monday: 48, wall_s: 26, need_mib: 46, jobs: 4, ..ZLIB },
    LLVM,
    Build { id: "202", hours_after_monday: 25, need_mib: 3250, wall_s: 1580, ..LLVM },
    Build { id: "203", hours_after_monday: 49, need_mib: 2600, wall_s: 2100, jobs: 4, ..LLVM },
    Build {
        id: "204",
        hours_after_monday: 50,
        need_mib: 3070,
        wall_s: 700,
        size_mib: (2048, 3072),
        end: End::Killed,
        ..LLVM
    },
    HDF5,
    Build { id: "302", hours_after_monday: 31, retries: "301", wall_s: 93, ..HDF5 },
];

impl Build {
    fn hello(&self, monday_ms: u64) -> pb::Hello {
        pb::Hello {
            key: Some(pb::Key {
                project: "spack/packages".to_owned(),
                stack: "e4s".to_owned(),
                package: self.package.to_owned(),
                version: self.version.to_owned(),
                compiler: "gcc".to_owned(),
                compiler_version: "14.2.0".to_owned(),
                arch: "x86_64_v3".to_owned(),
                build_system: "cmake".to_owned(),
                hints: Some(pb::Hints { build_jobs: Some(self.jobs), ..pb::Hints::default() }),
                ..pb::Key::default()
            }),
            number: if self.retries.is_empty() { 1 } else { 2 },
            retries: self.retries.to_owned(),
            started_unix_ms: monday_ms + (8 + self.hours_after_monday) * HOUR_MS,
            resources: Some(pb::Resources {
                memory_request_bytes: Some(self.size_mib.0 * MIB),
                memory_limit_bytes: Some(self.size_mib.1 * MIB),
                cpu_request_cores: Some(2.0),
                cpu_limit_cores: Some(8.0),
            }),
            ..hello(self.id, self.package)
        }
    }

    fn samples(&self) -> Vec<pb::Sample> {
        let (rows, kills) = (self.wall_s * 1000 / TICK_MS, u64::from(self.end == End::Killed));
        let sample = |row: u64| {
            // grows to its need at two thirds of the time and stays there; a killed one grows to its end
            let of = if kills > 0 { rows } else { (rows * 2).div_ceil(3) };
            let need = self.need_mib * MIB * row.min(of) / of;
            pb::Sample {
                elapsed_ms: row * TICK_MS,
                memory_bytes: need + 20 * MIB * row / rows,
                need_bytes: need,
                memory_peak_bytes: Some(need + 20 * MIB * row / rows),
                cpu_usec: row * TICK_MS * 1000 * u64::from(self.jobs) * 7 / 10,
                oom_kill: Some(if row == rows { kills } else { 0 }),
                reclaim_failures: Some(0),
                ..pb::Sample::default()
            }
        };
        (1..=rows).map(sample).collect()
    }

    fn finish(&self, samples: &[pb::Sample]) -> pb::Finish {
        let code = match self.end {
            End::Succeeded => 0,
            End::Failed(code) => code,
            End::Killed => 2,
        };
        let killed = self.end == End::Killed;
        pb::Finish {
            wall_ms: self.wall_s * 1000,
            totals: Some(pb::Totals {
                cpu_usec: samples.last().map_or(0, |sample| sample.cpu_usec),
                need_peak_bytes: Some(self.need_mib * MIB),
                memory_peak_bytes: Some((self.need_mib + 20).min(self.size_mib.1) * MIB),
                oom_kill: Some(u64::from(killed)),
                oom_origin: if killed { pb::OomOrigin::OwnLimit } else { pb::OomOrigin::Unspecified }.into(),
                reclaim_failures: Some(0),
                ..pb::Totals::default()
            }),
            ..finish(self.id, samples.len() as u64, Some(code))
        }
    }
}

/// Logs of failed builds, by their attempts.
const LOGS: [(&str, &str); 4] = [
    (
        "killed.log",
        "[ 71%] Building CXX object lib/CodeGen/MachineScheduler.cpp.o\n\
         c++: fatal error: Killed signal terminated program cc1plus\ncompilation terminated.\nmake: *** [all] Error 2\n",
    ),
    (
        "broken.log",
        "[ 12%] Building C object src/H5Zszip.c.o\n\
         /builds/spack/hdf5/src/H5Zszip.c:24:10: fatal error: szlib.h: No such file or directory\n\
         compilation terminated.\nmake: *** [all] Error 2\n",
    ),
    ("strange.log", "configuring\nthe moon is in the wrong phase, giving up\n"),
    ("network.log", "fatal: unable to access 'https://github.com/': Could not resolve host: github.com\n"),
];

/// The Monday of the last week that is over, 00:00 UTC: a server takes no start that is more than a year ago.
fn last_monday_ms() -> u64 {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
    let days = u64::try_from(now.as_millis()).unwrap() / DAY_MS;
    // 1970 began on a Thursday
    let since_monday = (days + 3) % 7;
    (days - since_monday - 7) * DAY_MS
}

/// The server with its builds, and the directory with the logs.
pub(super) struct Week {
    monday_ms: u64,
    pub(super) site: Site,
    pub(super) logs: PathBuf,
}

/// Starts a server and delivers the builds, each on a stream of its own.
pub(super) async fn a_week() -> Week {
    let (site, monday_ms) = (Site::start().unwrap(), last_monday_ms());
    for build in &BUILDS {
        let mut stream = Sender::connect(&site.server.url()).await.unwrap();
        stream.exchange(build.hello(monday_ms)).await.unwrap();
        let samples = build.samples();
        for (nth, rows) in samples.chunks(100).enumerate() {
            let first_sequence = nth as u64 * 100 + 1;
            let batch =
                pb::Batch { attempt: build.id.to_owned(), first_sequence, lost: 0, samples: rows.to_vec() };
            stream.exchange(batch).await.unwrap();
        }
        stream.close(build.finish(&samples)).await.unwrap();
    }
    let logs = site.dir.path().join("logs");
    std::fs::create_dir(&logs).unwrap();
    for (name, text) in LOGS {
        std::fs::write(logs.join(name), text).unwrap();
    }
    Week { monday_ms, site, logs }
}

impl Week {
    /// The dates of the week, Monday to Monday, with those of the week that stands for it: 2025-03-03 to 2025-03-10.
    pub(super) fn dates(&self) -> Vec<(String, String)> {
        let real = |day: u64| {
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(self.monday_ms + day * DAY_MS);
            prost_types::Timestamp::from(at).to_string().chars().take(10).collect::<String>()
        };
        (0..=7).map(|day| (real(day), format!("2025-03-{:02}", day + 3))).collect()
    }
}
