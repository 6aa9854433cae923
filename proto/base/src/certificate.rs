//! Finds when a certificate expires, for a server that warns of the expiry of its own and for an agent that checks the server's; and how it
//! was signed, for logins at a database that are bound to it.

use std::time::{SystemTime, UNIX_EPOCH};

/// Kinds of elements in a certificate (X.690, section 8; RFC 5280, section 4.1).
const SEQUENCE: u8 = 0x30;
const VERSION_TAG: u8 = 0xa0;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The last second (since 1970) in which a certificate in DER is valid; `None` if it cannot be read.
#[must_use]
pub fn last_second(certificate: &[u8]) -> Option<u64> {
    let (_, certificate, _) = first_element(certificate)?;
    let (_, mut rest, _) = first_element(certificate)?;
    // the version (missing in the oldest certificates) comes first, then serial number, algorithm and issuer
    let (kind, _, behind) = first_element(rest)?;
    if kind == VERSION_TAG {
        rest = behind;
    }
    for _ in 0..3 {
        rest = first_element(rest)?.2;
    }
    let (kind, validity, _) = first_element(rest)?;
    let (_, _, end) = first_element(validity)?;
    let (form, end, _) = first_element(end)?;
    (kind == SEQUENCE).then(|| parse_time(form, std::str::from_utf8(end).ok()?))?
}

/// The object identifier of the algorithm that signed a certificate in DER, as its bytes; `None` if it cannot be read.
#[must_use]
pub fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let (_, certificate, _) = first_element(certificate)?;
    let (_, _to_be_signed, rest) = first_element(certificate)?;
    let (_, algorithm, _) = first_element(rest)?;
    let (kind, identifier, _) = first_element(algorithm)?;
    (kind == OBJECT_IDENTIFIER).then_some(identifier)
}

/// Kind and content of the first DER element in `bytes`, and the bytes after that element.
fn first_element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, short], mut rest) = bytes.split_first_chunk::<2>()?;
    let mut length = usize::from(short);
    if short & 0x80 != 0 {
        let (long, behind) = rest.split_at_checked(usize::from(short & 0x7f))?;
        // a length of more than three bytes is refused: no server sends a certificate of more than 16 MiB
        length =
            (long.len() <= 3).then(|| long.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)))?;
        rest = behind;
    }
    let (content, behind) = rest.split_at_checked(length)?;
    Some((kind, content, behind))
}

/// Seconds since 1970 of a time in a certificate. Up to 2049 it is written with two digits for the year, later with four.
fn parse_time(form: u8, text: &str) -> Option<u64> {
    let text = match form {
        UTC_TIME if text.get(..2)? < "50" => format!("20{text}"),
        UTC_TIME => format!("19{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| text.get(from..to);
    let (year, month, day) = (part(0, 4)?, part(4, 6)?, part(6, 8)?);
    let (hour, minute, second) = (part(8, 10)?, part(10, 12)?, part(12, 14)?);
    let written = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    let time: SystemTime = humantime::parse_rfc3339(&written).ok()?;
    Some(time.duration_since(UNIX_EPOCH).ok()?.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_certificate_time_formats_are_parsed() {
        assert_eq!(parse_time(UTC_TIME, "700101000001Z"), Some(1));
        assert_eq!(parse_time(GENERALIZED_TIME, "20300302010101Z"), parse_time(UTC_TIME, "300302010101Z"));
        assert_eq!([parse_time(UTC_TIME, "7001"), parse_time(0x02, "700101000001Z")], [None, None]);
        assert_eq!(last_second(b"\x30\x84\xff\xff\xff\xff"), None, "a length that is not there");
    }
}
