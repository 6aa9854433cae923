//! Draws numbers over time as one line.

#[cfg(feature = "people")]
use plimsoll_proto::figures;

const UNICODE_MARKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_MARKS: [char; 8] = ['_', '.', '-', '=', '+', '*', '%', '#'];

/// Draws values as a line of at most `width` characters. Each covers a group of successive values, and its height is the largest value in
/// the group. A value of `top` (or the largest value, if that is more) has full height.
pub(crate) fn draw_curve(values: &[u64], top: u64, width: usize, utf8: bool) -> String {
    let marks = if utf8 { UNICODE_MARKS } else { ASCII_MARKS };
    let top = values.iter().copied().fold(top.max(1), u64::max);
    let mark = |part: &[u64]| {
        let value = part.iter().copied().max().unwrap_or(0);
        let level = (u128::from(value) * 8).div_ceil(u128::from(top)).saturating_sub(1);
        usize::try_from(level).ok().and_then(|level| marks.get(level)).copied().unwrap_or('?')
    };
    values.chunks(values.len().div_ceil(width.max(1)).max(1)).map(mark).collect()
}

/// Like [`draw_curve`], for fractions; negative values count as 0.
#[cfg(feature = "people")]
pub(super) fn draw_fractions(values: &[f64], top: f64, width: usize) -> String {
    let largest = values.iter().copied().fold(top, f64::max).max(f64::MIN_POSITIVE);
    let share = |value: &f64| figures::to_whole(value.max(0.0) / largest * 1000.0);
    draw_curve(&values.iter().map(share).collect::<Vec<_>>(), 1000, width, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_keeps_its_peak_and_its_width() {
        assert_eq!(draw_curve(&[], 0, 60, true), "");
        assert_eq!(draw_curve(&[0, 1, 4, 8], 8, 60, true), "▁▁▄█");
        assert_eq!(draw_curve(&[0, 1, 4, 8], 8, 60, false), "__=#");
        assert_eq!(draw_curve(&[0, 4, 8, 9], 16, 2, true), "▂▅");
        assert_eq!(draw_curve(&[u64::MAX, 7], 7, 60, true), "█▁");
        assert_eq!(draw_curve(&[u64::MAX, 1], 3, 0, true), "█");
        #[cfg(feature = "people")]
        assert_eq!(draw_fractions(&[0.0, -1.0, 0.25, 0.5], 0.0, 10), "▁▁▄█");
        let values: Vec<u64> = (0..120).collect();
        assert_eq!(draw_curve(&values, 119, 60, true).chars().count(), 60);
    }
}
