//! What `plimsoll report` writes: a stretch of time against the one before it, from two answers of the server.
//!
//! `figures` and `next` say what there is to say and are pure; `text`, `html` and `json` write it down.

mod figures;
mod html;
mod json;
mod markup;
mod next;
mod text;

use plimsoll_proto::v1::{Filter, GetStatsRequest, GetStatsResponse, Group, GroupBy, StatsTotals};

use super::{Answer, Client, Failure, Look, answer};

/// Packages, and needs that have moved, that are named.
const NAMED: usize = 10;

/// A step of the drawing over time; longer where there would be too many.
const STEP_MS: u64 = 24 * 3_600_000;

/// Steps of the drawing at most.
const STEPS: u64 = 60;

/// How a report is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum DigestFormat {
    /// For people, on a terminal or in a mail.
    Text,
    /// For programs: stable names with their unit.
    Json,
    /// For people, as one file for a browser or a printer.
    Html,
}

/// A stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Milliseconds since 1970.
    pub from_unix_ms: u64,
    /// The first millisecond that does not belong to it.
    pub to_unix_ms: u64,
}

impl Range {
    /// As long, just before it.
    fn before(self) -> Self {
        let long = self.to_unix_ms.saturating_sub(self.from_unix_ms);
        Self { from_unix_ms: self.from_unix_ms.saturating_sub(long), to_unix_ms: self.from_unix_ms }
    }

    /// A width of steps that gives no more than are drawn: whole days.
    fn step_ms(self) -> u64 {
        let days = self.to_unix_ms.saturating_sub(self.from_unix_ms).div_ceil(STEP_MS);
        STEP_MS * days.div_ceil(STEPS).max(1)
    }

    fn of(self, filter: &Filter) -> Filter {
        Filter { from_unix_ms: Some(self.from_unix_ms), to_unix_ms: Some(self.to_unix_ms), ..filter.clone() }
    }
}

/// All that a report is made of.
#[derive(Debug, Default)]
struct Digest {
    /// Whose attempts, without the times.
    filter: Filter,
    from_unix_ms: u64,
    to_unix_ms: u64,
    step_ms: u64,
    now: StatsTotals,
    before: StatsTotals,
    /// By package and over time.
    stats: GetStatsResponse,
}

/// A report on the attempts of `filter` in `range`, its times left aside.
///
/// # Errors
/// The server gave no answer, or could not read the question.
pub async fn digest(
    client: &Client,
    (filter, range): (Filter, Range),
    (format, look): (DigestFormat, Look),
) -> Result<Answer, Failure> {
    let now = GetStatsRequest {
        filter: Some(range.of(&filter)),
        group_by: GroupBy::Package.into(),
        step_ms: range.step_ms(),
        ..GetStatsRequest::default()
    };
    let before = GetStatsRequest { filter: Some(range.before().of(&filter)), ..GetStatsRequest::default() };
    let (now, before) = (client.stats(now).await?, client.stats(before).await?);
    let digest = Digest {
        filter: Filter { from_unix_ms: None, to_unix_ms: None, ..filter },
        from_unix_ms: range.from_unix_ms,
        to_unix_ms: range.to_unix_ms,
        step_ms: range.step_ms(),
        now: now.totals.clone().unwrap_or_default(),
        before: before.totals.unwrap_or_default(),
        stats: now,
    };
    Ok(answer(match format {
        DigestFormat::Text => text::render(&digest, look),
        DigestFormat::Json => json::render(&digest),
        DigestFormat::Html => html::render(&digest),
    }))
}

impl Digest {
    /// The packages that waste most.
    fn wasters(&self) -> impl Iterator<Item = (&Group, StatsTotals)> {
        let named = self.stats.groups.iter().filter(|group| group.name != "(others)");
        let sums = named.map(|group| (group, group.totals.clone().unwrap_or_default()));
        sums.filter(|(_, sums)| sums.memory_wasted_gib_hours > 0.0).take(NAMED)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::v1::{Calibration, Cause, CauseCount, ChangeKind, Regression, Step, WouldHaveBeen};

    use super::*;

    /// A week with something of everything.
    pub(super) fn full() -> Digest {
        let cause = |cause: Cause, count| CauseCount { cause: cause.into(), count };
        let now = StatsTotals {
            attempts: 1234,
            succeeded: 1200,
            failed: 34,
            oom: 20,
            retries: 12,
            causes: vec![cause(Cause::Oom, 20), cause(Cause::Infra, 14)],
            retries_by_cause: vec![cause(Cause::Deterministic, 9)],
            retries_avoided: 3,
            retries_helped: 2,
            memory_asked_gib_hours: 400.0,
            memory_used_of_asked_gib_hours: 100.0,
            memory_wasted_gib_hours: 310.0,
            asked_money: 45.0,
            wasted_money: 12.3,
            calibration: Some(Calibration {
                attempts: 1000,
                within_limit: 910,
                within_request: 800,
                timed: 100,
                within_wall_p95: 96,
                error_log2_mean: 0.5,
            }),
            would_have_been: Some(WouldHaveBeen {
                attempts: 1000,
                asked_gib_hours: 400.0,
                predicted_gib_hours: 150.0,
                failed: 20,
                would_fail: 3,
                ..WouldHaveBeen::default()
            }),
            ..StatsTotals::default()
        };
        let before = StatsTotals {
            attempts: 1100,
            failed: 11,
            oom: 11,
            causes: vec![cause(Cause::Oom, 11)],
            memory_asked_gib_hours: 380.0,
            memory_wasted_gib_hours: 280.0,
            ..StatsTotals::default()
        };
        let group = |name: &str, wasted, oom| {
            let sums = StatsTotals {
                attempts: 600,
                oom,
                failed: oom,
                memory_wasted_gib_hours: wasted,
                memory_asked_gib_hours: wasted * 1.3,
                memory_used_of_asked_gib_hours: wasted * 0.3,
                need_peak_max_bytes: 3 << 30,
                ..StatsTotals::default()
            };
            Group { name: name.to_owned(), totals: Some(sums) }
        };
        let regression = Regression {
            key: "hdf5@1.14 <b>".to_owned(),
            kind: ChangeKind::Step.into(),
            attempt: "gitlab.com:77".to_owned(),
            factor: 2.5,
            before_bytes: 1 << 30,
            now_bytes: 5 << 29,
            changed: "version 1.12 -> 1.14".to_owned(),
            extra_gib_hours: 12.0,
            ..Regression::default()
        };
        let step = |n: u64| Step {
            from_unix_ms: 1_763_164_800_000 + n * STEP_MS,
            totals: Some(StatsTotals { attempts: 100 + n, failed: n, ..StatsTotals::default() }),
        };
        let stats = GetStatsResponse {
            groups: vec![
                group("llvm<script>alert(1)</script>", 200.0, 2),
                group("zlib\u{1b}[2J", 60.0, 18),
                group("(others)", 50.0, 0),
            ],
            steps: (0..7).map(step).collect(),
            regressions: vec![regression],
            currency: "EUR".to_owned(),
            ..GetStatsResponse::default()
        };
        Digest {
            filter: Filter { owner: "team a&b".to_owned(), ..Filter::default() },
            from_unix_ms: 1_763_164_800_000,
            to_unix_ms: 1_763_164_800_000 + 7 * STEP_MS,
            step_ms: STEP_MS,
            now,
            before,
            stats,
        }
    }

    /// A week in which nothing happened.
    pub(super) fn empty() -> Digest {
        Digest {
            now: StatsTotals::default(),
            before: StatsTotals::default(),
            stats: GetStatsResponse::default(),
            ..full()
        }
    }

    #[test]
    fn a_stretch_of_time_is_held_against_one_as_long() {
        let week = Range { from_unix_ms: 14 * STEP_MS, to_unix_ms: 21 * STEP_MS };
        assert_eq!(week.before(), Range { from_unix_ms: 7 * STEP_MS, to_unix_ms: 14 * STEP_MS });
        assert_eq!(week.step_ms(), STEP_MS);
        let long = Range { from_unix_ms: 0, to_unix_ms: 365 * STEP_MS };
        assert_eq!((long.before().from_unix_ms, long.step_ms()), (0, 7 * STEP_MS));
        assert_eq!(Range { from_unix_ms: 5, to_unix_ms: 5 }.step_ms(), STEP_MS);
    }

    #[test]
    fn what_is_summed_up_as_others_is_no_waster() {
        let digest = full();
        let names: Vec<&str> = digest.wasters().map(|(group, _)| group.name.as_str()).collect();
        assert_eq!(names, ["llvm<script>alert(1)</script>", "zlib\u{1b}[2J"]);
    }
}
