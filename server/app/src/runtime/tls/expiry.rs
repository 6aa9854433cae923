//! When a client's certificate expires: a connection must not outlive it.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use plimsoll_base::certificate::last_second;
use tokio::time::{Sleep, sleep};

use crate::runtime::clock::Clock;

/// Longest time between two looks at the wall clock, because the clock may be changed.
const LOOK_INTERVAL: Duration = Duration::from_mins(10);

/// The end of a certificate's validity.
#[derive(Debug)]
pub(crate) struct Expiry {
    /// Last second in which the certificate is valid, seconds since 1970.
    last_second: u64,
    /// When the clock is read again; `None` before the first time.
    next_look: Option<Pin<Box<Sleep>>>,
}

impl Expiry {
    /// Reads the end of a certificate in DER, which the TLS library has checked; `None` if it has
    /// no readable end.
    pub(crate) fn of(certificate: &[u8]) -> Option<Self> {
        Some(Self::new(last_second(certificate)?))
    }

    pub(crate) fn new(last: u64) -> Self {
        Self { last_second: last, next_look: None }
    }

    /// Ready when the certificate has expired.
    pub(crate) fn poll_over(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(look) = &mut self.next_look {
                ready!(look.as_mut().poll(cx));
            }
            let now = Clock.now_unix_ms() / 1000;
            let Some(left) = (self.last_second + 1).checked_sub(now).filter(|left| *left > 0) else {
                return Poll::Ready(());
            };
            self.next_look = Some(Box::pin(sleep(Duration::from_secs(left).min(LOOK_INTERVAL))));
        }
    }

    /// Waits until the certificate has ended.
    pub(crate) async fn over(&mut self) {
        std::future::poll_fn(|cx| self.poll_over(cx)).await;
    }
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
    fn certificate_ends_parse_in_both_time_formats() {
        for (year, day) in [(2020, 18_323), (2049, 28_915), (2050, 29_280), (2300, 120_590)] {
            assert_eq!(last_second(&certificate(year)), Some(day * 86_400 + 3_661), "{year}");
        }
    }

    #[test]
    fn damaged_certificates_never_panic() {
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
    async fn a_certificate_expires_only_after_its_last_second() {
        Expiry::new(Clock.now_unix_ms() / 1000 - 1).over().await;
        let mut far = Expiry::new(Clock.now_unix_ms() / 1000 + 1_000_000);
        assert!(tokio::time::timeout(Duration::from_hours(2), far.over()).await.is_err());
    }
}
