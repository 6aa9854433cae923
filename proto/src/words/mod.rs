//! Words and numbers for people, made from the messages of the wire. There is one function for each, so that terminal, page, report and
//! JSON show the same. These texts are not sent, except those of a size's bound ([`reasons::SizeBound`]), which are also parsed.
//!
//! | module | what |
//! |---|---|
//! | `figures`, `times` | how numbers and points in time are written |
//! | `measured`, `series` | the numbers of one attempt |
//! | `sums` | the numbers of many |
//! | `reasons`, `evidence`, `verdict` | why a size is what it is, what a verdict stands on, what it says first |
//! | `recommendations` | what jobs should request: table, CSV, patches |
//! | `json` | messages as JSON |
//! | `shown`, `wrap` | words of others on a terminal, and lines of a width |

pub mod evidence;
pub mod figures;
pub mod json;
pub mod measured;
pub mod reasons;
pub mod recommendations;
pub mod series;
pub mod shown;
pub mod sums;
pub mod times;
pub mod verdict;
pub mod wrap;
