//! Numbers with their units, formatted by the shared crate.

pub(super) use plimsoll_proto::figures::{
    DASH, amount, bytes, cell, cores, cores_named, count, counted_as as plural, float, micros, millis,
    percent, rate, share, share_of, to_whole,
};
