//! When the certificate of a client ends: a connection that it opened must not outlive it.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::{Sleep, sleep};

use crate::runtime::clock::Clock;

/// How often the clock on the wall is looked at, whatever it said before: it may be set.
const LOOK: Duration = Duration::from_mins(10);

/// Kinds of elements in a certificate (X.690, section 8; RFC 5280, section 4.1).
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The end of a certificate.
#[derive(Debug)]
pub(crate) struct Expiry {
    /// Seconds since 1970; the certificate is good in this one.
    last: u64,
    /// When it is looked at again; at once if it was not looked at yet.
    look: Option<Pin<Box<Sleep>>>,
}

impl Expiry {
    /// Of a certificate in DER, which the library has found to be in order; `None` if no end can be read.
    pub(crate) fn of(certificate: &[u8]) -> Option<Self> {
        Some(Self::new(last_second(certificate)?))
    }

    pub(crate) fn new(last: u64) -> Self {
        Self { last, look: None }
    }

    /// Ready once the certificate has ended.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(look) = &mut self.look {
                ready!(look.as_mut().poll(cx));
            }
            let now = Clock.now_unix_ms() / 1000;
            let Some(left) = (self.last + 1).checked_sub(now).filter(|left| *left > 0) else {
                return Poll::Ready(());
            };
            self.look = Some(Box::pin(sleep(Duration::from_secs(left).min(LOOK))));
        }
    }

    /// Waits until the certificate has ended.
    pub(crate) async fn over(&mut self) {
        std::future::poll_fn(|cx| self.poll_over(cx)).await;
    }
}

/// The last second, since 1970, of a certificate in DER.
pub(crate) fn last_second(certificate: &[u8]) -> Option<u64> {
    let (_, certificate, _) = element(certificate)?;
    let (_, mut rest, _) = element(certificate)?;
    // the version, which the first one leaves out, a number, an algorithm and who signed come before
    let (kind, _, behind) = element(rest)?;
    if kind == VERSION {
        rest = behind;
    }
    for _ in 0..3 {
        rest = element(rest)?.2;
    }
    let (kind, validity, _) = element(rest)?;
    let (_, _, end) = element(validity)?;
    let (form, end, _) = element(end)?;
    (kind == SEQUENCE).then(|| time(form, std::str::from_utf8(end).ok()?))?
}

/// Kind and content of the first element, and what is behind it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[kind, short], mut rest) = bytes.split_first_chunk::<2>()?;
    let mut length = usize::from(short);
    if short & 0x80 != 0 {
        let (long, behind) = rest.split_at_checked(usize::from(short & 0x7f))?;
        // a certificate of more than 16 MiB was not shaken hands with
        length =
            (long.len() <= 3).then(|| long.iter().fold(0, |sum, byte| (sum << 8) | usize::from(*byte)))?;
        rest = behind;
    }
    let (content, behind) = rest.split_at_checked(length)?;
    Some((kind, content, behind))
}

/// Seconds since 1970 of a time as certificates write it: with two digits of the year up to 2049, with four from then on.
fn time(form: u8, text: &str) -> Option<u64> {
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
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    fn certificate(year: i32) -> Vec<u8> {
        let mut asked = CertificateParams::new(["runner.example".to_owned()]).unwrap();
        asked.not_after = date_time_ymd(year, 3, 2) + Duration::from_secs(3_661);
        asked.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn the_end_of_a_certificate_is_read_in_either_form() {
        for (year, day) in [(2020, 18_323), (2049, 28_915), (2050, 29_280), (2300, 120_590)] {
            assert_eq!(last_second(&certificate(year)), Some(day * 86_400 + 3_661), "{year}");
        }
    }

    #[test]
    fn what_is_cut_or_changed_has_no_end_or_another_one_and_breaks_nothing() {
        let whole = certificate(2049);
        for end in 0..whole.len() {
            let _read = last_second(&whole[..end]);
            let mut changed = whole.clone();
            changed[end] ^= 0xff;
            let _read = last_second(&changed);
        }
        assert_eq!(last_second(&whole[..100]), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_certificate_is_over_behind_its_last_second_and_not_before() {
        Expiry::new(Clock.now_unix_ms() / 1000 - 1).over().await;
        let mut far = Expiry::new(Clock.now_unix_ms() / 1000 + 1_000_000);
        assert!(tokio::time::timeout(Duration::from_hours(2), far.over()).await.is_err());
    }
}
