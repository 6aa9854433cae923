//! Draws a chart as SVG. The stylesheet gives each shape the colour of its tone, for light and for dark
//! screens.

use maud::{Markup, html};

use super::{At, Axis, Chart, Layer, Shape, Tone};
use crate::figures;

/// The size of every picture. On a telephone, a chart of 480 units is about 325 pixels wide.
pub(super) const VIEW_BOX: &str = "0 0 480 260";
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 260.0;
/// Approximate width of a letter of the largest text, which is that of narrow screens: 16 units high.
const LETTER: f64 = 9.0;
/// Most marks of the horizontal axis: their labels need 90 units each.
const MARKS_ACROSS: u32 = 5;
/// Most marks of the vertical axis.
const MARKS_UP: u32 = 5;
/// Space around the drawing area: above it for the names of bands, to the right for half of the last mark's label, below for the labels.
const MARGIN_ABOVE: f64 = 20.0;
const MARGIN_RIGHT: f64 = 28.0;
const MARGIN_BELOW: f64 = 28.0;

/// A position in the picture.
#[derive(Debug, Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

/// The drawing area between the axes.
struct Plane<'a> {
    chart: &'a Chart,
    left: f64,
    width: f64,
    height: f64,
}

/// The content of the SVG element; shapes further back come first.
pub(super) fn draw(chart: &Chart) -> Markup {
    let (across, up) = (chart.x.marks(MARKS_ACROSS), chart.y.marks(MARKS_UP));
    let longest = up.iter().map(|at| mark_label(&chart.y, *at, &up).chars().count()).max().unwrap_or(1);
    let left = f64::from(u32::try_from(longest).unwrap_or(8)) * LETTER + 10.0;
    let (width, height) = (WIDTH - left - MARGIN_RIGHT, HEIGHT - MARGIN_ABOVE - MARGIN_BELOW);
    let plane = Plane { chart, left, width, height };
    let (behind, before): (Vec<&Layer>, Vec<&Layer>) =
        chart.layers.iter().partition(|layer| matches!(layer.shape, Shape::Band(..)));
    html! {
        @for layer in behind { (plane.draw_layer(layer)) }
        (plane.draw_axes(&across, &up))
        @for layer in before { (plane.draw_layer(layer)) }
    }
}

fn mark_label(axis: &Axis, at: f64, marks: &[f64]) -> String {
    let step = marks.first().zip(marks.get(1)).map_or(1.0, |(first, second)| second - first);
    axis.label(at, step)
}

impl Plane<'_> {
    fn point_at(&self, (x, y): At) -> Point {
        let (across, up) = (&self.chart.x, &self.chart.y);
        Point {
            x: self.left + (x - across.from) / (across.to - across.from) * self.width,
            y: MARGIN_ABOVE + (1.0 - (y - up.from) / (up.to - up.from)) * self.height,
        }
    }

    /// Positions in the picture of the points with finite coordinates.
    fn visible_points(&self, points: &[At]) -> Vec<Point> {
        let finite = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        finite.map(|point| self.point_at(*point)).collect()
    }

    fn draw_axes(&self, across: &[f64], up: &[f64]) -> Markup {
        let (bottom, right) = (MARGIN_ABOVE + self.height, self.left + self.width);
        html! {
            @for mark in up {
                @let Point { y, .. } = self.point_at((self.chart.x.from, *mark));
                (draw_line(Tone::Grid, 1, &[Point { x: self.left, y }, Point { x: right, y }]))
                (draw_text(Tone::Ink, Point { x: self.left - 6.0, y: y + 4.0 }, "end", &mark_label(&self.chart.y, *mark, up)))
            }
            @for mark in across {
                @let Point { x, .. } = self.point_at((*mark, 0.0));
                (draw_line(Tone::Axis, 1, &[Point { x, y: bottom }, Point { x, y: bottom + 5.0 }]))
                (draw_text(Tone::Ink, Point { x, y: bottom + 20.0 }, "middle", &mark_label(&self.chart.x, *mark, across)))
            }
            (draw_line(Tone::Axis, 1, &[
                Point { x: self.left, y: MARGIN_ABOVE },
                Point { x: self.left, y: bottom },
                Point { x: right, y: bottom },
            ]))
        }
    }

    fn draw_layer(&self, Layer { tone, name, shape }: &Layer) -> Markup {
        let tone = *tone;
        let line = |points: &[At]| draw_line(tone, 2, &self.visible_points(points));
        match shape {
            Shape::Band(from, to) => self.draw_band(tone, (*from, *to), name),
            Shape::Area(points) => self.draw_area(tone, points),
            Shape::Line(points) => line(points),
            Shape::Ticks(points) => html! {
                @for Point { x, y } in self.visible_points(points) {
                    (draw_line(tone, 2, &[Point { x: x - 5.0, y }, Point { x: x + 5.0, y }]))
                }
            },
            Shape::Dots(points) => html! {
                @for Point { x, y } in self.visible_points(points) {
                    circle data-tone=(tone.name()) cx=(pixel_text(x)) cy=(pixel_text(y)) r="3" fill="currentColor" opacity="0.8" {}
                }
            },
            Shape::Crosses(points) => html! {
                @for Point { x, y } in self.visible_points(points) {
                    @for rise in [4.0, -4.0] {
                        (draw_line(tone, 2, &[Point { x: x - 4.0, y: y - rise }, Point { x: x + 4.0, y: y + rise }]))
                    }
                }
            },
            Shape::Level(at) => line(&[(self.chart.x.from, *at), (self.chart.x.to, *at)]),
            Shape::Moment(at) => self.draw_moment(tone, *at, name),
            Shape::Bars(bars) => html! {
                @for (from, to, bottom, top) in bars {
                    @if top > bottom { (self.draw_rectangle(tone, (*from, *bottom), (*to, *top))) }
                }
            },
            Shape::Breaks(breaks) => {
                html! { @for (from, to, name) in breaks { (self.broken_bar(*from, *to, name)) } }
            }
        }
    }

    fn draw_rectangle(&self, tone: Tone, from: At, to: At) -> Markup {
        let [Point { x, y: foot }, Point { x: right, y }] = [self.point_at(from), self.point_at(to)];
        html! {
            rect data-tone=(tone.name()) x=(pixel_text(x)) y=(pixel_text(y)) width=(pixel_text(right - x)) height=(pixel_text(foot - y)) fill="currentColor" {}
        }
    }

    fn draw_area(&self, tone: Tone, points: &[At]) -> Markup {
        let seen = self.visible_points(points);
        let foot = MARGIN_ABOVE + self.height;
        let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return Markup::default() };
        let ends = [Point { x: last.x, y: foot }, Point { x: first.x, y: foot }];
        html! {
            polygon data-tone=(tone.name()) points=(svg_points(seen.iter().chain(&ends))) fill="currentColor" opacity="0.22" {}
            (draw_line(tone, 1, &seen))
        }
    }

    /// A band in the background, with its name at the top.
    fn draw_band(&self, tone: Tone, (from, to): At, name: &str) -> Markup {
        let top = self.chart.y.to;
        let Point { x, y } = self.point_at((from, top));
        let share = (to - from) / (self.chart.x.to - self.chart.x.from);
        let name = fit_name(name, share * self.width / LETTER);
        html! {
            (self.draw_rectangle(tone, (from, 0.0), (to, top)))
            (draw_text(Tone::Ink, Point { x, y: y - 4.0 }, "start", &name))
        }
    }

    /// A vertical line with its name at the bottom, on the side with more space.
    fn draw_moment(&self, tone: Tone, at: f64, name: &str) -> Markup {
        let Point { x, y } = self.point_at((at, self.chart.y.to * 0.04));
        let is_late = at > f64::midpoint(self.chart.x.from, self.chart.x.to);
        let (aside, anchor) = if is_late { (-6.0, "end") } else { (6.0, "start") };
        html! {
            (draw_line(tone, 2, &self.visible_points(&[(at, 0.0), (at, self.chart.y.to)])))
            (draw_text(tone, Point { x: x + aside, y }, anchor, name))
        }
    }

    /// Two slanted gaps near the top of a bar, and above it the true height of the bar.
    fn broken_bar(&self, from: f64, to: f64, name: &str) -> Markup {
        let (top, slant) = (self.chart.y.to, self.chart.y.to * 0.02);
        let overhang = (to - from) * 0.2;
        let Point { x, y } = self.point_at((f64::midpoint(from, to), top));
        html! {
            @for at in [top * 0.84, top * 0.9] {
                (draw_line(Tone::Sheet, 3, &self.visible_points(&[(from - overhang, at - slant), (to + overhang, at + slant)])))
            }
            (draw_text(Tone::Ink, Point { x, y: y - 4.0 }, "middle", name))
        }
    }
}

/// A number of pixels with one decimal.
fn pixel_text(pixels: f64) -> String {
    let text = format!("{pixels:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

fn svg_points<'a>(points: impl IntoIterator<Item = &'a Point>) -> String {
    let all = points.into_iter().map(|point| format!("{},{}", pixel_text(point.x), pixel_text(point.y)));
    all.collect::<Vec<_>>().join(" ")
}

fn draw_line(tone: Tone, width: u32, points: &[Point]) -> Markup {
    html! {
        polyline data-tone=(tone.name()) points=(svg_points(points)) fill="none" stroke="currentColor" stroke-width=(width) {}
    }
}

/// A text whose `anchor`, its `start`, `middle` or `end`, is at this position.
fn draw_text(tone: Tone, Point { x, y }: Point, anchor: &str, words: &str) -> Markup {
    html! {
        @if !words.is_empty() {
            text data-tone=(tone.name()) x=(pixel_text(x)) y=(pixel_text(y)) text-anchor=(anchor) fill="currentColor" { (words) }
        }
    }
}

/// A name, cut to this many characters.
fn fit_name(name: &str, letters: f64) -> String {
    let letters = usize::try_from(figures::to_whole(letters)).unwrap_or(0);
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    if letters < 4 {
        return String::new();
    }
    name.chars().take(letters - 1).chain(['…']).collect()
}
