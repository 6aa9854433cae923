//! Recorded failures from a file, judged one by one, without a server.
//!
//! A recorded failure is a line of JSON with any of the fields of [`Failure`]. The verdict is based on this line alone, with
//! its secrets masked as a server masks them: there is no history, and no retry was used before.
//!
//! | module | what it does |
//! |---|---|
//! | `lines` | the lines of a file, plain or gzip |
//! | `failure` | turns a line into evidence |
//! | `judged` | the verdict on it, as it is written |

mod failure;
mod judged;
mod lines;

pub use failure::Failure;
pub use judged::{ClassifyTerms, JudgedLine, JudgedRoot, UnreadableLine, judge};
pub use lines::{InputLine, InputLines};
