//! A lowering of memory that failed and is taken back, in words: the terminal, the page and all forms of proposals show these.

use crate::{figures, times::date, v1::TakenBackLowering};

/// The evidence in one clause: `lowered on 2026-11-03 from 6 GiB to 3 GiB, killed at 3 GiB on 2026-11-05: back to 6 GiB, held until
/// 2027-02-05`. Dates are in UTC.
pub fn taken_back(lowering: &TakenBackLowering) -> String {
    let TakenBackLowering { lowered_unix_ms, failed_unix_ms, from_bytes, to_bytes, .. } = *lowering;
    let (lowered, failed, until) =
        (date(lowered_unix_ms), date(failed_unix_ms), date(lowering.held_until_unix_ms));
    let bytes = |bytes| figures::bytes(bytes).replace(".00 ", " ");
    let from = bytes(from_bytes);
    let failure = match lowering.killed_at_bytes {
        Some(at) => format!("killed at {} on {failed}", bytes(at)),
        None => format!("failed three times in a row on two refs by {failed}"),
    };
    format!(
        "lowered on {lowered} from {from} to {}, {failure}: back to {from}, held until {until}",
        bytes(to_bytes)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_back_lowering_names_its_evidence() {
        let day = |day: u64| day * 24 * 3_600_000;
        let lowering = TakenBackLowering {
            lowered_unix_ms: day(20_760),
            failed_unix_ms: day(20_762),
            from_bytes: 6 << 30,
            to_bytes: 3 << 30,
            killed_at_bytes: Some(3 << 30),
            held_until_unix_ms: day(20_762 + 92),
        };
        let expected = "lowered on 2026-11-03 from 6 GiB to 3 GiB, killed at 3 GiB on 2026-11-05: back to 6 GiB, held until 2027-02-05";
        assert_eq!(taken_back(&lowering), expected);
        let failed = taken_back(&TakenBackLowering { killed_at_bytes: None, ..lowering });
        assert!(failed.contains(", failed three times in a row on two refs by 2026-11-05: back"), "{failed}");
    }
}
