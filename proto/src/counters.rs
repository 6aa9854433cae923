//! The counters of memory pages that the kernel keeps for a cgroup (`memory.stat`): one struct for all code between the kernel's file and
//! the output.
//!
//! To add a counter, declare it in the messages `Sample`, `Totals` and `Summary` and in the list below, read it where the agent parses
//! `memory.stat`, and give it a number and columns in the store. All other code handles the counters field by field, without their names.

use serde::{Deserialize, Serialize};

use crate::v1;

/// One counter of pages.
#[derive(Debug, Clone, Copy)]
pub struct PageCounter {
    /// The counter's name on the wire.
    pub name: &'static str,
    /// Reads the counter.
    pub get: fn(&PageCounters) -> Option<u64>,
    /// Sets the counter.
    pub set: fn(&mut PageCounters, Option<u64>),
}

macro_rules! page_counters {
    ($($(#[$about:meta])* $name:ident,)+) => {
        /// Counters of memory pages; a counter that was not read is `None`.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
        pub struct PageCounters {
            $(
                $(#[$about])*
                #[serde(default, skip_serializing_if = "Option::is_none")]
                pub $name: Option<u64>,
            )+
        }

        impl PageCounters {
            /// All counters. New ones are added at the end, because records store them in this order.
            pub const ALL: &'static [PageCounter] = &[$(
                PageCounter {
                    name: stringify!($name),
                    get: |all| all.$name,
                    set: |all, value| all.$name = value,
                },
            )+];

            /// Counters that all have the same value.
            #[must_use]
            pub fn all(value: Option<u64>) -> Self {
                Self { $($name: value,)+ }
            }

            /// The larger value of each counter.
            #[must_use]
            pub fn max(self, other: Self) -> Self {
                Self { $($name: self.$name.max(other.$name),)+ }
            }

            /// The increase of each counter since `before`.
            #[must_use]
            pub fn since(self, before: Self) -> Self {
                Self { $($name: self.$name.map(|now| now.saturating_sub(before.$name.unwrap_or(0))),)+ }
            }
        }

        page_counters!(in v1::Sample, $($name)+);
        page_counters!(in v1::Totals, $($name)+);
        page_counters!(in v1::Summary, $($name)+);
    };
    (in $message:ty, $($name:ident)+) => {
        impl From<&$message> for PageCounters {
            fn from(wire: &$message) -> Self {
                Self { $($name: wire.$name,)+ }
            }
        }

        impl $message {
            /// This message with its page counters replaced.
            #[must_use]
            pub fn with_pages(self, pages: PageCounters) -> Self {
                Self { $($name: pages.$name,)+ ..self }
            }
        }
    };
}

page_counters! {
    /// Pages of files or of swap that were dropped from memory and then read again.
    refaults,
    /// Page faults for which a page had to be read from a disk.
    pgmajfault,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_is_treated_alike_and_lost_nowhere() {
        for counter in PageCounters::ALL {
            let of = |value| {
                let mut pages = PageCounters::default();
                (counter.set)(&mut pages, value);
                pages
            };
            let pages = of(Some(7));
            assert_eq!(pages.max(of(Some(5))), pages, "{}", counter.name);
            assert_eq!((of(Some(9)).since(of(Some(2))), of(Some(7)).since(of(None))), (pages, pages));
            assert_eq!((counter.get)(&of(Some(2)).since(pages)), Some(0), "it went back");
            let sample = v1::Sample::default().with_pages(pages);
            let totals = v1::Totals::default().with_pages(pages);
            let summary = v1::Summary::default().with_pages(pages);
            let read: [PageCounters; 3] = [(&sample).into(), (&totals).into(), (&summary).into()];
            assert_eq!(read, [pages; 3]);
        }
    }
}
