//! Waits for a build to appear. A search takes at most some milliseconds, even on a busy machine. The pause
//! after it is so long that the searches use at most a hundredth of a core.

use std::{path::Path, time::Duration};

use plimsoll_measure::cgroup::foreign::identity;
use tokio::time::{Instant, sleep};

use super::{
    containers,
    found::{AttachRefusal, EarlierCounters, FoundBuild, SearchResult},
    host_view::HostView,
    measuring::{FollowedPart, by_folder, by_process},
    pods,
    process::Process,
    target::Target,
};

/// Shortest and longest pause between two searches.
const PAUSE_RANGE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// The pause after a search is this many times as long as the search.
const PAUSE_FACTOR: u32 = 100;

/// Searches repeatedly until the build is found.
pub(super) async fn wait_for(
    site: &HostView,
    target: &Target,
    wait: Duration,
) -> Result<FoundBuild, AttachRefusal> {
    let (start, mut earlier) = (Instant::now(), None);
    loop {
        let before = Instant::now();
        let missing = match find_once(site, target)? {
            Ok(found) => return Ok(FoundBuild { earlier: same_group(earlier, &found), ..found }),
            Err(missing) => missing,
        };
        earlier = missing.empty_group;
        let why = missing.why;
        let rest = wait.saturating_sub(start.elapsed());
        if rest.is_zero() {
            let waited = humantime::format_duration(wait);
            return Err(AttachRefusal::nothing_to_measure(format!(
                "{why} (waited {waited}; --wait sets how long)"
            )));
        }
        tracing::debug!(why, "the build is not there yet");
        let pause = (before.elapsed() * PAUSE_FACTOR).clamp(PAUSE_RANGE.0, PAUSE_RANGE.1);
        sleep(pause.min(rest)).await;
    }
}

/// Keeps the earlier counters only if the build is in the same group: the counters of a new group with the same
/// name start at 0.
fn same_group(earlier: Option<EarlierCounters>, found: &FoundBuild) -> Option<EarlierCounters> {
    let now = found.groups.as_ref().and_then(|groups| identity(&groups.memory));
    earlier.filter(|earlier| now.is_some() && earlier.group == now)
}

fn find_once(site: &HostView, target: &Target) -> SearchResult {
    match target {
        Target::Process(_pid) if !site.names_proc && !site.shows_own_namespace() => {
            let why = "/proc shows the processes of another pid namespace (with --host-proc /proc, --pid takes their ids)";
            Err(AttachRefusal::nothing_to_measure(why))
        }
        Target::Process(pid) => match Process::read(&site.proc, *pid) {
            Some(main) => by_process(site, main, FollowedPart::Process),
            // do not wait for it: until the process exists, its id may go to any other process
            None => {
                Err(AttachRefusal::nothing_to_measure(format!("there is no process {pid}, or it has ended")))
            }
        },
        Target::Container(id) => containers::by_id(site, id),
        Target::Named(name) => containers::by_name(site, name),
        Target::Group(path) => by_group(site, path),
        Target::Pod(uid, choice) => pods::by_pod(site, uid, choice),
    }
}

fn by_group(site: &HostView, path: &Path) -> SearchResult {
    let layout =
        site.searched_mounts().map_err(|error| AttachRefusal::nothing_to_measure(error.to_string()))?;
    by_folder(site, &layout, path, Vec::new())
}
