//! Keeps what builds used, predicts what the next one needs, and judges failed ones.

pub mod domain;
pub mod store;
