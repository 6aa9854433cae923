//! Collects evidence.
//!
//! | module | content |
//! |---|---|
//! | `reported` | extracts from a question what is stored |
//! | `join` | merges it with earlier questions, as a set |
//! | `containers` | which container of a pod a reason is about |

pub(super) mod containers;
pub(super) mod join;
pub(super) mod reported;
