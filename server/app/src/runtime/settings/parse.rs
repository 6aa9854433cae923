//! Parses values of settings, with errors that describe a valid value. Pure.

use std::{fmt::Display, net::SocketAddr, ops::RangeInclusive, path::PathBuf, str::FromStr, time::Duration};

use plimsoll_core::domain::{Bytes, Cores};

use super::LogFormat;

pub(super) fn address(text: &str) -> Result<SocketAddr, String> {
    text.parse()
        .map_err(|_unhelpful| format!("{text:?} is not an address; write it as 127.0.0.1:7410 or [::1]:7410"))
}

pub(super) fn size(text: &str) -> Result<Bytes, String> {
    match bytesize::ByteSize::from_str(text) {
        // no setting is a size this small: the unit was probably forgotten
        Ok(size)
            if (1..1 << 20).contains(&size.as_u64()) && text.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            Err(format!("{text:?} is less than 1 MiB: write the unit as well, as 4GiB or 512MiB"))
        }
        Ok(size) if size.as_u64() > 0 => Ok(Bytes(size.as_u64())),
        _ => Err(format!("{text:?} is not a size; write it as 64MiB or 2GiB")),
    }
}

pub(super) fn time(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(time) if !time.is_zero() => Ok(time),
        _ => Err(format!("{text:?} is not a time; write it as 90s, 10min or 1day")),
    }
}

pub(super) fn number<T>(text: &str, bounds: &RangeInclusive<T>) -> Result<T, String>
where
    T: FromStr + PartialOrd + Display,
{
    match text.parse::<T>() {
        Ok(number) if bounds.contains(&number) => Ok(number),
        _ => Err(format!("{text:?} must be a number from {} to {}", bounds.start(), bounds.end())),
    }
}

pub(super) fn cores(text: &str) -> Result<Cores, String> {
    let (digits, unit) = match text.strip_suffix('m') {
        Some(digits) => (digits, 0.001),
        None => (text, 1.0),
    };
    match digits.parse::<f64>() {
        Ok(number) if number.is_finite() && number > 0.0 => Ok(Cores(number * unit)),
        _ => Err(format!("{text:?} is not a number of cores; write it as 2, 0.5 or 500m")),
    }
}

/// The values for the words of a list; may be empty. `name` gives the word of a value.
pub(super) fn words<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<Vec<T>, String> {
    list(text).map(|text| word(text, all, name)).collect()
}

/// The value for a word. `name` gives the word of a value.
pub(super) fn word<T: Copy>(text: &str, all: &[T], name: fn(T) -> &'static str) -> Result<T, String> {
    let known = all.iter().copied().find(|known| name(*known) == text);
    known.ok_or_else(|| {
        let names: Vec<&str> = all.iter().map(|known| name(*known)).collect();
        format!("{text:?} is none of {}", names.join(","))
    })
}

/// Items separated by commas.
pub(super) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

/// A share of failures: `1%` or `0.01`.
pub(crate) fn share(text: &str) -> Result<f64, String> {
    fraction(text, 0.5)
}

/// A share up to 100 %: `30%` or `0.3`.
pub(super) fn up_to_all(text: &str) -> Result<f64, String> {
    fraction(text, 1.0)
}

/// A switch: `on` or `off`.
pub(crate) fn on_off(text: &str) -> Result<bool, String> {
    match text {
        "on" | "true" => Ok(true),
        "off" | "false" => Ok(false),
        other => Err(format!("{other:?} is neither on nor off")),
    }
}

/// Shares by name: `e4s=10%,*=0`. Each name may occur once.
pub(crate) fn shares(text: &str) -> Result<Vec<(String, f64)>, String> {
    by_stack(text, "share of a stack or project; write it as e4s=10% or *=10%", |share| match share {
        "0" | "0%" => Ok(0.0),
        share => fraction(share, 1.0),
    })
}

/// Sizes by name: `e4s=40GiB,*=20GiB`. Each name may occur once.
pub(super) fn sizes(text: &str) -> Result<Vec<(String, Bytes)>, String> {
    by_stack(text, "size for a stack; write it as e4s=40GiB or *=20GiB", size)
}

pub(super) fn file(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("is empty; name a file".to_owned()) } else { Ok(PathBuf::from(text)) }
}

pub(super) fn directory(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("is empty; name a directory".to_owned()) } else { Ok(PathBuf::from(text)) }
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        other => Err(format!("{other:?} is not a format; write text or json")),
    }
}

fn by_stack<T>(
    text: &str,
    what: &str,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<(String, T)>, String> {
    let mut all: Vec<(String, T)> = Vec::new();
    for word in list(text) {
        let wrong = || format!("{word:?} is not a {what} for all others");
        let (name, value) = word.rsplit_once('=').ok_or_else(wrong)?;
        let (name, value) = (name.trim(), read(value.trim())?);
        if name.is_empty() || name.len() > plimsoll_proto::limits::KEY_FIELD_BYTES {
            return Err(wrong());
        }
        if all.iter().any(|(known, _)| known == name) {
            return Err(format!("{name:?} is named twice"));
        }
        all.push((name.to_owned(), value));
    }
    Ok(all)
}

fn fraction(text: &str, most: f64) -> Result<f64, String> {
    let (digits, unit) = match text.strip_suffix('%') {
        Some(digits) => (digits, 0.01),
        None => (text, 1.0),
    };
    match digits.trim().parse::<f64>() {
        Ok(number) if number > 0.0 && number * unit <= most => Ok(number * unit),
        _ => Err(format!("{text:?} is not a share; write it as 1% or 0.01, at most {}%", most * 100.0)),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_core::gantry::ExtraVariable;

    use super::*;

    #[test]
    fn a_size_without_its_unit_is_refused() {
        for slip in ["4", "512", "1048575"] {
            assert!(size(slip).unwrap_err().contains("write the unit"), "{slip}");
        }
        assert_eq!((size("1048576"), size("4 GB")), (Ok(Bytes(1 << 20)), Ok(Bytes(4_000_000_000))));
    }

    #[test]
    fn shares_are_percentages_or_fractions() {
        assert!((share("1%").unwrap() - 0.01).abs() < 1e-12);
        assert!((share("0.02").unwrap() - 0.02).abs() < 1e-12);
        for bad in ["", "0", "-1%", "60%", "NaN", "many"] {
            assert!(share(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn shares_of_stacks_are_read_each_once() {
        let expected = vec![("e4s".to_owned(), 0.1), ("a=b".to_owned(), 1.0), ("*".to_owned(), 0.0)];
        assert_eq!(shares("e4s=10%, a=b=1, *=0%"), Ok(expected));
        assert_eq!(shares(""), Ok(Vec::new()));
        for bad in ["e4s", "=1%", "e4s=10", "e4s=-1%", "e4s=many", "e4s=1%,e4s=2%", "e4s="] {
            assert!(shares(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_of_stacks_are_read_each_once() {
        let expected = vec![("e4s".to_owned(), Bytes(40 << 30)), ("*".to_owned(), Bytes(20 << 30))];
        assert_eq!(sizes("e4s=40GiB, *=20GiB"), Ok(expected));
        for bad in ["20GiB", "e4s=", "e4s=0", "e4s=much", "e4s=1GiB,e4s=2GiB"] {
            assert!(sizes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn cores_and_extra_variables_parse_as_written() {
        assert_eq!((cores("500m"), cores("16")), (Ok(Cores(0.5)), Ok(Cores(16.0))));
        for bad in ["", "m", "0", "-1", "NaN", "inf", "2 cores"] {
            assert!(cores(bad).is_err(), "{bad}");
        }
        let extras = |text| words(text, &ExtraVariable::ALL, ExtraVariable::as_str);
        let both = vec![ExtraVariable::MemoryLimit, ExtraVariable::BuildJobs];
        assert_eq!(extras("memory_limit, build_jobs"), Ok(both));
        assert_eq!((extras(""), extras("x").is_err()), (Ok(Vec::new()), true));
    }

    #[test]
    fn zero_is_no_size_and_no_time() {
        assert!(size("0").is_err());
        assert!(time("0s").is_err());
        assert_eq!(size("2GiB"), Ok(Bytes(2 << 30)));
    }
}
