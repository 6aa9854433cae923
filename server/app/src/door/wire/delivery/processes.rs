//! Parses what an agent saw of the processes of a build, and what rescue did with them.
//!
//! A value that cannot be used is skipped alone, except where the rest would then mislead: a process without its program, memory or time is
//! skipped as a whole, and a paused time that is too long counts as the whole attempt.

use plimsoll_core::{
    domain::{FieldViolation, LargestProcess, Millis, Rescue},
    validated::{Validated, text},
};
use plimsoll_proto::{limits, v1 as pb};

use super::{
    super::{at_most, check_memory},
    MessagePart,
};

/// Most processes that an agent pauses at once.
const MOST_PAUSED: u64 = 2048;

/// Parses the largest process of an attempt that took `wall`; `None` if it cannot be used.
pub(super) fn read_largest(
    wire: &pb::LargestProcess,
    wall: Millis,
    part: &mut MessagePart<'_>,
) -> Option<LargestProcess> {
    let program = part.usable("program", Some(wire.program.as_str()), check_program);
    let memory = part.usable("memory_bytes", Some(wire.memory_bytes), |field, bytes| match bytes {
        0 => Err(FieldViolation::new(field, "is 0; leave out the process if its memory is not known")),
        bytes => check_memory(field, bytes),
    });
    let elapsed = part.usable("elapsed_ms", Some(wire.elapsed_ms), within(wall));
    let file = part
        .usable("file", Some(wire.file.clone()), |field, name| text(field, name, limits::FILE_NAME_BYTES));
    Some(LargestProcess {
        program: program?,
        file: file.unwrap_or_default(),
        memory: memory?,
        elapsed: elapsed?,
    })
}

fn check_program(field: &str, name: &str) -> Validated<String> {
    if name.is_empty() {
        return Err(FieldViolation::new(
            field,
            "is empty; leave out the process if its program is not known",
        ));
    }
    text(field, name.to_owned(), limits::PROGRAM_BYTES)
}

/// Parses what rescue did for an attempt that took `wall`; `None` if it did nothing that can be used.
pub(super) fn read_rescue(wire: &pb::Rescue, wall: Millis, part: &mut MessagePart<'_>) -> Option<Rescue> {
    let would_pause = part.usable("would_pause_ms", wire.would_pause_ms, within(wall));
    let paused = part.usable("paused_ms", Some(wire.paused_ms), within(wall)).unwrap_or(wall);
    // each of many processes may have been paused all the time
    let most = Millis(wall.0.saturating_mul(u64::from(wire.pauses).clamp(1, MOST_PAUSED)));
    let gave_up = |field: &str, why| text(field, why, limits::GAVE_UP_BYTES);
    let rescue = Rescue {
        would_pause,
        would_pause_processes: would_pause.map_or(0, |_| wire.would_pause_processes),
        pauses: wire.pauses,
        paused,
        paused_process_time: part
            .usable("paused_process_ms", Some(wire.paused_process_ms), within(most))
            .unwrap_or(paused),
        together_peak: part
            .usable("together_peak_bytes", Some(wire.together_peak_bytes), check_memory)
            .unwrap_or_default(),
        gave_up: part.usable("gave_up", Some(wire.gave_up.clone()), gave_up).unwrap_or_default(),
        raises: wire.raises,
        ended: part.usable("ended_ms", wire.ended_ms, within(wall)),
        raised_byte_seconds: part
            .usable(
                "raised_byte_seconds",
                (wire.raises > 0).then_some(wire.raised_byte_seconds),
                raised_within(wall),
            )
            .unwrap_or_default(),
    };
    (rescue != Rescue::default()).then_some(rescue)
}

/// Checks how much memory raises allowed in an attempt that took `wall`: at most all that a limit may be, all the time.
fn raised_within(wall: Millis) -> impl Fn(&str, u64) -> Validated<u64> {
    move |field, raised| {
        let most = limits::MEMORY_BYTES.saturating_mul(wall.0 / 1000 + 1);
        at_most(field, raised, most)
    }
}

/// Checks a time of an attempt that took `wall`.
fn within(wall: Millis) -> impl Fn(&str, u64) -> Validated<Millis> {
    move |field, time| {
        if time <= wall.0 {
            return Ok(Millis(time));
        }
        let description =
            format!("is {time}, but the attempt took only {}; a time is within its attempt", wall.0);
        Err(FieldViolation::new(field, description))
    }
}
