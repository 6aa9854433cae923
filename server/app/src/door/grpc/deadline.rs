//! Parses how long a caller waits for an answer: the header `grpc-timeout`, up to eight digits and
//! a unit (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).

use std::time::Duration;

use tonic::codegen::http::HeaderMap;

/// Most digits, as gRPC defines them. A number with so many does not overflow in any unit.
const DIGITS: usize = 8;

/// The caller's time limit; `None` if the header is missing or invalid, so that the server's
/// default applies.
pub(super) fn call_timeout(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get("grpc-timeout")?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.len() > DIGITS || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_hours(number),
        "M" => Duration::from_mins(number),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeout(text: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-timeout", text.parse().unwrap());
        call_timeout(&headers)
    }

    #[test]
    fn what_the_wire_allows_is_understood() {
        assert_eq!(timeout("1H"), Some(Duration::from_hours(1)));
        assert_eq!(timeout("2M"), Some(Duration::from_mins(2)));
        assert_eq!(timeout("3S"), Some(Duration::from_secs(3)));
        assert_eq!(timeout("4m"), Some(Duration::from_millis(4)));
        assert_eq!(timeout("5u"), Some(Duration::from_micros(5)));
        assert_eq!(timeout("0n"), Some(Duration::ZERO));
        assert_eq!(timeout("99999999H"), Some(Duration::from_hours(99_999_999)));
    }

    #[test]
    fn a_malformed_timeout_counts_as_none() {
        assert_eq!(call_timeout(&HeaderMap::new()), None);
        for text in ["", "H", "1", "1s", "+1S", "-1S", "1.5S", " 1S", "1 S", "100000000n"] {
            assert_eq!(timeout(text), None, "{text:?}");
        }
    }
}
