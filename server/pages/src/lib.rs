//! The web pages: turns messages of the wire into HTML and SVG.
//!
//! | module | what it draws |
//! |---|---|
//! | [`overview`] | waste and failures over time, savings, and the packages that waste and fail most |
//! | [`packages`], [`package`] | a table of all packages; one package with its need over time and its next size |
//! | [`attempts`], [`attempt`] | a table of finished attempts; one attempt with its curves, evidence and verdict |
//! | [`failures`] | failures by cause and by the log line that identifies them, and what their retries cost |
//! | [`savings`] | what jobs should request, and what that saves, as a table |
//! | [`running`] | the attempts that run now |
//! | [`settings`] | the settings in force |
//! | [`trouble`] | the error page |
//! | [`assets`] | the stylesheet, the script and the icon of all pages |
//!
//! Each page is a struct of plain data and messages; its `draw` is a whole page. Text of others is escaped, and characters that reorder or
//! hide text are written out. What a reader has chosen is a [`view::ReaderChoice`], which every link carries on; [`words`] has the names that stand
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
pub mod overview;
pub mod package;
pub mod packages;
mod page;
pub mod running;
pub mod savings;
pub mod settings;
mod table;
mod times;
pub mod trouble;
pub mod view;
pub mod words;

use plimsoll_proto::figures;
