//! Waits for a build to appear. A look costs some milliseconds at most on a busy machine, and the pause after it is so long that
//! looking takes no more than a hundredth of a core.

use std::{path::Path, time::Duration};

use plimsoll_measure::cgroup::foreign::identity;
use tokio::time::{Instant, sleep};

use super::{
    containers,
    found::{EarlierCounters, FoundBuild, Refusal, SearchResult},
    host_view::HostView,
    measuring::{by_folder, by_process},
    pods,
    process::Process,
    target::Target,
};

/// The shortest and the longest pause between two looks.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// A pause is so many times as long as the look before it.
const IDLE: u32 = 100;

/// Looks again and again until the build is there.
pub(super) async fn wait_for(
    site: &HostView,
    target: &Target,
    wait: Duration,
) -> Result<FoundBuild, Refusal> {
    let (start, mut earlier) = (Instant::now(), None);
    loop {
        let before = Instant::now();
        let missing = match look(site, target)? {
            Ok(found) => return Ok(FoundBuild { earlier: same_group(earlier, &found), ..found }),
            Err(missing) => missing,
        };
        earlier = missing.empty;
        let why = missing.why;
        let rest = wait.saturating_sub(start.elapsed());
        if rest.is_zero() {
            let waited = humantime::format_duration(wait);
            return Err(Refusal::nothing(format!("{why} (waited {waited}; --wait sets how long)")));
        }
        tracing::debug!(why, "the build is not there yet");
        let pause = (before.elapsed() * IDLE).clamp(PAUSES.0, PAUSES.1);
        sleep(pause.min(rest)).await;
    }
}

/// What was counted earlier counts only in the same group: one that was made anew has counted nothing.
fn same_group(earlier: Option<EarlierCounters>, found: &FoundBuild) -> Option<EarlierCounters> {
    let now = found.groups.as_ref().and_then(|groups| identity(&groups.memory));
    earlier.filter(|earlier| now.is_some() && earlier.group == now)
}

fn look(site: &HostView, target: &Target) -> SearchResult {
    match target {
        Target::Process(pid) => match Process::read(&site.proc, *pid) {
            Some(main) => by_process(site, main, None),
            // a number says nothing about a process that does not exist yet
            None => Err(Refusal::nothing(format!("there is no process {pid}, or it has ended"))),
        },
        Target::Container(id) => containers::by_id(site, id),
        Target::Named(name) => containers::by_name(site, name),
        Target::Group(path) => by_group(site, path),
        Target::Pod(uid, choice) => pods::by_pod(site, uid, choice),
    }
}

fn by_group(site: &HostView, path: &Path) -> SearchResult {
    let layout = site.searched().map_err(|error| Refusal::nothing(error.to_string()))?;
    by_folder(site, &layout, path, Vec::new())
}
