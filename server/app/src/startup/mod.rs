//! What a start reads from the disk: finished attempts and verdicts to learn from, and how far the open attempts had come.

pub(crate) mod history;
mod newest;
pub(crate) mod open_attempts;
pub(crate) mod unmeasured;
mod verdicts;
