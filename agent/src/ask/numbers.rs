//! Numbers as people read them.

/// `1.50 GiB`.
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub(super) fn bytes(bytes: u64) -> String {
    let value = bytes as f64;
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{:.0} KiB", value / 1024.0),
        1_048_576..1_073_741_824 => format!("{:.0} MiB", value / 1_048_576.0),
        _ => format!("{:.2} GiB", value / 1_073_741_824.0),
    }
}

/// `1 min 5 s`.
pub(super) fn millis(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0..60 => format!("{seconds}.{} s", ms % 1000 / 100),
        60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

/// `1.5` from 1500.
pub(super) fn millicores(millicores: u64) -> String {
    let (whole, rest) = (millicores / 1000, millicores % 1000);
    let text = format!("{whole}.{rest:03}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `45 %`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `45 %` of two sums; a dash if there is nothing to compare with.
pub(super) fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { percent(part / whole) } else { "-".to_owned() }
}

/// A line of blocks, one for each of at most `width` stretches of time, as high as the largest value in it.
pub(super) fn sparkline(values: &[u64], width: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = values.iter().copied().max().unwrap_or(0).max(1);
    let stretch = values.len().div_ceil(width.max(1)).max(1);
    let block = |stretch: &[u64]| {
        let value = u128::from(stretch.iter().copied().max().unwrap_or(0));
        let level = (value * 8).div_ceil(u128::from(largest)).saturating_sub(1);
        BLOCKS.get(usize::try_from(level).unwrap_or(0)).copied().unwrap_or('█')
    };
    values.chunks(stretch).map(block).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_say_them() {
        assert_eq!([0, 2048, 300 << 20, 3 << 29].map(bytes), ["0 B", "2 KiB", "300 MiB", "1.50 GiB"]);
        assert_eq!([1550, 61_000, 3_661_000].map(millis), ["1.5 s", "1 min 1 s", "1 h 1 min"]);
        assert_eq!([1500, 2000, 50, 0].map(millicores), ["1.5", "2", "0.05", "0"]);
        assert_eq!([share(1.0, 4.0), share(1.0, 0.0)], ["25 %", "-"]);
    }

    #[test]
    fn a_sparkline_keeps_its_width_and_its_peak() {
        assert_eq!(sparkline(&[], 10), "");
        assert_eq!(sparkline(&[0, 0], 10), "▁▁");
        assert_eq!(sparkline(&[0, 1, 4, 8], 10), "▁▁▄█");
        let values: Vec<u64> = (0..1000).collect();
        let line = sparkline(&values, 60);
        assert!(line.chars().count() <= 60 && line.ends_with('█'), "{line}");
    }
}
