//! Parses and formats what stock Spack clients send to and get from the two endpoints of Gantry, the service that those clients were
//! written for. Pure: no I/O, no clock.
//!
//! | module | what it does |
//! |---|---|
//! | `query` | percent-decodes the query of a request target |
//! | `spec` | `name@version variants arch=..%compiler@version` as a [`Key`](crate::domain::Key) |
//! | `variants` | parses the variants of a spec strictly |
//! | `variables` | formats a prediction as variables of a GitLab job |

mod query;
mod settings;
mod spec;
mod variables;
mod variants;

pub use query::parameter;
pub use settings::{ExtraVariable, Settings};
pub use spec::parse as parse_spec;
pub use variables::{EMPTY_ANSWER, allocation_answer};
