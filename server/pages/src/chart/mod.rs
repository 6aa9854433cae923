//! Charts as SVG, drawn on the server.
//!
//! A chart is drawn twice, for wide and for narrow screens, and the stylesheet shows the one that fits. So its text has the same size
//! on every screen. The stylesheet gives each [`Tone`] a colour, for light and for dark screens. A chart also has a title, a
//! description, a legend, and a table with all of its numbers.

mod axis;
mod draw;
mod tone;

pub(super) use axis::{Axis, memory_unit, without_outliers};
use draw::Size;
use maud::{Markup, html};
pub(super) use tone::Tone;

use crate::table::scrolled;

/// Most points of a line; more would not be visible.
pub(super) const MAX_POINTS: usize = 600;

const WIDE: Size = Size { width: 1160, height: 320 };
const HALF: Size = Size { width: 580, height: 260 };
const NARROW: Size = Size { width: 380, height: 260 };

/// A part of a chart. Parts further back come first.
#[derive(Debug, Clone)]
pub(super) enum Layer {
    /// A band over a range of the horizontal axis, with its name at the top.
    Band {
        from: f64,
        to: f64,
        tone: Tone,
        name: String,
    },
    /// A line, and the area below it.
    Area {
        tone: Tone,
        points: Vec<(f64, f64)>,
    },
    Line {
        tone: Tone,
        points: Vec<(f64, f64)>,
    },
    /// A short horizontal line at each point.
    Ticks {
        tone: Tone,
        points: Vec<(f64, f64)>,
    },
    Dots {
        tone: Tone,
        points: Vec<(f64, f64)>,
    },
    /// A cross at each point, for failures.
    Crosses {
        tone: Tone,
        points: Vec<(f64, f64)>,
    },
    /// A horizontal line at this height.
    Level {
        tone: Tone,
        at: f64,
    },
    /// A vertical line at this time, with a name.
    Moment {
        tone: Tone,
        at: f64,
        name: String,
    },
    /// Rectangles, each with its left, right, bottom and top.
    Bars {
        tone: Tone,
        bars: Vec<(f64, f64, f64, f64)>,
    },
    /// Marks on bars that are higher than the chart.
    Breaks(Vec<Break>),
}

/// A bar that is higher than the chart: its left and right edge.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Break {
    pub(super) from: f64,
    pub(super) to: f64,
    /// True height of the bar in words; may be empty.
    pub(super) name: String,
}

/// A chart with its title, description, legend and table.
#[derive(Debug, Clone)]
pub(super) struct Chart {
    /// Id of the chart, unique within its page.
    pub(super) id: &'static str,
    pub(super) title: String,
    /// Description of the chart, for readers who cannot see it.
    pub(super) description: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) layers: Vec<Layer>,
    pub(super) legend: Vec<(Tone, String)>,
    pub(super) table: Markup,
}

impl Chart {
    /// The chart over the whole width of the page.
    pub(super) fn figure(&self) -> Markup {
        self.figure_of_size(WIDE, "chart")
    }

    /// The chart over half of the page's width, beside another one.
    pub(super) fn half(&self) -> Markup {
        self.figure_of_size(HALF, "chart half")
    }

    fn figure_of_size(&self, wide: Size, class: &str) -> Markup {
        html! {
            figure class=(class) {
                figcaption {
                    span.title { (self.title) }
                    span.unit { (self.y.unit()) }
                    @if self.legend.len() > 1 {
                        ul.legend aria-hidden="true" {
                            @for (tone, name) in &self.legend {
                                li { span.swatch data-tone=(tone.name()) {} (name) }
                            }
                        }
                    }
                }
                p.note aria-hidden="true" { (self.description) }
                div.wide { (self.svg(wide, "w")) }
                div.narrow { (self.svg(NARROW, "n")) }
                details { summary { "Show the numbers" } (scrolled(&format!("Numbers: {}", self.title), &self.table)) }
            }
        }
    }

    fn svg(&self, size: Size, suffix: &str) -> Markup {
        let (title, description) = (format!("{}-t{suffix}", self.id), format!("{}-d{suffix}", self.id));
        html! {
            svg xmlns="http://www.w3.org/2000/svg" viewBox={ "0 0 " (size.width) " " (size.height) } role="img"
                aria-labelledby={ (title) " " (description) }
            {
                title id=(title) { (self.title) }
                desc id=(description) { (self.description) }
                (draw::draw(self, size))
            }
        }
    }
}

/// Reduces points to at most [`MAX_POINTS`]: of each group of successive points the highest remains.
pub(super) fn thinned_points(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let stretch = points.len().div_ceil(MAX_POINTS);
    if stretch <= 1 {
        return points;
    }
    let highest = |some: &[(f64, f64)]| some.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(stretch).filter_map(highest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(name: &str) -> Chart {
        let band = Layer::Band { from: 0.0, to: 9.0, tone: Tone::Phase, name: name.to_owned() };
        let line = Layer::Line { tone: Tone::Need, points: vec![(0.0, 1.0), (10.0, 5.0)] };
        Chart {
            id: "memory",
            title: name.to_owned(),
            description: "rises".to_owned(),
            x: Axis::elapsed(10.0),
            y: Axis::from_zero(5.0, "GiB"),
            layers: vec![band, line, Layer::Level { tone: Tone::Limit, at: 4.0 }],
            legend: vec![(Tone::Need, "need".to_owned()), (Tone::Limit, "limit".to_owned())],
            table: html! { table { tr { td { "5" } } } },
        }
    }

    #[test]
    fn names_in_a_picture_are_escaped_and_it_has_words_and_numbers() {
        let text = chart("<script>alert(1)</script>").figure().into_string();
        assert!(!text.contains("<script"), "{text}");
        assert_eq!(text.matches("<svg").count(), 2, "one for each width");
        assert!(text.contains("<title id=\"memory-tw\">") && text.contains("<desc id=\"memory-dn\">rises"));
        assert_ne!(text, chart("x").half().into_string());
        assert!(text.contains("Show the numbers") && !text.contains("style="), "{text}");
    }

    #[test]
    fn a_chart_of_nothing_or_of_nonsense_is_still_a_picture() {
        let mut nothing = chart("empty");
        (nothing.x, nothing.y) = (Axis::elapsed(0.0), Axis::from_zero(0.0, "GiB"));
        nothing.layers = vec![Layer::Line { tone: Tone::Need, points: vec![] }];
        assert!(nothing.figure().into_string().contains("<svg"));
        nothing.y = Axis::from_zero(f64::NAN, "GiB");
        nothing.x = Axis::calendar(5.0, 5.0);
        nothing.layers = vec![Layer::Line { tone: Tone::Need, points: vec![(f64::NAN, f64::INFINITY)] }];
        assert!(nothing.figure().into_string().contains("<svg"));
    }

    #[test]
    fn thinned_lines_keep_their_peaks() {
        let mut points: Vec<(f64, f64)> = (0..5000_u32).map(|n| (f64::from(n), 1.0)).collect();
        points[1234].1 = 9.0;
        let few = thinned_points(points);
        assert!(few.len() <= MAX_POINTS && few.contains(&(1234.0, 9.0)), "{}", few.len());
    }
}
