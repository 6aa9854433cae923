//! Formats numbers for a terminal: uses the shared crate's functions, and draws small charts.

pub(super) use plimsoll_proto::figures::{
    DASH, amount, bytes, cell_bytes, cores_named, count, counted, millicores, millis, percent, rate, share,
};
pub(super) use plimsoll_proto::times::{date, date_time, rfc3339};
use plimsoll_proto::{figures, shown};

/// An amount of money: `12.3 EUR`.
pub(super) fn money(value: f64, currency: &str) -> String {
    figures::money(value, &shown::clean(currency))
}

/// A length of time in the largest unit that divides it: `15 min`, `6 h`, `1 d`.
pub(super) fn width_words(ms: u64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)];
    let fitting = units.into_iter().find(|(_, unit)| ms >= *unit && ms.is_multiple_of(*unit));
    fitting.map_or_else(|| format!("{ms} ms"), |(name, unit)| format!("{} {name}", ms / unit))
}

/// A length of time, rounded: `7 d`, `36 h`, `5 min`.
pub(super) fn length_words(ms: u64) -> String {
    match ms / 60_000 {
        minutes @ 0..120 => format!("{minutes} min"),
        minutes @ 120..2880 => format!("{} h", (minutes + 30) / 60),
        minutes => format!("{} d", (minutes + 720) / 1440),
    }
}

/// Draws values as a line of at most `width` blocks. Each block covers a group of successive values, and its
/// height is the largest value in the group. A value of `top` (or the largest value, if that is more) has full
/// height.
pub(super) fn sparkline(values: &[u64], width: usize, top: Option<u64>) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = values.iter().copied().max().unwrap_or(0);
    let top = top.unwrap_or(0).max(largest).max(1);
    let block = |stretch: &[u64]| {
        let value = u128::from(stretch.iter().copied().max().unwrap_or(0));
        let level = (value * 8).div_ceil(u128::from(top)).saturating_sub(1);
        BLOCKS.get(usize::try_from(level).unwrap_or(0)).copied().unwrap_or('█')
    };
    equal_pieces(values, width).map(block).collect()
}

/// Splits the values into at most `width` groups of equal length.
pub(super) fn equal_pieces<T>(values: &[T], width: usize) -> std::slice::Chunks<'_, T> {
    values.chunks(values.len().div_ceil(width.max(1)).max(1))
}

/// Like [`sparkline`], for fractions. Negative values count as 0. A value of `top` (or the largest value, if
/// that is more) has full height.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 to 1,000 of the largest: eight heights are drawn"
)]
pub(super) fn sparkline_of(values: &[f64], width: usize, top: f64) -> String {
    let largest = values.iter().copied().fold(top, f64::max).max(f64::MIN_POSITIVE);
    let share = |value: &f64| (value.max(0.0) / largest * 1000.0) as u64;
    sparkline(&values.iter().map(share).collect::<Vec<_>>(), width, Some(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_keeps_its_width_and_its_peak() {
        assert_eq!(sparkline(&[], 10, None), "");
        assert_eq!(sparkline(&[0, 0], 10, None), "▁▁");
        assert_eq!(sparkline(&[0, 1, 4, 8], 10, None), "▁▁▄█");
        assert_eq!(sparkline(&[0, 1, 4, 8], 10, Some(16)), "▁▁▂▄");
        assert_eq!(sparkline(&[u64::MAX, 1], 0, Some(3)), "█");
        assert_eq!(sparkline_of(&[0.0, -1.0, 0.25, 0.5], 10, 0.0), "▁▁▄█");
        let values: Vec<u64> = (0..1000).collect();
        let line = sparkline(&values, 60, None);
        assert!(line.chars().count() <= 60 && line.ends_with('█'), "{line}");
    }

    #[test]
    fn lengths_of_time_are_shown_in_the_largest_unit_that_fits() {
        assert_eq!([600_000, 86_400_000, 604_799_999].map(length_words), ["10 min", "24 h", "7 d"]);
        assert_eq!([86_400_000, 5_400_000, 1500].map(width_words), ["1 d", "90 min", "1500 ms"]);
    }
}
