//! Compares the confidence that predictions had with the share of builds that stayed within the limit: a reliability diagram (Murphy and
//! Winkler 1977) as ten rows.

use std::fmt::Write as _;

use plimsoll_core::domain::Bytes;

use super::policy::Promise;

/// Predictions with a confidence in one tenth of the range from 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct ReliabilityBin {
    predictions: u32,
    /// Sum of the confidences.
    expected: f64,
    /// Number of builds that stayed within the limit.
    held: u32,
}

/// What predictions promised, and what was observed.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Reliability {
    bins: [ReliabilityBin; 10],
}

impl Reliability {
    /// Counts a prediction for a build that needed `peak` bytes. Defaults are left out.
    pub(super) fn add(&mut self, promise: Promise, peak: f64) {
        if promise.confidence <= 0.0 {
            return;
        }
        let upper_ends = (1..=10_u32).map(|tenth| f64::from(tenth) / 10.0);
        let bin =
            self.bins.iter_mut().zip(upper_ends).find(|(_, end)| promise.confidence < *end || *end >= 1.0);
        if let Some((bin, _)) = bin {
            bin.predictions += 1;
            bin.expected += promise.confidence;
            bin.held += u32::from(peak <= promise.limit);
        }
    }

    /// For each bin with predictions: its lower end in percent, their number, and the mean of the confidences and the share that held.
    fn rows(&self) -> impl Iterator<Item = (u32, u32, f64, f64)> {
        let filled = (0..10_u32).zip(&self.bins).filter(|(_, bin)| bin.predictions > 0);
        filled.map(|(tenth, bin)| {
            let all = f64::from(bin.predictions);
            (tenth * 10, bin.predictions, bin.expected / all, f64::from(bin.held) / all)
        })
    }

    /// A table for people; empty without predictions.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (from, predictions, expected, observed) in self.rows() {
            if text.is_empty() {
                text = format!(
                    "{:<14} {:>11} {:>9} {:>9}\n",
                    "confidence", "predictions", "expected", "observed"
                );
            }
            let range = format!("{from} to {} %", from + 10);
            let [expected, observed] = [expected, observed].map(|share| format!("{:.1} %", share * 100.0));
            let _written = writeln!(text, "{range:<14} {predictions:>11} {expected:>9} {observed:>9}");
        }
        if !text.is_empty() {
            text.push_str("Expected: mean confidence of the predictions. Observed: builds that stayed within the predicted limit.\n");
        }
        text
    }

    /// The bins with predictions as JSON; `None` without predictions.
    pub(super) fn json(&self) -> Option<serde_json::Value> {
        let row = |(from, predictions, expected, observed): (u32, u32, f64, f64)| {
            let from = Bytes(from.into()).as_f64() / 100.0;
            serde_json::json!({ "from": from, "predictions": predictions, "expected": expected, "observed": observed })
        };
        let rows: Vec<serde_json::Value> = self.rows().map(row).collect();
        (!rows.is_empty()).then(|| rows.into())
    }
}
