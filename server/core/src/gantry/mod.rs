//! What stock Spack clients say and hear: the words of the two endpoints that they were made for. Pure: no I/O, no clock.
//!
//! | module | what it does |
//! |---|---|
//! | `query` | the query of a request target, undone |
//! | `spec` | `name@version variants arch=..%compiler@version` as a [`Key`](crate::domain::Key) |
//! | `variants` | the variants of a spec, read strictly |
//! | `variables` | a prediction as variables of a GitLab job |

mod query;
mod settings;
mod spec;
mod variables;
mod variants;

pub use query::parameter;
pub use settings::{ExtraVariable, Settings};
pub use spec::parse as parse_spec;
pub use variables::{NOTHING, answer};
