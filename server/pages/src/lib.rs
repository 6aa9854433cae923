//! What people see in a browser: messages of the wire as HTML and SVG.
//!
//! | module | what it draws |
//! |---|---|
//! | [`overview`] | waste and failures over time, what was saved, what is worst |
//! | [`packages`], [`package`] | all packages; one with its need over time and its next size |
//! | [`attempts`], [`attempt`] | finished attempts; one with its curves, evidence and verdict |
//! | [`failures`] | failures by cause and by the line that they are known by, and what their retries cost |
//! | [`savings`] | what jobs should request, and what that saves |
//! | [`running`] | what runs now |
//! | [`settings`] | the settings in force |
//! | [`report`] | what `plimsoll report` writes as one file |
//! | [`trouble`] | why there is no page |
//! | [`assets`] | the stylesheet, the script and the sign that all of them name |
//!
//! Each page is a struct of plain data and messages; its `draw` is a whole page. Text of others is escaped, and characters that reorder or
//! hide text are written out. What a reader has chosen is a [`view::View`], which every link carries on; [`words`] has the names that stand
//! in addresses.
//!
//! No clock, no requests, no files: those who serve pages ask for the messages and bring the time. Numbers and words that the terminal says
//! too come from `plimsoll-proto`. Begin with [`overview`].

pub mod assets;
pub mod attempt;
pub mod attempts;
mod chart;
pub mod failures;
mod flow;
mod numbers;
pub mod overview;
pub mod package;
pub mod packages;
mod page;
pub mod report;
pub mod running;
pub mod savings;
pub mod settings;
mod table;
mod times;
pub mod trouble;
pub mod view;
pub mod words;

pub use flow::OTHERS;
