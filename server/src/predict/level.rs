//! What the more similar rungs say about the level, and what that makes of the values of wider ones.
//!
//! Attempts of wider rungs tell about the spread, but once similar attempts are known they tell little about the level:
//! they are drawn towards the level of the more similar ones (credibility, after Bühlmann: the weight of one's own
//! experience is `n / (n + within / between)`, and builds of one key differ far less than builds of a fleet).

/// Similar attempts after which a wider rung's deviation from them counts half.
const HALF_DRAWN: f64 = 1.0;
/// Deviation of builds of one key, as a logarithm to base 2, before any was seen (Spack's CI: 0.25 of the peak in the median).
pub(super) const USUAL_DEVIATION: f64 = 0.32;
/// Attempts that it takes to believe their own deviation as much as the usual one.
const USUAL_WEIGHT: f64 = 2.0;

/// The level of the rungs so far, and how well it is known.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Level {
    sum: f64,
    squares: f64,
    weight: f64,
    attempts: f64,
}

impl Level {
    pub(super) fn add(&mut self, log: f64, weight: f64, fresh: f64) {
        self.sum += log * weight;
        self.squares += log * log * weight;
        self.weight += weight;
        self.attempts += fresh;
    }

    /// Deviation of one attempt from the level, the usual one as long as little is known.
    pub(super) fn deviation(&self) -> f64 {
        if self.weight <= 0.0 {
            return USUAL_DEVIATION;
        }
        let variance = (self.squares / self.weight - (self.sum / self.weight).powi(2)).max(0.0);
        let usual = USUAL_DEVIATION.powi(2) * USUAL_WEIGHT;
        ((variance * self.attempts + usual) / (self.attempts + USUAL_WEIGHT)).sqrt()
    }

    /// `log`, drawn towards the level.
    pub(super) fn draw(&self, log: f64) -> f64 {
        if self.weight <= 0.0 {
            return log;
        }
        let level = self.sum / self.weight;
        level + (log - level) * HALF_DRAWN / (self.attempts + HALF_DRAWN)
    }
}
