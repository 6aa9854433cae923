//! Charts as SVG, drawn on the server.
//!
//! All charts have one size, and the browser scales them to the width that there is; on narrow screens the stylesheet makes their text
//! larger. It also gives each [`Tone`] a colour, for light and for dark screens. A chart has a title, a description, a legend, and a table
//! with all of its numbers.

mod axis;
mod draw;
mod tone;

pub(super) use axis::{Axis, memory_unit, without_outliers};
use maud::{Markup, html};
pub(super) use tone::Tone;

/// Most points of a line; more would not be visible.
pub(super) const MAX_POINTS: usize = 600;

/// A position on both axes.
pub(super) type At = (f64, f64);

/// A part of a chart. Parts further back come first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Layer {
    pub(super) tone: Tone,
    /// What it is, for the legend; a band and a moment have it beside them. Empty for a layer that belongs to another one.
    pub(super) name: String,
    pub(super) shape: Shape,
}

impl Layer {
    pub(super) fn new(tone: Tone, name: impl Into<String>, shape: Shape) -> Self {
        Self { tone, name: name.into(), shape }
    }
}

/// What a part of a chart looks like.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shape {
    /// A band between two positions on the horizontal axis.
    Band(f64, f64),
    /// A line, and the area below it.
    Area(Vec<At>),
    Line(Vec<At>),
    /// A short horizontal line at each point.
    Ticks(Vec<At>),
    Dots(Vec<At>),
    /// A cross at each point, for failures.
    Crosses(Vec<At>),
    /// A horizontal line at this height.
    Level(f64),
    /// A vertical line at this time.
    Moment(f64),
    /// Rectangles, each with its left, right, bottom and top.
    Bars(Vec<(f64, f64, f64, f64)>),
    /// Marks on bars that are higher than the chart: left and right edge, and the true height in words, which may be empty.
    Breaks(Vec<(f64, f64, String)>),
}

/// A chart with its title, description, legend and table.
#[derive(Debug, Clone)]
pub(super) struct Chart {
    /// Id of the chart, unique within its page.
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// Description of the chart, for readers who cannot see it.
    pub(super) description: String,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) layers: Vec<Layer>,
    pub(super) table: Markup,
}

impl Chart {
    /// The layers that the legend names.
    pub(super) fn legend(&self) -> Vec<&Layer> {
        let is_named = |layer: &&Layer| {
            !layer.name.is_empty() && !matches!(layer.shape, Shape::Band(..) | Shape::Moment(_))
        };
        self.layers.iter().filter(is_named).collect()
    }

    /// The picture with all that belongs to it.
    pub(super) fn figure(&self) -> Markup {
        let (title, description) = (format!("{}-t", self.id), format!("{}-d", self.id));
        html! {
            figure.chart {
                figcaption {
                    span.title { (self.title) }
                    span.unit { (self.y.unit()) }
                    @if self.legend().len() > 1 {
                        ul.legend aria-hidden="true" {
                            @for layer in self.legend() {
                                li { span.swatch data-tone=(layer.tone.name()) {} (layer.name) }
                            }
                        }
                    }
                }
                p.note aria-hidden="true" { (self.description) }
                svg xmlns="http://www.w3.org/2000/svg" viewBox=(draw::VIEW_BOX) role="img" aria-labelledby={ (title) " " (description) } {
                    title id=(title) { (self.title) }
                    desc id=(description) { (self.description) }
                    (draw::draw(self))
                }
                details { summary { "Show the numbers" } (self.table) }
            }
        }
    }
}

/// Reduces points to at most [`MAX_POINTS`]: of each group of successive points the highest remains.
pub(super) fn thinned_points(points: Vec<At>) -> Vec<At> {
    let stretch = points.len().div_ceil(MAX_POINTS);
    if stretch <= 1 {
        return points;
    }
    let highest = |some: &[At]| some.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1));
    points.chunks(stretch).filter_map(highest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(name: &str) -> Chart {
        let layers = vec![
            Layer::new(Tone::Phase, name, Shape::Band(0.0, 900.0)),
            Layer::new(Tone::Need, name, Shape::Line(vec![(0.0, 1.0), (900.0, 5.0)])),
            Layer::new(Tone::Limit, "limit", Shape::Level(4.0)),
        ];
        Chart {
            id: "memory",
            title: "Memory",
            description: name.to_owned(),
            x: Axis::elapsed(1000.0),
            y: Axis::from_zero(5.0, "GiB"),
            layers,
            table: html! { "5" },
        }
    }

    #[test]
    fn a_picture_is_drawn_once_and_escapes_names() {
        let text = chart("<script>alert(1)</script>").figure().into_string();
        assert!(!text.contains("<script"), "{text}");
        assert_eq!([text.matches("<svg").count(), text.matches("<polyline").count()], [1, 10], "{text}");
        assert!(text.contains("<title id=\"memory-t\">Memory"));
        assert!(text.contains("<desc id=\"memory-d\">&lt;"));
        assert!(text.contains("Show the numbers") && !text.contains("style="), "{text}");
    }

    #[test]
    fn empty_and_non_finite_charts_still_render() {
        let mut nothing = chart("empty");
        (nothing.x, nothing.y) = (Axis::elapsed(0.0), Axis::from_zero(0.0, "GiB"));
        nothing.layers = vec![Layer::new(Tone::Need, "need", Shape::Line(vec![]))];
        assert!(nothing.figure().into_string().contains("<svg"));
        nothing.y = Axis::from_zero(f64::NAN, "GiB");
        nothing.x = Axis::calendar(5.0, 5.0);
        nothing.layers[0].shape = Shape::Line(vec![(f64::NAN, f64::INFINITY)]);
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
