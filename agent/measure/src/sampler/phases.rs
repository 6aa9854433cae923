//! Records the phases of a build, which are reported while it runs.

use std::time::Duration;

use plimsoll_proto::{limits, v1::Phase};

/// Name of the last phase, if there are more than [`limits::PHASES`].
const MORE_PHASES: &str = "(more)";
/// Name of a phase that was reported without a name.
const NAMELESS: &str = "(unnamed)";

/// The phases so far, at most [`limits::PHASES`], in the order of their start.
#[derive(Debug, Default)]
pub(super) struct Phases {
    ended: Vec<Phase>,
    open_phase: Option<OpenPhase>,
    /// CPU time at the start of the last ended phase, microseconds.
    last_cpu_start_usec: u64,
    /// Whether the limit is reached: the last phase then includes all phases that follow.
    is_full: bool,
}

#[derive(Debug)]
struct OpenPhase {
    phase: Phase,
    cpu_start_usec: u64,
}

impl Phases {
    /// Whether further phases are still recorded separately, so that a reading at their start is worth its cost.
    pub(super) fn are_separate(&self) -> bool {
        !self.is_full
    }

    /// Adds a need that was just read to the current phase.
    pub(super) fn add_need(&mut self, need: u64) {
        if let Some(open) = &mut self.open_phase {
            open.phase.need_peak_bytes = open.phase.need_peak_bytes.max(need);
        }
    }

    /// Begins a phase, and ends the previous one. `cpu_usec`: CPU time since the start of the build; `need`: the need that was just read,
    /// which counts for both phases.
    pub(super) fn begin(&mut self, name: &str, elapsed: Duration, cpu_usec: u64, need: u64) {
        self.end(elapsed, cpu_usec);
        if self.ended.len() >= limits::PHASES {
            self.is_full = true;
            self.reopen();
            return;
        }
        let phase = Phase {
            name: valid_name(name),
            started_ms: millis(elapsed),
            need_peak_bytes: need,
            ..Phase::default()
        };
        self.open_phase = Some(OpenPhase { phase, cpu_start_usec: cpu_usec });
    }

    /// Ends the current phase, if there is one.
    pub(super) fn end(&mut self, elapsed: Duration, cpu_usec: u64) {
        if let Some(OpenPhase { mut phase, cpu_start_usec }) = self.open_phase.take() {
            phase.wall_ms = millis(elapsed).saturating_sub(phase.started_ms);
            phase.cpu_usec = cpu_usec.saturating_sub(cpu_start_usec);
            self.last_cpu_start_usec = cpu_start_usec;
            self.ended.push(phase);
        }
    }

    /// Continues the last phase, which then includes all phases that follow.
    fn reopen(&mut self) {
        if let Some(mut phase) = self.ended.pop() {
            MORE_PHASES.clone_into(&mut phase.name);
            // the time between the two phases is counted too
            self.open_phase = Some(OpenPhase { phase, cpu_start_usec: self.last_cpu_start_usec });
        }
    }

    /// All phases; a phase that is not ended yet ends now.
    pub(super) fn finish(mut self, elapsed: Duration, cpu_usec: u64) -> Vec<Phase> {
        self.end(elapsed, cpu_usec);
        self.ended
    }
}

/// Makes a name valid for the wire: removes control characters, and shortens it at a character boundary.
fn valid_name(name: &str) -> String {
    let mut clean = String::new();
    for char in name.chars().filter(|char| !char.is_control()) {
        if clean.len() + char.len_utf8() > limits::PHASE_NAME_BYTES {
            break;
        }
        clean.push(char);
    }
    let clean = clean.trim();
    if clean.is_empty() { NAMELESS.to_owned() } else { clean.to_owned() }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn phases_have_their_own_peak_and_cpu() {
        let mut phases = Phases::default();
        phases.add_need(1000);
        phases.end(MS(5), 1);
        phases.begin("configure", MS(10), 100, 6);
        phases.add_need(7);
        phases.add_need(5);
        phases.begin("build", MS(30), 150, 5);
        phases.add_need(9);
        phases.end(MS(40), 250);
        phases.add_need(2000);
        phases.begin("install", MS(60), 300, 3);
        let phase = |name: &str, started_ms, wall_ms, need_peak_bytes, cpu_usec| Phase {
            name: name.to_owned(),
            started_ms,
            wall_ms,
            need_peak_bytes,
            cpu_usec,
        };
        let expected = [
            phase("configure", 10, 20, 7, 50),
            phase("build", 30, 10, 9, 100),
            phase("install", 60, 10, 3, 5),
        ];
        assert_eq!(phases.finish(MS(70), 305), expected);
    }

    #[test]
    fn excess_phases_merge_into_the_last() {
        let mut phases = Phases::default();
        for number in 0..1000 {
            phases.begin("step", MS(number * 10), number * 100, 0);
            phases.add_need(number);
            phases.end(MS(number * 10 + 5), number * 100 + 50);
        }
        assert!(!phases.are_separate());
        let phases = phases.finish(MS(20_000), 200_000);
        assert_eq!(phases.len(), limits::PHASES);
        assert_eq!(phases[62].name, "step");
        let rest = phases.last().unwrap();
        assert_eq!((rest.name.as_str(), rest.started_ms, rest.need_peak_bytes), ("(more)", 630, 999));
        assert_eq!((rest.wall_ms, rest.cpu_usec), (9995 - 630, 99_950 - 6300));
    }

    #[test]
    fn any_name_is_made_fit_for_the_wire() {
        assert_eq!(valid_name("\u{1b}[0Kbuild\r\n"), "[0Kbuild");
        assert_eq!(valid_name("../a b"), "../a b");
        assert_eq!(valid_name(" \t\0"), NAMELESS);
        let long = valid_name(&"\u{20ac}".repeat(100));
        assert_eq!(long.len(), limits::PHASE_NAME_BYTES / 3 * 3);
    }
}
