//! Bars made of stacked parts; also bars that are far higher than the chart.

use super::{Flow, Series};
use crate::{
    chart::{Layer, Shape},
    figures,
};

impl Flow<'_> {
    /// The stacked parts of each bar. A bar that is higher than `top` is shrunk to `top`, with all its parts in
    /// proportion.
    pub(super) fn bars(&self, series: &[Series], heights: &[f64], top: f64) -> Vec<Layer> {
        let scales: Vec<f64> = heights.iter().map(|height| (top / height).min(1.0)).collect();
        let mut feet = vec![0.0; heights.len()];
        let mut layer = |one: &Series| {
            let values = one.values.iter().zip(&scales).map(|(value, scale)| value * scale);
            let part = |((n, foot), value): ((usize, &mut f64), f64)| {
                let ((from, to), bottom) = (self.edges(n)?, *foot);
                *foot += value;
                Some((from, to, bottom, *foot))
            };
            let bars = feet.iter_mut().enumerate().zip(values).filter_map(part).collect();
            Layer::new(one.tone, one.name.clone(), Shape::Bars(bars))
        };
        series.iter().map(&mut layer).collect()
    }

    /// Marks for the bars that are higher than `top`. The highest one shows its height as text. `None` if there
    /// are none.
    pub(super) fn broken_bars(&self, heights: &[f64], top: f64) -> Option<Vec<(f64, f64, String)>> {
        let highest = heights.iter().copied().fold(0.0, f64::max);
        let mut name = Some(figures::amount(highest));
        let broken = heights.iter().enumerate().filter(|(_, height)| **height > top);
        let breaks = broken.filter_map(|(n, height)| {
            let (from, to) = self.edges(n)?;
            let name = if *height >= highest { name.take() } else { None };
            Some((from, to, name.unwrap_or_default()))
        });
        Some(breaks.collect::<Vec<_>>()).filter(|breaks| !breaks.is_empty())
    }

    /// Left and right edge of the bar for the step with this index.
    fn edges(&self, step: usize) -> Option<(f64, f64)> {
        let (from, width) =
            (figures::float(self.steps.get(step)?.from_unix_ms), figures::float(self.step_ms));
        Some((from + width * 0.08, from + width * 0.92))
    }
}
