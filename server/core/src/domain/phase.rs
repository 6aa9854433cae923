//! A part of a build that its output names, for example a GitLab section or a phase of Spack.

use plimsoll_proto::limits;
use serde::{Deserialize, Serialize};

use super::{Bytes, CpuMicros, FieldViolation, Millis};

/// A part of a build that its output names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The phase's name, 1 to 128 bytes without control characters. Several phases may have the same name.
    pub name: String,
    /// Start, measured from the start of the attempt.
    pub started: Millis,
    /// Duration of the phase.
    pub wall: Millis,
    /// Highest memory need measured during the phase.
    pub need_peak: Bytes,
    /// CPU time used during the phase.
    pub cpu: CpuMicros,
}

impl Phase {
    /// End of the phase, measured from the start of the attempt.
    pub fn ended(&self) -> Millis {
        Millis(self.started.0.saturating_add(self.wall.0))
    }

    /// Checks the number, names and order of phases, and that they lie within an attempt that took `wall`.
    /// Errors: Names the first field that breaks a rule.
    pub fn check_all(phases: &[Self], wall: Millis) -> Result<(), FieldViolation> {
        if phases.len() > limits::PHASES {
            let description = format!("has {} phases, at most {} are allowed", phases.len(), limits::PHASES);
            return Err(FieldViolation::new("phases", description));
        }
        let mut before = Millis(0);
        for (index, phase) in phases.iter().enumerate() {
            phase.check(before, wall).map_err(|fault| fault.within(&format!("phases[{index}]")))?;
            before = phase.ended();
        }
        Ok(())
    }

    /// Checks a phase; the phase before it ended at `before`.
    fn check(&self, before: Millis, wall: Millis) -> Result<(), FieldViolation> {
        let bytes = self.name.len();
        if bytes == 0 || bytes > limits::PHASE_NAME_BYTES {
            let description = format!("has {bytes} bytes; it must have 1 to {}", limits::PHASE_NAME_BYTES);
            return Err(FieldViolation::new("name", description));
        }
        if self.name.chars().any(char::is_control) {
            return Err(FieldViolation::new("name", "holds a control character; send printable text"));
        }
        if self.started < before {
            let description = format!(
                "is {}, but the phase before it ends at {}; send phases in order, without overlap",
                self.started.0, before.0
            );
            return Err(FieldViolation::new("started_ms", description));
        }
        if self.ended() > wall {
            let description = format!(
                "is {} from {} on, but the attempt took only {}; a phase ends with its attempt at the latest",
                self.wall.0, self.started.0, wall.0
            );
            return Err(FieldViolation::new("wall_ms", description));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str, started: u64, wall: u64) -> Phase {
        Phase { name: name.into(), started: Millis(started), wall: Millis(wall), ..Phase::default() }
    }

    #[test]
    fn phases_must_be_few_named_ordered_and_inside() {
        let check = |phases: &[Phase]| Phase::check_all(phases, Millis(100)).map_err(|fault| fault.field);
        assert_eq!(check(&[]), Ok(()));
        let touching = [phase("configure", 0, 40), phase("build", 40, 60), phase("build", 100, 0)];
        assert_eq!(check(&touching), Ok(()), "they may touch, repeat a name, and take no time");
        let named = |name: &str| check(&[phase(name, 0, 1)]);
        assert_eq!(named(&"x".repeat(limits::PHASE_NAME_BYTES)), Ok(()));
        for name in
            [String::new(), "x".repeat(limits::PHASE_NAME_BYTES + 1), "a\u{1b}[0m".into(), "a\n".into()]
        {
            assert_eq!(named(&name), Err("phases[0].name".into()), "{name:?}");
        }
        let faults = [
            (vec![phase("a", 0, 10), phase("b", 9, 1)], "phases[1].started_ms"),
            (vec![phase("a", 50, 51)], "phases[0].wall_ms"),
            (vec![phase("a", u64::MAX, u64::MAX)], "phases[0].wall_ms"),
            (vec![phase("a", 0, 1); 2], "phases[1].started_ms"),
            ((0..65).map(|n| phase("a", n, 1)).collect(), "phases"),
        ];
        for (phases, field) in faults {
            assert_eq!(check(&phases), Err(field.into()), "{phases:?}");
        }
    }
}
