//! Numbers with their units, as people read them.

use crate::domain::{Bytes, CpuMicros, Millis};

/// `1.50 GiB`.
pub(super) fn bytes(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// `1.50 GiB`, or a dash for what is not known.
pub(super) fn some_bytes(known: Option<u64>) -> String {
    known.map_or_else(|| "–".to_owned(), bytes)
}

/// `1 min 5 s`.
pub(super) fn millis(ms: u64) -> String {
    Millis(ms).to_string()
}

/// Mean cores.
pub(super) fn mean_cores(cpu_usec: u64, wall_ms: u64) -> f64 {
    CpuMicros(cpu_usec).cores_over(Millis(wall_ms)).0
}

/// `1.25`: no zeros at the end.
pub(super) fn cores(cores: f64) -> String {
    let text = format!("{cores:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// `12 core·h`, or a dash where no CPU was measured.
pub(super) fn core_hours(hours: f64) -> String {
    if hours > 0.0 { format!("{} core·h", amount(hours)) } else { "–".to_owned() }
}

/// `1 process`, `2 processes`.
pub(super) fn plural(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// `12,345`.
pub(super) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits that count: `12,345`, `123`, `12.3`, `1.23`, `0.012`.
pub(super) fn amount(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        "–".to_owned()
    } else if size >= 100.0 {
        let sign = if value < 0.0 { "-" } else { "" };
        format!("{sign}{}", count(Bytes::from_f64(size).0))
    } else if size >= 10.0 {
        trimmed(&format!("{value:.1}"))
    } else if size >= 0.1 || size == 0.0 {
        trimmed(&format!("{value:.2}"))
    } else {
        trimmed(&format!("{value:.3}"))
    }
}

fn trimmed(text: &str) -> String {
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

/// `45 %`; a dash if there is nothing to compare with.
pub(super) fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { percent(part / whole) } else { "–".to_owned() }
}

/// `45 %`, `0.4 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent != 0.0 && percent.abs() < 1.0 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}

/// `45 %` of counts.
pub(super) fn share_of(part: u64, whole: u64) -> String {
    share(Bytes(part).as_f64(), Bytes(whole).as_f64())
}

/// A count as a float, for charts.
pub(super) fn float(count: u64) -> f64 {
    Bytes(count).as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_as_many_digits_as_count() {
        assert_eq!([0, 999, 1000, 1_234_567].map(count), ["0", "999", "1,000", "1,234,567"]);
        let said = [0.0, 0.0123, 0.5, 1.2345, 12.34, 1234.5, -1234.0, f64::NAN].map(amount);
        assert_eq!(said, ["0", "0.012", "0.5", "1.23", "12.3", "1,235", "-1,234", "–"]);
        assert_eq!([share(1.0, 4.0), share(1.0, 0.0), percent(0.004)], ["25 %", "–", "0.4 %"]);
        assert_eq!(
            [plural(1, "build", "builds"), plural(2000, "build", "builds")],
            ["1 build", "2,000 builds"]
        );
        assert_eq!([amount(10.0), amount(12.34)], ["10", "12.3"]);
        assert_eq!([cores(2.0), cores(0.25)], ["2", "0.25"]);
    }
}
