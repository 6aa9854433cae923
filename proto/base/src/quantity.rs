//! Parses sizes as people and Kubernetes write them: `500m`, `2`, `2G`, `2Gi`, `2000M`, `2GiB`, `1.5e3`.
//!
//! The suffixes are those of Kubernetes' `resource.Quantity` (n, u, m, none, k, M, G, T, P, E; Ki to Ei; decimal exponent), with a `B` at
//! the end allowed, because that is how people write bytes. Arithmetic is exact; a result that is not whole is rounded up, as Kubernetes
//! does.

use std::cmp::Ordering;

/// Largest memory that a caller may claim: 1 PiB.
pub const MEMORY_BYTES: u64 = 1 << 50;
/// Highest number of cores that a message may contain.
pub const CORES: f64 = 65_536.0;

/// Least memory of a build, bytes: a smaller number has probably lost its unit.
const MIN_MEMORY: u64 = 1 << 20;

/// Parses a quantity of bytes, for example `2Gi`.
/// Errors: the text is not a quantity, or not one of memory.
pub fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size such as 2GiB, 2Gi, 2000M or 2147483648");
    let trimmed = text.trim();
    let plain = trimmed.strip_suffix('B').filter(|rest| !rest.is_empty()).unwrap_or(trimmed);
    let value = Ratio::parse(plain).ok_or_else(wrong)?;
    let whole = u64::try_from(value.numerator.div_ceil(value.denominator)).ok();
    whole.filter(|bytes| *bytes <= MEMORY_BYTES).ok_or_else(|| format!("{text:?} is more than 1 PiB"))
}

/// Parses the memory of a build, for example `2Gi`. Less than a MiB is refused as a number without its unit.
/// Errors: the text is not a quantity, or not one of a build's memory.
pub fn memory(text: &str) -> Result<u64, String> {
    match bytes(text)? {
        less if less < MIN_MEMORY => {
            Err(format!("{text:?} is less than 1 MiB: write the unit as well, as 4GiB or 512MiB"))
        }
        bytes => Ok(bytes),
    }
}

/// Parses a quantity of cores, for example `1500m`.
/// Errors: the text is not a quantity, or more than any machine has.
pub fn parse_cores(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is not a number of cores such as 2, 1.5 or 1500m");
    let value = Ratio::parse(text.trim()).ok_or_else(wrong)?;
    let nano = value.numerator.checked_mul(1_000_000_000).ok_or_else(wrong)?.div_ceil(value.denominator);
    #[expect(clippy::cast_precision_loss, reason = "a number of cores fits into 53 bits")]
    let cores = nano as f64 / 1e9;
    if cores <= CORES { Ok(cores) } else { Err(format!("{text:?} is more cores than any machine has")) }
}

/// Parses the memory of a build in a variable or an annotation. 0 is allowed, because GitLab and Kubernetes write it for "none".
/// Errors: the text is not a quantity, or not one of a build's memory.
pub fn memory_or_zero(text: &str) -> Result<u64, String> {
    if bytes(text) == Ok(0) { Ok(0) } else { memory(text) }
}

/// Compares two sizes exactly, as the API server of Kubernetes compares a request with its limit. `None` if one of them is not a size, or
/// is too large to compare.
pub fn compare(one: &str, other: &str) -> Option<Ordering> {
    let (one, other) = (Ratio::parse(one)?, Ratio::parse(other)?);
    Some(one.numerator.checked_mul(other.denominator)?.cmp(&other.numerator.checked_mul(one.denominator)?))
}

/// A size of anything in billionths of its unit, rounded up. `None` if it is not a size, or too large.
pub fn nano(text: &str) -> Option<u128> {
    let value = Ratio::parse(text)?;
    Some(value.numerator.checked_mul(1_000_000_000)?.div_ceil(value.denominator))
}

/// Writes bytes exactly, as Kubernetes reads them: `2048Mi`, or plain bytes if they are not whole MiB.
pub fn written_bytes(bytes: u64) -> String {
    match bytes.checked_div(1 << 20) {
        Some(whole) if whole > 0 && bytes.is_multiple_of(1 << 20) => format!("{whole}Mi"),
        _ => bytes.to_string(),
    }
}

/// Converts cores to whole thousandths, rounded down. A tiny amount is added first, so that 0.29 does not become 289 by rounding of the
/// float.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates; what is below zero is nothing"
)]
pub fn rounded_millicores(cores: f64) -> u64 {
    (cores * 1000.0 + 1e-6) as u64
}

/// An exact number that is not negative.
struct Ratio {
    numerator: u128,
    denominator: u128,
}

impl Ratio {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('+').unwrap_or(text);
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at_checked(end)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // a number with more digits than this is not a size
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || digits.len() > 24 || fraction.contains('.') {
            return None;
        }
        let tens = 10_u128.checked_pow(u32::try_from(fraction.len()).ok()?)?;
        let (times, parts) = factor(suffix)?;
        Some(Self {
            numerator: digits.parse::<u128>().ok()?.checked_mul(times)?,
            denominator: tens.checked_mul(parts)?,
        })
    }
}

/// The factor that a suffix means, as numerator and denominator.
fn factor(suffix: &str) -> Option<(u128, u128)> {
    let binary = |exponent: u32| Some((1 << (10 * exponent), 1));
    let decimal = |exponent: u32| Some((10_u128.checked_pow(exponent)?, 1));
    match suffix {
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1000)),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let tens = 10_u128.checked_pow(exponent.unsigned_abs())?;
            Some(if exponent < 0 { (1, tens) } else { (tens, 1) })
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn reads_what_kubernetes_and_people_write() {
        let cases = [
            ("0", 0),
            ("2147483648", 1 << 31),
            ("2G", 2_000_000_000),
            ("2Gi", 1 << 31),
            ("2GiB", 1 << 31),
            ("2GB", 2_000_000_000),
            ("2000M", 2_000_000_000),
            ("0.5Gi", 1 << 29),
            ("1e3", 1000),
            ("1.5E3", 1500),
            ("128974848000m", 128_974_848),
            ("1m", 1),
            ("+4k", 4000),
            ("12 ", 12),
        ];
        for (text, expected) in cases {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn memory_without_its_unit_is_refused() {
        for text in ["4", "4096", "4m", "1048575"] {
            assert!(memory(text).unwrap_err().contains("write the unit"), "{text}");
        }
        assert_eq!((memory("1Mi"), memory("2147483648")), (Ok(1 << 20), Ok(1 << 31)));
        assert!(memory("4 GB").unwrap_err().contains("is not a size such as 2GiB"));
    }

    #[test]
    fn sizes_compare_exactly_in_any_unit() {
        for (one, other, expected) in [
            ("1500m", "1.5", Some(Ordering::Equal)),
            ("1n", "0", Some(Ordering::Greater)),
            ("1m", "1n", Some(Ordering::Greater)),
            ("1E", "4096Mi", Some(Ordering::Greater)),
            ("2G", "2Gi", Some(Ordering::Less)),
            ("1e3", "1k", Some(Ordering::Equal)),
            ("-1", "1", None),
            ("lots", "1", None),
            ("999999999999999999999E", "1", None),
        ] {
            assert_eq!(compare(one, other), expected, "{one} {other}");
            assert_eq!(compare(other, one), expected.map(Ordering::reverse), "{other} {one}");
        }
    }

    #[test]
    fn zero_memory_is_valid_and_bare_numbers_refused() {
        for text in ["0", "0Mi", "000m", "0.0"] {
            assert_eq!(memory_or_zero(text), Ok(0), "{text}");
        }
        assert_eq!(memory_or_zero("64Mi"), Ok(64 << 20));
        assert!(memory_or_zero("4096").unwrap_err().contains("write the unit"));
        assert!(memory_or_zero("9223372036854775808").unwrap_err().contains("more than 1 PiB"));
    }

    #[test]
    fn reads_cores() {
        for (text, expected) in [("500m", 0.5), ("2", 2.0), ("1.5", 1.5), ("12000m", 12.0), ("100u", 0.0001)]
        {
            let read = parse_cores(text).unwrap();
            assert!((read - expected).abs() < 1e-9, "{text}: {read}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for text in [
            "",
            "B",
            "G",
            "-1",
            "1,5",
            "2 Gi",
            "1.2.3",
            ".",
            "2GBB",
            "1e",
            "1e99",
            "١",
            "9999999999999999999999999",
        ] {
            assert!(bytes(text).unwrap_err().contains("is not a size"), "{text}");
            assert!(parse_cores(text).is_err(), "{text}");
        }
        assert!(bytes("2Pi").unwrap_err().contains("more than 1 PiB"));
        assert!(parse_cores("70000").unwrap_err().contains("more cores"));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(number in 0..=MEMORY_BYTES) {
            prop_assert_eq!(bytes(&written_bytes(number)), Ok(number));
        }

        #[test]
        fn numbers_are_themselves(number in 0..=MEMORY_BYTES) {
            prop_assert_eq!(bytes(&number.to_string()), Ok(number));
        }
    }
}
