//! Kills in real v1 groups that are arranged in ways in which [`crate::meter`] does not arrange them.

use std::process::{Command, Stdio};

use super::{
    BuildCgroup, Cgroup, CgroupLimits, CgroupReader, CgroupVersion, Cgroups, find, parse::parse_field,
};
use crate::{kernel::Kernel, reading::Reading};

const EAT: &str = "head -c 300000000 /dev/zero | tail >/dev/null";

fn make(outer: &Cgroups) -> Option<BuildCgroup> {
    BuildCgroup::make(outer, &ulid::Ulid::new().to_string()).ok()
}

/// How many processes the kernel says it killed in `group` at a limit. Mostly one; where the first takes long to die, another.
fn kills(group: &Cgroup) -> u64 {
    let name = match group.version {
        CgroupVersion::V1 => "memory.oom_control",
        CgroupVersion::V2 => "memory.events",
    };
    parse_field(&std::fs::read_to_string(group.dir.join(name)).unwrap(), "oom_kill").unwrap()
}

/// Runs a script in `own`; the counters before and after.
fn run(own: &BuildCgroup, script: &str, mut look: impl FnMut(&Reading)) -> (Reading, Reading) {
    let mut reader = CgroupReader::open(own.groups(), &CgroupLimits::read(own.groups())).unwrap().unwrap();
    let before = reader.read().unwrap();
    own.enter().unwrap();
    let mut command = Command::new("/bin/sh");
    let child =
        command.args(["-c", script]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    own.leave();
    let mut child = child.unwrap();
    // looks again and again, because a group of the build may be gone at the end
    while child.try_wait().unwrap().is_none() {
        look(&reader.read().unwrap());
        std::thread::yield_now();
    }
    (before, reader.read().unwrap())
}

#[tokio::test]
async fn own_and_ancestor_limit_kills_are_distinguished() {
    let Some(agent) = find(&Kernel::running(), "self").unwrap() else { return };
    let Some(outer) = make(&agent) else { return println!("skipped: no cgroup can be made here") };
    let Some(inner) = make(outer.groups()) else {
        outer.discard();
        return println!("skipped: no cgroup can be made in one that was made");
    };
    outer.set_memory_limit(64 << 20).unwrap();
    let (before, after) = run(&inner, EAT, |_reading| ());
    let kernels = kills(&inner.groups().memory);
    inner.remove().await;
    outer.remove().await;
    assert!(kernels > 0);
    assert_eq!(after.oom_kill.unwrap() - before.oom_kill.unwrap(), kernels, "{after:?}");
    assert_eq!(after.limit_hits, before.limit_hits, "{after:?}");
    assert!(after.limit_hits_above > before.limit_hits_above, "{after:?}");
    assert!(after.failures_above > Some(0), "{after:?}");
}

#[tokio::test]
async fn real_kills_in_removed_nested_groups_are_counted() {
    let Some(agent) = find(&Kernel::running(), "self").unwrap() else { return };
    let Some(own) = make(&agent).filter(|own| own.groups().memory.version == CgroupVersion::V1) else {
        return println!("skipped: no v1 cgroup can be made here");
    };
    let dir = own.groups().memory.dir.display().to_string();
    let agreed = tempfile::tempdir().unwrap();
    let file = |name: &str| agreed.path().join(name);
    let (kernels, seen) = (file("oom_control"), file("seen"));
    // the shell in the group may be a victim, too, before the others; and a group is busy for a moment after its last process was
    // waited for. No wait is without end
    let script = format!(
        "n=0; tick() {{ n=$((n+1)); [ $n -lt 600 ] || exit 1; sleep 0.05; }}; cd '{dir}' && mkdir 'my test' || exit 1; \
         echo 33554432 > 'my test/memory.limit_in_bytes' || exit 1; \
         sh -c 'echo $$ > \"my test/cgroup.procs\" && {EAT}; exit 0'; \
         while read -r _pid < 'my test/cgroup.procs'; do tick; done; \
         cp 'my test/memory.oom_control' '{kernels}.new' && mv '{kernels}.new' '{kernels}' || exit 1; \
         while [ ! -e '{seen}' ]; do tick; done; until rmdir 'my test'; do tick; done",
        kernels = kernels.display(),
        seen = seen.display(),
    );
    // two readings after the last kill, of which at least one is whole; then the group may go
    let mut whole = 0;
    let (before, after) = run(&own, &script, |_reading| {
        whole += u32::from(kernels.try_exists().unwrap());
        if whole == 2 {
            std::fs::write(&seen, "").unwrap();
        }
    });
    let left = std::path::Path::new(&dir).join("my test").try_exists().unwrap();
    own.remove().await;
    assert!(!left);
    let kernels = parse_field(&std::fs::read_to_string(&kernels).unwrap(), "oom_kill").unwrap();
    assert!(kernels > 0);
    assert_eq!(after.oom_kill.unwrap() - before.oom_kill.unwrap(), kernels, "{after:?}");
    assert!(after.limit_hits > before.limit_hits, "{after:?}");
}
