//! Loads the state from disk when the server starts: the history, verdicts, and the progress of
//! open attempts.

pub(crate) mod history;
mod in_force;
mod newest;
pub(crate) mod open_attempts;
pub(crate) mod unmeasured;
