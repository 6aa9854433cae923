//! Finds the cause.
//!
//! | module | content |
//! |---|---|
//! | `clues`, `reasons` | turn each kind of evidence into clues |
//! | `classify`, `finding` | the cause, by the strongest clue |
//! | `corrections` | a person's correction, over what the rules found |

pub(super) mod classify;
pub(super) mod clues;
pub(super) mod corrections;
pub(super) mod finding;
pub(super) mod reasons;
