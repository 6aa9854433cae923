//! Rescue on a kernel of text files.

use super::*;
use crate::processes::tests::{process, write};

const MIB: u64 = 1 << 20;

/// Two compilers at a limit; the younger one was paused at the first reading.
fn with_one_paused(fake: &FakeKernel) -> Sampler {
    let own = std::process::id().cast_signed();
    fake.write(&format!("{GROUP}/memory.max"), &format!("{}\n", 100 * MIB));
    fake.write(&format!("{GROUP}/memory.current"), &format!("{}\n", 70 * MIB));
    set_need(fake, 60 * MIB);
    fake.process([own, 1, own], [0; 4], 100);
    let mut meter = Meter::prepare(&fake.kernel(), "01", None);
    let (before, ()) = meter.run_inside(|| {
        for pid in [77, 78] {
            write(fake, &process(pid, own, "cc1plus", 30), "");
        }
        fake.write(&format!("{GROUP}/cgroup.procs"), &format!("{own}\n77\n78\n"));
    });
    let settings = RescueSettings { pause: true, most: Duration::from_mins(10), ..RescueSettings::default() };
    Sampler::new(meter, before, Instant::now(), Duration::from_secs(1)).with_rescue(settings)
}

/// The ids that are stopped and continued at the next reading.
async fn next_acts(sampler: &mut Sampler) -> [Vec<i32>; 2] {
    tokio::time::sleep_until(sampler.due()).await;
    let _sample = sampler.tick();
    let acts = sampler.take_rescue_acts().pause;
    [acts.stop, acts.go].map(|ids| ids.iter().map(|id| id.pid).collect())
}

#[tokio::test(start_paused = true)]
async fn pauses_end_where_others_or_too_many_run() {
    let crowd: Vec<String> = (5_000_000..5_003_000).map(|pid| format!("{pid}\n")).collect();
    for (more, reason) in [
        ("79\n".to_owned(), "others began to use the build's cgroup"),
        (crowd.concat(), "the build has too many processes"),
    ] {
        let fake = FakeKernel::v2("/build");
        let mut sampler = with_one_paused(&fake);
        assert_eq!(next_acts(&mut sampler).await, [vec![78], vec![]]);
        write(&fake, &process(79, 1, "server", 20), "");
        let own = std::process::id();
        fake.write(&format!("{GROUP}/cgroup.procs"), &format!("{own}\n77\n78\n{more}"));
        let mut later = [vec![], vec![]];
        // long enough for a look at each of the group's processes, and for another pause
        for _reading in 0..100 {
            let [stop, go] = next_acts(&mut sampler).await;
            later[0].extend(stop);
            later[1].extend(go);
        }
        assert_eq!(later, [vec![], vec![78]], "{reason}");
        assert_eq!(sampler.finish().rescue.unwrap().gave_up, reason);
    }
}

#[test]
fn each_build_that_is_only_watched_has_its_reason() {
    let fake = FakeKernel::v2("/build");
    let sampler = |meter| Sampler::new(meter, None, Instant::now(), Duration::from_secs(1));
    let alone = sampler(Meter::prepare(&fake.kernel(), "01", None));
    assert_eq!(alone.build_group(), Ok((&*fake.kernel().path(GROUP), false)));
    fake.write(&format!("{GROUP}/cgroup.procs"), "0\n0\n");
    assert_eq!(alone.build_group(), Err("the processes of the build are not visible here"));
    let tree = sampler(Meter::prepare(&fake.kernel(), "02", None));
    assert_eq!(tree.build_group(), Err("no cgroup measures the build alone"), "others may be in its cgroup");
}
