//! Reduces a series of any length to a bounded number of rows. Consecutive samples become one row,
//! which has their highest need.

use plimsoll_proto::v1 as pb;

/// Collects rows; never more than requested, however many samples are added.
#[derive(Debug)]
pub(crate) struct Rows {
    /// Most rows, at least 1.
    limit: usize,
    /// Number of samples in a full row; a power of two.
    width: u64,
    collected: Vec<Row>,
}

/// Consecutive samples combined into one row.
#[derive(Debug, Clone, Copy)]
struct Row {
    /// The last of the samples.
    last: pb::Sample,
    samples: u64,
    memory_sum: u128,
    need_sum: u128,
    need_max: u64,
}

impl Rows {
    /// Starts without rows. At most `limit` are kept.
    pub(crate) fn new(limit: usize) -> Self {
        Self { limit: limit.max(1), width: 1, collected: Vec::new() }
    }

    /// Adds the next sample.
    pub(crate) fn add(&mut self, sample: pb::Sample) {
        let whole = self.collected.last().is_none_or(|row| row.samples >= self.width);
        if whole && self.collected.len() >= self.limit {
            self.halve();
        }
        let row = Row::of(sample);
        match self.collected.last_mut().filter(|last| last.samples < self.width) {
            Some(last) => *last = last.followed_by(&row),
            None => self.collected.push(row),
        }
    }

    /// Combines each two consecutive rows into one.
    fn halve(&mut self) {
        self.width *= 2;
        let halved =
            self.collected.chunks(2).filter_map(|pair| pair.iter().copied().reduce(|a, b| a.followed_by(&b)));
        self.collected = halved.collect();
    }

    /// Whether rows combine several samples.
    pub(crate) fn downsampled(&self) -> bool {
        self.width > 1
    }

    /// The rows in order.
    pub(crate) fn into_samples(self) -> Vec<pb::Sample> {
        self.collected.iter().map(Row::sample).collect()
    }
}

impl Row {
    fn of(sample: pb::Sample) -> Self {
        Self {
            last: sample,
            samples: 1,
            memory_sum: sample.memory_bytes.into(),
            need_sum: sample.need_bytes.into(),
            need_max: sample.need_max_bytes.unwrap_or_default().max(sample.need_bytes),
        }
    }

    fn followed_by(&self, next: &Self) -> Self {
        Self {
            last: next.last,
            samples: self.samples + next.samples,
            memory_sum: self.memory_sum + next.memory_sum,
            need_sum: self.need_sum + next.need_sum,
            need_max: self.need_max.max(next.need_max),
        }
    }

    fn sample(&self) -> pb::Sample {
        if self.samples == 1 {
            return self.last;
        }
        // a mean is never above the largest value, so it fits into a u64
        let mean = |sum: u128| u64::try_from(sum / u128::from(self.samples)).unwrap_or(u64::MAX);
        pb::Sample {
            memory_bytes: mean(self.memory_sum),
            need_bytes: mean(self.need_sum),
            need_max_bytes: Some(self.need_max),
            ..self.last
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_proto::{counters::PageCounters, limits};
    use prost::Message as _;

    use super::*;

    fn sample(number: u64, need: u64) -> pb::Sample {
        pb::Sample { elapsed_ms: number * 1000, need_bytes: need, cpu_usec: number, ..pb::Sample::default() }
    }

    fn rows(limit: usize, samples: u64) -> Rows {
        let mut rows = Rows::new(limit);
        (1..=samples).for_each(|n| rows.add(sample(n, n)));
        rows
    }

    #[test]
    fn a_series_that_fits_comes_as_it_is() {
        let rows = rows(5, 5);
        assert!(!rows.downsampled());
        assert_eq!(rows.into_samples(), (1..=5).map(|n| sample(n, n)).collect::<Vec<_>>());
    }

    #[test]
    fn downsampling_keeps_peaks_means_and_the_end() {
        let mut rows = rows(4, 9);
        rows.add(sample(10, 1_000_000));
        rows.add(sample(11, 11));
        assert!(rows.downsampled());
        let rows = rows.into_samples();
        let shown: Vec<_> =
            rows.iter().map(|r| (r.elapsed_ms, r.need_bytes, r.need_max_bytes, r.cpu_usec)).collect();
        assert_eq!(
            shown,
            [(4000, 2, Some(4), 4), (8000, 6, Some(8), 8), (11_000, 333_340, Some(1_000_000), 11)],
            "1 to 4, 5 to 8, 9 to 11"
        );
    }

    #[test]
    fn the_rows_never_exceed_their_number() {
        for limit in 1..6 {
            for samples in 0..70_usize {
                let rows = rows(limit, samples as u64).into_samples();
                assert!(rows.len() <= limit && (rows.len() * 2 >= limit.min(samples)), "{limit} {samples}");
                assert_eq!(rows.last().map_or(0, |row| row.cpu_usec), samples as u64);
            }
        }
    }

    #[test]
    fn the_maximum_number_of_rows_fits_an_answer() {
        let most = Some(u64::MAX);
        let widest = pb::Sample {
            elapsed_ms: u64::MAX,
            memory_bytes: u64::MAX,
            need_bytes: u64::MAX,
            memory_peak_bytes: most,
            cpu_usec: u64::MAX,
            oom_kill: most,
            reclaim_failures: most,
            need_max_bytes: most,
            memory_stall_usec: most,
            throttled_usec: most,
            starved_ms: most,
            ..pb::Sample::default()
        }
        .with_pages(PageCounters::all(most));
        // the field's tag, its length, and some room for the summary
        let row = widest.encoded_len() + 3;
        assert!(row * limits::SHOWN_SAMPLES as usize + 64 * 1024 < limits::ANSWER_BYTES, "{row} bytes a row");
    }
}
