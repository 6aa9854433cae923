//! Numbers with their units, as people read them: those of the shared crate.

pub(super) use plimsoll_proto::figures::{
    DASH, amount, bytes, cell_bytes as some_bytes, cores, cores_named, count, counted_as as plural, float,
    micros, millis, percent, rate, share, share_of, whole,
};

/// A share, or a dash where it is not known.
pub(super) fn some_percent(share: Option<f64>) -> String {
    share.map_or_else(|| DASH.to_owned(), percent)
}

/// Cores, or a dash where they are not known.
pub(super) fn some_cores(number: Option<f64>) -> String {
    number.map_or_else(|| DASH.to_owned(), cores)
}

/// A sum, or a dash where it is not known.
pub(super) fn some_amount(sum: Option<f64>) -> String {
    sum.map_or_else(|| DASH.to_owned(), amount)
}
