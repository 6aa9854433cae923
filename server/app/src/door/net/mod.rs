//! Connections: their limits, how they are served and for how long, and answers that clients do not
//! read.

pub(crate) mod accept;
pub(crate) mod body_timeout;
pub(crate) mod h2_abuse;
pub(crate) mod response_budget;
pub(crate) mod serve;
