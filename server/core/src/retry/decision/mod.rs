//! Decides what to do.
//!
//! | module | content |
//! |---|---|
//! | `remedy` | the action for the cause; a file for each change of a size |
//! | `retry_allowance`, `policy` | whether budget, earlier failures and cost allow it |
//! | `decide`, `outlook` | the verdict; cost and wait of the retry |

pub(super) mod decide;
pub(super) mod outlook;
pub(super) mod policy;
pub(super) mod remedy;
pub(super) mod retry_allowance;
