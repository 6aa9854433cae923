//! Words and numbers for people, made from the messages of the wire. There is one function for each, so that terminal, page, report and
//! JSON show the same. These texts are not sent, except those of a size's bound ([`reasons::SizeBound`]).
//!
//! | module | content |
//! |---|---|
//! | `figures`, `times` | formats numbers and points in time |
//! | `facts` | the facts of one attempt, each declared once: what lists and sentences show |
//! | `measured`, `series` | the numbers of one attempt |
//! | `sums` | the numbers of many attempts together |
//! | `tables` | attempts, groups and findings as tables |
//! | `reasons`, `evidence`, `verdict` | the reasons for a size, the evidence for a verdict, the first line of a verdict |
//! | `lowering` | a lowering of memory that failed and is taken back |
//! | `recommendations` | what jobs should request: table, CSV, patches |
//! | `json` | messages as JSON |
//! | `shown`, `cells`, `wrap` | makes text from callers safe to show, measures and cuts it, and wraps lines to a width |

pub mod cells;
pub mod evidence;
pub mod facts;
pub mod figures;
pub mod json;
pub mod lowering;
pub mod measured;
pub mod reasons;
pub mod recommendations;
pub mod series;
pub mod shown;
pub mod sums;
pub mod tables;
pub mod times;
pub mod verdict;
pub mod wrap;
