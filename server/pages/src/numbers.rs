//! Numbers with their units, formatted by the shared crate.

pub(super) use plimsoll_proto::figures::{
    DASH, amount, bytes, cell_bytes as some_bytes, cores, cores_named, count, counted_as as plural, float,
    micros, millis, percent, rate, share, share_of, to_whole,
};

/// A share as percent; a dash if it is unknown.
pub(super) fn some_percent(share: Option<f64>) -> String {
    share.map_or_else(|| DASH.to_owned(), percent)
}

/// A number of cores; a dash if it is unknown.
pub(super) fn some_cores(number: Option<f64>) -> String {
    number.map_or_else(|| DASH.to_owned(), cores)
}

/// A total; a dash if it is unknown.
pub(super) fn some_amount(sum: Option<f64>) -> String {
    sum.map_or_else(|| DASH.to_owned(), amount)
}
