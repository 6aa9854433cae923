//! A build on a kernel of text files, in paused time.

mod real;
mod rescue;

use plimsoll_proto::v1::OomOrigin;

use super::*;
use crate::fake_kernel::FakeKernel;

const GROUP: &str = "/sys/fs/cgroup/build";

/// Samples a build of `millis` milliseconds; `kernel` writes the files before each reading.
async fn sampled(
    fake: &FakeKernel,
    millis: u128,
    interval: Duration,
    mut kernel: impl FnMut(u128),
) -> (Vec<Sample>, Sampler) {
    let mut meter = Meter::prepare(&fake.kernel(), "01", None);
    let before = meter.read();
    let start = Instant::now();
    let mut sampler = Sampler::new(meter, before, start, interval);
    let mut samples = Vec::new();
    loop {
        tokio::time::sleep_until(sampler.due()).await;
        if start.elapsed().as_millis() > millis {
            return (samples, sampler);
        }
        kernel(start.elapsed().as_millis());
        samples.extend(sampler.tick());
    }
}

fn set_need(fake: &FakeKernel, bytes: u64) {
    fake.write(&format!("{GROUP}/memory.stat"), &format!("anon {bytes}\n"));
}

#[tokio::test(start_paused = true)]
async fn a_short_peak_appears_as_the_rows_maximum() {
    let fake = FakeKernel::v2("/build");
    fake.write(&format!("{GROUP}/memory.current"), "10000000\n");
    let (samples, sampler) = sampled(&fake, 13_000, Duration::from_secs(1), |ms| {
        let peak = (11_310..11_560).contains(&ms);
        set_need(&fake, if peak { 9_000_000 } else { 1_000_000 });
    })
    .await;
    assert_eq!(samples.len(), 40 + 11);
    assert!(samples[..40].iter().all(|sample| sample.need_max_bytes.is_none()));
    let row = samples.iter().find(|sample| sample.elapsed_ms == 12_000).unwrap();
    assert_eq!(row.need_max_bytes, Some(9_000_000));
    assert!((2_595_000..=3_400_000).contains(&row.need_bytes), "two or three of ten readings: {row:?}");
    let quiet = samples.iter().filter(|sample| sample.need_max_bytes == Some(1_000_000)).count();
    assert_eq!(quiet, 10);
    let measured = sampler.finish();
    assert_eq!(measured.totals.need_peak_bytes, Some(9_000_000));
    assert_eq!(measured.curve.iter().max(), Some(&9_000_000));
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_changes_is_read_again() {
    let fake = FakeKernel::v2("/build");
    fake.write(&format!("{GROUP}/memory.current"), "99000000\n");
    set_need(&fake, 95_000_000);
    let limit = |bytes: &str| fake.write(&format!("{GROUP}/memory.max"), &format!("{bytes}\n"));
    let reclaims = |ms: u128| {
        fake.write(&format!("{GROUP}/memory.stat"), &format!("anon 95000000\npgmajfault {ms}\n"));
        fake.write(&format!("{GROUP}/memory.events.local"), &format!("max {}\n", ms * 100));
        fake.write(&format!("{GROUP}/memory.events"), &format!("max {}\n", ms * 100));
    };
    limit("100000000");
    let (_, sampler) = sampled(&fake, 12_000, Duration::from_secs(1), |ms| {
        reclaims(ms);
        limit(if ms < 6000 { "100000000" } else { "200000000" });
    })
    .await;
    let totals = sampler.finish().totals;
    assert_eq!(totals.memory_limit_bytes, Some(200_000_000));
    assert!((4000..8000).contains(&totals.starved_ms.unwrap()), "only under the first limit: {totals:?}");
    for (at_end, sent) in [("100000000", None), ("max", Some(0))] {
        limit("100000000");
        let later = |ms: u128| if ms < 1500 { "100000000" } else { at_end };
        let (_, sampler) = sampled(&fake, 3000, Duration::from_secs(1), |ms| limit(later(ms))).await;
        assert_eq!(sampler.finish().totals.memory_limit_bytes, sent);
    }
}

#[tokio::test(start_paused = true)]
async fn only_builds_that_wait_are_called_offloaded() {
    let of = async |program: &str, cpu_share: u128| {
        let fake = FakeKernel::v2("/build");
        fake.write(&format!("{GROUP}/cgroup.procs"), "7\n");
        fake.write("/proc/7/status", "Name:\tx\n");
        fake.write("/proc/7/comm", &format!("{program}\n"));
        fake.write("/proc/7/net/tcp", "0: 0100007F:D2F0 01020304:01BB 01 0:0 0:0 0 0 0 41 1\n");
        std::fs::create_dir(fake.kernel().path("/proc/7/fd")).unwrap();
        std::os::unix::fs::symlink("socket:[41]", fake.kernel().path("/proc/7/fd/3")).unwrap();
        let (_, sampler) = sampled(&fake, 6_000, Duration::from_secs(1), |ms| {
            fake.write(&format!("{GROUP}/cpu.stat"), &format!("usage_usec {}\n", ms * 10 * cpu_share));
        })
        .await;
        sampler.finish().offloaded_to
    };
    assert_eq!(of("docker", 3).await, Some("docker"));
    assert_eq!(of("docker", 90).await, None, "90 % of a core");
    assert_eq!(of("cc1plus", 3).await, None);
    assert_eq!(of("cc1plus", 0).await, Some("open-connection"));
}

#[tokio::test(start_paused = true)]
async fn short_builds_record_single_readings() {
    let fake = FakeKernel::v2("/build");
    let (samples, sampler) = sampled(&fake, 2_000, Duration::from_mins(1), |_ms| {}).await;
    assert_eq!(samples.len(), 40);
    assert!(samples.windows(2).all(|pair| pair[0].elapsed_ms < pair[1].elapsed_ms));
    let measured = sampler.finish();
    assert!(measured.last.is_some());
    assert_eq!(measured.totals.memory_stall_usec, Some(0), "counted since the start");
}

#[tokio::test(start_paused = true)]
async fn failed_readings_are_gaps() {
    let fake = FakeKernel::v2("/build");
    let (samples, sampler) = sampled(&fake, 9_000, Duration::from_secs(1), |ms| {
        let text = if (3_050..6_050).contains(&ms) { "gone" } else { "10000" };
        fake.write(&format!("{GROUP}/memory.current"), text);
    })
    .await;
    let times: Vec<u64> = samples[40..].iter().map(|sample| sample.elapsed_ms).collect();
    assert_eq!(times, [3_000, 7_000, 8_000, 9_000]);
    std::fs::remove_dir_all(fake.kernel().path(GROUP)).unwrap();
    assert_eq!(sampler.finish().totals.need_peak_bytes, Some(1_600));
}

#[tokio::test(start_paused = true)]
async fn phases_have_their_own_need_and_cpu_time() {
    let fake = FakeKernel::v2("/build");
    let (_samples, mut sampler) = sampled(&fake, 1_000, Duration::from_secs(1), |_ms| {}).await;
    let cpu = |usec: u64| fake.write(&format!("{GROUP}/cpu.stat"), &format!("usage_usec {usec}\n"));
    set_need(&fake, 2_000);
    cpu(6_000);
    sampler.begin_phase("configure");
    tokio::time::advance(Duration::from_millis(30)).await;
    set_need(&fake, 1_000);
    cpu(9_000);
    sampler.begin_phase("build");
    cpu(9_500);
    let phases = sampler.finish().phases;
    assert_eq!(phases.len(), 2);
    assert_eq!((phases[0].name.as_str(), phases[0].wall_ms), ("configure", 30));
    assert_eq!((phases[0].need_peak_bytes, phases[0].cpu_usec), (2_000, 3_000));
    assert_eq!((phases[1].need_peak_bytes, phases[1].cpu_usec), (1_000, 500));
}

#[tokio::test(start_paused = true)]
async fn a_starved_build_is_reported_once_while_running() {
    let fake = FakeKernel::v2("/build");
    fake.write(&format!("{GROUP}/memory.max"), "10000\n");
    let mut notices = Vec::new();
    let (samples, mut sampler) = sampled(&fake, 9_000, Duration::from_secs(1), |ms| {
        let thrash = if ms > 3_000 { ms } else { 0 };
        let stat = format!("anon 9300\npgmajfault {}\nworkingset_refault_file {}\n", thrash / 5, thrash * 3);
        fake.write(&format!("{GROUP}/memory.stat"), &stat);
        let events = format!("max {}\noom 0\noom_kill 0\noom_group_kill 0\n", thrash * 100);
        fake.write(&format!("{GROUP}/memory.events"), &events);
    })
    .await;
    notices.extend(std::iter::from_fn(|| sampler.take_notice()));
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].starts_with("the build is starving now at its memory limit of"), "{notices:?}");
    assert!(notices[0].contains("failed charges/s, "), "{notices:?}");
    let starved: Vec<_> = samples[39..].iter().map(|sample| sample.starved_ms.unwrap()).collect();
    assert_eq!(starved, [0, 0, 0, 2000, 3000, 4000, 5000, 6000]);
    assert_eq!(sampler.finish().totals.starved_ms, Some(6000));
}

#[tokio::test(start_paused = true)]
async fn a_kill_is_reported_with_its_limit() {
    let fake = FakeKernel::v2("/build");
    let (_samples, mut sampler) = sampled(&fake, 500, Duration::from_secs(1), |ms| {
        let kills = u8::from(ms > 200);
        let events = format!("max 9\noom {0}\noom_kill {0}\noom_group_kill {0}\n", 1 + kills);
        fake.write(&format!("{GROUP}/memory.events"), &events);
    })
    .await;
    let notice = sampler.take_notice().unwrap();
    assert_eq!(notice, "the kernel killed 1 process of the build at the build's own memory limit");
    assert_eq!(sampler.take_notice(), None);
    let totals = sampler.finish().totals;
    assert_eq!((totals.oom_kill, totals.oom_group_kill), (Some(1), Some(2)));
    assert_eq!(totals.oom_origin(), OomOrigin::OwnLimit);
}
