//! Formats numbers for people, in the same way on the terminal, on the page and in every report.
//!
//! Units of memory are binary, and a number has about three significant digits. A number that was not measured is written as [`NOT_KNOWN`]
//! in a sentence and as [`DASH`] in the cell of a table, never as 0. A number above zero is never written as zero.

/// Words, in a sentence, for a number that was not measured.
pub const NOT_KNOWN: &str = "not known";

/// Mark, in a table cell, for a number that was not measured or has nothing to be compared with.
pub const DASH: &str = "–";

/// Formats bytes: `512 B`, `300 MiB`, `1.50 GiB`, `2.00 TiB`. Numbers are whole below one gibibyte and have
/// two decimals from one gibibyte on.
pub fn bytes(bytes: u64) -> String {
    const KIB: u64 = 1 << 10;
    // a number that would be written as 1024 of a unit is written as 1 of the next unit
    let rounds_up = |unit: u64| 1024 * unit - unit / 2;
    match bytes {
        0..KIB => format!("{bytes} B"),
        _ if bytes < rounds_up(KIB) => format!("{:.0} KiB", in_units(bytes, KIB)),
        _ if bytes < rounds_up(1 << 20) => format!("{:.0} MiB", in_units(bytes, 1 << 20)),
        _ if bytes < 1 << 40 => format!("{:.2} GiB", in_units(bytes, 1 << 30)),
        _ => format!("{:.2} TiB", in_units(bytes, 1 << 40)),
    }
}

/// Formats a number for a sentence; [`NOT_KNOWN`] if there is none.
pub fn known<T>(number: Option<T>, say: impl Fn(T) -> String) -> String {
    number.map_or_else(|| NOT_KNOWN.to_owned(), say)
}

/// Formats a number for a cell of a table; [`DASH`] if there is none.
pub fn cell<T>(number: Option<T>, say: impl Fn(T) -> String) -> String {
    number.map_or_else(|| DASH.to_owned(), say)
}

/// A length of time in the largest unit that divides it: `15 min`, `6 h`, `1 d`.
pub fn in_one_unit(ms: u64) -> String {
    let units = [("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)];
    let fitting = units.into_iter().find(|(_, unit)| ms >= *unit && ms.is_multiple_of(*unit));
    fitting.map_or_else(|| format!("{ms} ms"), |(name, unit)| format!("{} {name}", ms / unit))
}

/// Formats a duration: `40 ms`, `1.5 s`, `1 min 5 s`, `1 h 1 min`. The last part is rounded.
pub fn millis(ms: u64) -> String {
    match ms {
        0 => "0 s".to_owned(),
        1..100 => format!("{ms} ms"),
        // a number that would be written as 60 of a unit is written as 1 of the next unit
        100..59_950 => {
            let tenths = (ms + 50) / 100;
            format!("{}.{} s", tenths / 10, tenths % 10)
        }
        59_950..3_599_500 => {
            let seconds = (ms + 500) / 1000;
            format!("{} min {} s", seconds / 60, seconds % 60)
        }
        _ => {
            let minutes = ms / 60_000 + u64::from(ms % 60_000 >= 30_000);
            format!("{} h {} min", count(minutes / 60), minutes % 60)
        }
    }
}

/// Formats a duration or CPU time given in microseconds: `739 us`, `2.7 ms`, `40 ms`, and longer ones as [`millis`] does.
pub fn micros(usec: u64) -> String {
    match usec {
        1..1000 => format!("{usec} us"),
        1000..9950 => {
            let tenths = (usec + 50) / 100;
            format!("{} ms", without_trailing_zeros(&format!("{}.{}", tenths / 10, tenths % 10)))
        }
        _ => millis(usec / 1000 + u64::from(usec % 1000 >= 500)),
    }
}

/// Formats a count: `12,345`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a count with its noun, for a noun with a plural in s: `1 attempt`, `2,000 attempts`.
pub fn counted(number: u64, one: &str) -> String {
    counted_as(number, one, &format!("{one}s"))
}

/// Formats a count with its noun, for any other noun: `1 process`, `2 processes`.
pub fn counted_as(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Formats cores without zeros at the end: `2`, `1.5`, `0.25`, `under 0.01`.
pub fn cores(cores: f64) -> String {
    match cores {
        _ if !cores.is_finite() => DASH.to_owned(),
        _ if cores > 0.0 && cores < 0.005 => "under 0.01".to_owned(),
        _ => without_trailing_zeros(&format!("{cores:.2}")),
    }
}

/// Formats cores with their noun: `1 core`, `1.5 cores`.
pub fn cores_named(number: f64) -> String {
    let text = cores(number);
    let unit = if text == "1" { "core" } else { "cores" };
    format!("{text} {unit}")
}

/// Formats thousandths of a core as cores, with up to three decimals: `1.5` for 1500, `0.05` for 50.
pub fn millicores(millicores: u64) -> String {
    without_trailing_zeros(&format!("{}.{:03}", count(millicores / 1000), millicores % 1000))
}

/// Formats an amount with three significant digits: `12,345`, `123`, `12.3`, `1.23`, `0.012`, `under 0.001`.
pub fn amount(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => DASH.to_owned(),
        0.0 => "0".to_owned(),
        ..0.0005 => "under 0.001".to_owned(),
        ..0.0995 => without_trailing_zeros(&format!("{value:.3}")),
        ..9.995 => without_trailing_zeros(&format!("{value:.2}")),
        ..99.95 => without_trailing_zeros(&format!("{value:.1}")),
        _ => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", count(to_whole(size)))
        }
    }
}

/// Formats an amount with its sign: `+1.5`, `-0.3`, `0`.
pub fn signed(value: f64) -> String {
    let text = amount(value);
    if value > 0.0 && value.is_finite() { format!("+{text}") } else { text }
}

/// Formats memory multiplied by time: `1.23 GiB·h`, or `0.1 MiB·h` for an amount that is too small for GiB·h.
pub fn gib_hours(gib_hours: f64) -> String {
    if gib_hours != 0.0 && gib_hours.abs() < 0.001 {
        return format!("{} MiB·h", amount(gib_hours * 1024.0));
    }
    format!("{} GiB·h", amount(gib_hours))
}

/// Formats CPU multiplied by time: `12 core·h`.
pub fn core_hours(core_hours: f64) -> String {
    format!("{} core·h", amount(core_hours))
}

/// Formats an amount of money: `12.3 EUR`. The currency is a text from the settings; callers clean it before it is shown on a terminal.
pub fn money(value: f64, currency: &str) -> String {
    format!("{} {currency}", amount(value))
}

/// Formats a share: `45 %`; with a decimal if the whole number would be 0 or 100: `0.4 %`, `99.7 %`.
pub fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let size = percent.abs();
    match size {
        _ if !percent.is_finite() => DASH.to_owned(),
        0.0 => "0 %".to_owned(),
        ..0.05 => "under 0.1 %".to_owned(),
        ..0.995 => format!("{percent:.1} %"),
        // only a share of exactly 1 is written as 100 %
        99.95..100.0 => format!("{}99.9 %", if percent < 0.0 { "-" } else { "" }),
        99.5..99.95 => format!("{percent:.1} %"),
        _ => format!("{percent:.0} %"),
    }
}

/// Formats the share that one sum has of another: `45 %`; [`DASH`] if `whole` is 0.
pub fn share(part: f64, whole: f64) -> String {
    if whole > 0.0 { percent(part / whole) } else { DASH.to_owned() }
}

/// Formats the share that one count or size has of another: `45 %`; [`DASH`] if `whole` is 0.
pub fn share_of(part: u64, whole: u64) -> String {
    share(float(part), float(whole))
}

/// Formats a count with the count that it is part of: `3 of 4`.
pub fn part_of(part: u64, whole: u64) -> String {
    format!("{} of {}", count(part), count(whole))
}

/// Formats the share that one count has of another, always with one decimal: `97.1 %`; [`DASH`] if `whole` is 0.
pub fn rate(part: u64, whole: u64) -> String {
    if whole == 0 { DASH.to_owned() } else { format!("{:.1} %", in_units(part, whole) * 100.0) }
}

/// Formats a factor: `2.5 ×`.
pub fn times(factor: f64) -> String {
    format!("{} ×", amount(factor))
}

/// The largest factor that is written as a number.
pub const MAX_SHOWN_FACTOR: f64 = 100.0;

/// Formats the factor between need and request as [`times`] does, but `over 100 ×` above [`MAX_SHOWN_FACTOR`], where the number says nothing
/// more.
pub fn times_asked(factor: f64) -> String {
    times_asked_or_more(factor, false)
}

/// Formats the factor between need and request; if the need is a lower bound: `more than 2.5 ×`.
pub fn times_asked_or_more(factor: f64, is_lower: bool) -> String {
    if factor > MAX_SHOWN_FACTOR {
        format!("over {}", times(MAX_SHOWN_FACTOR))
    } else {
        bound(&times(factor), is_lower)
    }
}

/// A formatted number in a sentence; if it is a lower bound: `more than 114 MiB`.
pub fn bound(number: &str, is_lower: bool) -> String {
    format!("{}{number}", if is_lower { "more than " } else { "" })
}

/// A formatted number in a sentence, as [`bound`] writes it; [`NOT_KNOWN`] if there is no number.
pub fn known_bound(number: Option<String>, is_lower: bool) -> String {
    known(number, |number| bound(&number, is_lower))
}

/// A formatted number in a cell of a table; if it is a lower bound: `> 114 MiB`. [`DASH`] if there is no number.
pub fn cell_bound(number: Option<String>, is_lower: bool) -> String {
    cell(number, |number| format!("{}{number}", if is_lower { "> " } else { "" }))
}

/// A whole number as a float. Exact below 2^53.
#[expect(clippy::cast_precision_loss, reason = "for people and charts, which show three digits")]
pub fn float(number: u64) -> f64 {
    number as f64
}

fn in_units(number: u64, unit: u64) -> f64 {
    float(number) / float(unit)
}

/// The nearest whole number; negative numbers and NaN become 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "`as` saturates")]
pub fn to_whole(size: f64) -> u64 {
    size.round() as u64
}

fn without_trailing_zeros(text: &str) -> String {
    if !text.contains('.') {
        return text.to_owned();
    }
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests;
