//! Small charts, which only the terminal shows.

use super::curve::draw_curve;

/// Draws values as a line of at most `width` blocks. A value of `top` (or the largest value, if that is more) has full height.
pub(super) fn sparkline(values: &[u64], width: usize, top: Option<u64>) -> String {
    draw_curve(values, top.unwrap_or(0), width, true)
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
        assert_eq!(sparkline_of(&[0.0, -1.0, 0.25, 0.5], 10, 0.0), "▁▁▄█");
    }
}
