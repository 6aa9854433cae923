//! How numbers are written.

use proptest::prelude::*;

use super::*;

#[test]
fn sizes_use_readable_units() {
    let written = [0, 1023, 2048, 300 << 20, (1 << 30) - 1, 3 << 29, 100 << 30, 2 << 40].map(bytes);
    let expected = ["0 B", "1023 B", "2 KiB", "300 MiB", "1.00 GiB", "1.50 GiB", "100.00 GiB", "2.00 TiB"];
    assert_eq!(written, expected);
    assert_eq!(bytes((1 << 20) - 1), "1 MiB", "1024 of a unit is 1 of the next");
    assert_eq!([known(None, bytes), cell(None, bytes), known(Some(0), bytes)], ["not known", "–", "0 B"]);
}

#[test]
fn durations_are_short_and_rounded() {
    let written = [0, 40, 99, 150, 950, 1550, 59_949].map(millis);
    assert_eq!(written, ["0 s", "40 ms", "99 ms", "0.2 s", "1.0 s", "1.6 s", "59.9 s"]);
    let longer = [59_950, 61_499, 61_500, 3_599_500, 3_661_000, 5_370_000].map(millis);
    assert_eq!(longer, ["1 min 0 s", "1 min 1 s", "1 min 2 s", "1 h 0 min", "1 h 1 min", "1 h 30 min"]);
    let short = [0, 5, 999, 1000, 2739, 9949, 9950, 40_400, 1_500_000].map(micros);
    let expected = ["0 s", "5 us", "999 us", "1 ms", "2.7 ms", "9.9 ms", "10 ms", "40 ms", "1.5 s"];
    assert_eq!(short, expected, "no time above zero is written as zero");
}

#[test]
fn one_of_a_thing_has_no_plural() {
    assert_eq!([counted(1, "attempt"), counted(0, "attempt")], ["1 attempt", "0 attempts"]);
    assert_eq!(counted(2000, "attempt"), "2,000 attempts");
    assert_eq!([1, 2].map(|number| counted_as(number, "process", "processes")), ["1 process", "2 processes"]);
    assert_eq!([1.0, 0.996, 1.5, 0.0].map(cores_named), ["1 core", "1 core", "1.5 cores", "0 cores"]);
}

#[test]
fn cores_have_no_zeros_at_the_end() {
    assert_eq!([2.0, 0.25, 0.001, 10.0, f64::NAN].map(cores), ["2", "0.25", "under 0.01", "10", "–"]);
    assert_eq!([1500, 2000, 50, 0, 1].map(millicores), ["1.5", "2", "0.05", "0", "0.001"]);
}

#[test]
fn sums_have_digits_that_count() {
    let written =
        [0.0, 0.0001, 0.0123, 0.5, 1.2345, 12.34, 99.96, 123.4, 1234.5, -1234.0, f64::NAN].map(amount);
    let expected = ["0", "under 0.001", "0.012", "0.5", "1.23", "12.3", "100", "123", "1,235", "-1,234", "–"];
    assert_eq!(written, expected);
    assert_eq!([1.5, -0.3, 0.0].map(signed), ["+1.5", "-0.3", "0"]);
    assert_eq!([gib_hours(0.0001), core_hours(8.0)], ["0.1 MiB·h", "8 core·h"]);
    assert_eq!([money(12.3, "EUR"), times(2.5)], ["12.3 EUR", "2.5 ×"]);
}

#[test]
fn only_none_and_all_are_shown_exactly() {
    let written = [0.0, 0.0001, 0.004, 0.25, 0.996, 0.99999, 1.0, 1.5].map(percent);
    assert_eq!(written, ["0 %", "under 0.1 %", "0.4 %", "25 %", "99.6 %", "99.9 %", "100 %", "150 %"]);
    assert_eq!([share(1.0, 4.0), share(1.0, 0.0), share_of(1, 4)], ["25 %", "–", "25 %"]);
}

proptest! {
    #[test]
    fn positive_numbers_are_never_shown_as_zero(value in 1e-9..1e9_f64) {
        for text in [amount(value), cores(value), percent(value)] {
            prop_assert!(text.chars().any(|c| ('1'..='9').contains(&c)), "{value}: {text}");
        }
    }

    #[test]
    fn any_number_can_be_written(value: f64, number: u64) {
        for text in [amount(value), signed(value), cores(value), percent(value), times(value)] {
            prop_assert!(!text.is_empty());
        }
        for text in [bytes(number), millis(number), micros(number), count(number), millicores(number)] {
            prop_assert!(text.starts_with(|c: char| c.is_ascii_digit()) || text.starts_with("under"));
        }
    }
}

#[test]
fn durations_use_the_largest_whole_unit() {
    assert_eq!([86_400_000, 5_400_000, 1500].map(in_one_unit), ["1 d", "90 min", "1500 ms"]);
}
