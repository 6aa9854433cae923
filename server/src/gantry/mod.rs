//! What stock Spack clients say and hear: the words of the two endpoints that they were made for. Pure: no I/O, no clock.
//!
//! | module | what it does |
//! |---|---|
//! | `query` | the query of a request target, undone |
//! | `spec` | `name@version variants arch=..%compiler@version` as a [`Key`](crate::domain::Key) |
//! | `variants` | the variants of a spec, read strictly |
//! | `variables` | a prediction as variables of a GitLab job |
//! | `hook` | GitLab's job hook as what it tells of an attempt |

mod hook;
mod query;
mod settings;
mod spec;
mod variables;
mod variants;

pub(crate) use hook::{Ended, Hook, Job, read as read_hook};
pub(crate) use query::parameter;
pub use settings::{Extra, Settings};
pub(crate) use spec::parse as parse_spec;
pub(crate) use variables::{NOTHING, answer};
