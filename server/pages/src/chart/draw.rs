//! Draws a chart as SVG. The stylesheet gives each shape the colour of its tone, for light and for dark
//! screens.

use maud::{Markup, html};

use super::{Axis, Break, Chart, Layer, Tone};
use crate::numbers;

/// Approximate width of a letter, pixels.
const LETTER_PIXELS: f64 = 7.0;
/// Least distance between two marks of the horizontal axis, pixels.
const MARK_EVERY: u32 = 90;
/// Most marks of the vertical axis.
const HEIGHTS: u32 = 5;
/// Space around the drawing area, pixels: above it for the names of bands, to the right for half of the last
/// mark's label, below for the labels.
const ABOVE: f64 = 18.0;
const RIGHT: f64 = 20.0;
const BELOW: f64 = 26.0;

/// Width and height of a picture, pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) width: u32,
    pub(super) height: u32,
}

/// A position in the picture, pixels.
#[derive(Debug, Clone, Copy)]
struct Point {
    x: f64,
    y: f64,
}

/// Which part of a text is at the text's position: its start, middle or end.
#[derive(Debug, Clone, Copy)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// The drawing area between the axes.
struct Plane<'a> {
    chart: &'a Chart,
    left: f64,
    width: f64,
    height: f64,
}

/// The content of the SVG element; shapes further back come first.
pub(super) fn draw(chart: &Chart, size: Size) -> Markup {
    let (across, up) = (chart.x.marks(size.width / MARK_EVERY), chart.y.marks(HEIGHTS));
    let longest = up.iter().map(|at| label(&chart.y, *at, &up).chars().count()).max().unwrap_or(1);
    let left = f64::from(u32::try_from(longest).unwrap_or(8)) * LETTER_PIXELS + 10.0;
    let plane = Plane {
        chart,
        left,
        width: f64::from(size.width) - left - RIGHT,
        height: f64::from(size.height) - ABOVE - BELOW,
    };
    let (behind, before): (Vec<&Layer>, Vec<&Layer>) =
        chart.layers.iter().partition(|layer| matches!(layer, Layer::Band { .. }));
    html! {
        @for layer in behind { (plane.layer(layer)) }
        (plane.axes(&across, &up))
        @for layer in before { (plane.layer(layer)) }
    }
}

fn label(axis: &Axis, at: f64, marks: &[f64]) -> String {
    let step = marks.first().zip(marks.get(1)).map_or(1.0, |(first, second)| second - first);
    axis.label(at, step)
}

impl Plane<'_> {
    fn at(&self, (x, y): (f64, f64)) -> Point {
        let (across, up) = (&self.chart.x, &self.chart.y);
        Point {
            x: self.left + (x - across.from) / (across.to - across.from) * self.width,
            y: ABOVE + (1.0 - (y - up.from) / (up.to - up.from)) * self.height,
        }
    }

    /// Positions in the picture of the points with finite coordinates.
    fn seen(&self, points: &[(f64, f64)]) -> Vec<Point> {
        let finite = points.iter().filter(|(x, y)| x.is_finite() && y.is_finite());
        finite.map(|point| self.at(*point)).collect()
    }

    fn axes(&self, across: &[f64], up: &[f64]) -> Markup {
        let (bottom, right) = (ABOVE + self.height, self.left + self.width);
        html! {
            @for mark in up {
                @let Point { y, .. } = self.at((self.chart.x.from, *mark));
                (line(Tone::Grid, 1, &[Point { x: self.left, y }, Point { x: right, y }]))
                (text(Tone::Ink, Point { x: self.left - 6.0, y: y + 4.0 }, Anchor::End, &label(&self.chart.y, *mark, up)))
            }
            @for mark in across {
                @let Point { x, .. } = self.at((*mark, 0.0));
                (line(Tone::Axis, 1, &[Point { x, y: bottom }, Point { x, y: bottom + 5.0 }]))
                (text(Tone::Ink, Point { x, y: bottom + 18.0 }, Anchor::Middle, &label(&self.chart.x, *mark, across)))
            }
            (line(Tone::Axis, 1, &[
                Point { x: self.left, y: ABOVE },
                Point { x: self.left, y: bottom },
                Point { x: right, y: bottom },
            ]))
        }
    }

    fn layer(&self, layer: &Layer) -> Markup {
        match layer {
            Layer::Band { from, to, tone, name } => self.band((*from, *to), *tone, name),
            Layer::Area { tone, points } => self.area(*tone, points),
            Layer::Line { tone, points } => line(*tone, 2, &self.seen(points)),
            Layer::Ticks { tone, points } => html! {
                @for Point { x, y } in self.seen(points) {
                    (line(*tone, 2, &[Point { x: x - 5.0, y }, Point { x: x + 5.0, y }]))
                }
            },
            Layer::Dots { tone, points } => html! {
                @for Point { x, y } in self.seen(points) {
                    circle data-tone=(tone.name()) cx=(px(x)) cy=(px(y)) r="3" fill="currentColor" opacity="0.8" {}
                }
            },
            Layer::Crosses { tone, points } => html! {
                @for Point { x, y } in self.seen(points) {
                    @let (left, right, top, foot) = (px(x - 4.0), px(x + 4.0), px(y - 4.0), px(y + 4.0));
                    path data-tone=(tone.name()) d={ "M" (left) " " (top) "L" (right) " " (foot) "M" (left) " " (foot) "L" (right) " " (top) }
                        stroke="currentColor" stroke-width="2" {}
                }
            },
            Layer::Level { tone, at } => {
                line(*tone, 2, &self.seen(&[(self.chart.x.from, *at), (self.chart.x.to, *at)]))
            }
            Layer::Moment { tone, at, name } => self.moment(*at, *tone, name),
            Layer::Bars { tone, bars } => html! {
                @for (from, to, bottom, top) in bars {
                    @if top > bottom { (self.rectangle(*tone, (*from, *bottom), (*to, *top))) }
                }
            },
            Layer::Breaks(breaks) => html! { @for one in breaks { (self.broken(one)) } },
        }
    }

    fn rectangle(&self, tone: Tone, from: (f64, f64), to: (f64, f64)) -> Markup {
        let [Point { x, y: foot }, Point { x: right, y }] = [self.at(from), self.at(to)];
        html! {
            rect data-tone=(tone.name()) x=(px(x)) y=(px(y)) width=(px(right - x)) height=(px(foot - y)) fill="currentColor" {}
        }
    }

    fn area(&self, tone: Tone, points: &[(f64, f64)]) -> Markup {
        let seen = self.seen(points);
        let foot = ABOVE + self.height;
        let (Some(first), Some(last)) = (seen.first(), seen.last()) else { return Markup::default() };
        let ends = [Point { x: last.x, y: foot }, Point { x: first.x, y: foot }];
        html! {
            polygon data-tone=(tone.name()) points=(written(seen.iter().chain(&ends))) fill="currentColor" opacity="0.22" {}
            (line(tone, 1, &seen))
        }
    }

    /// A band in the background, with its name at the top.
    fn band(&self, (from, to): (f64, f64), tone: Tone, name: &str) -> Markup {
        let top = self.chart.y.to;
        let Point { x, y } = self.at((from, top));
        let share = (to - from) / (self.chart.x.to - self.chart.x.from);
        let name = cut(name, share * (self.width + self.left) * 0.9 / LETTER_PIXELS);
        html! {
            (self.rectangle(tone, (from, 0.0), (to, top)))
            (text(Tone::Ink, Point { x, y: y - 4.0 }, Anchor::Start, &name))
        }
    }

    /// A vertical line with its name at the bottom, on the side with more space.
    fn moment(&self, at: f64, tone: Tone, name: &str) -> Markup {
        let Point { x, y } = self.at((at, self.chart.y.to * 0.04));
        let is_late = at > f64::midpoint(self.chart.x.from, self.chart.x.to);
        let (aside, anchor) = if is_late { (-6.0, Anchor::End) } else { (6.0, Anchor::Start) };
        html! {
            (line(tone, 2, &self.seen(&[(at, 0.0), (at, self.chart.y.to)])))
            (text(tone, Point { x: x + aside, y }, anchor, name))
        }
    }

    /// Two slanted gaps near the top of a bar, and above it the true height of the bar.
    fn broken(&self, one: &Break) -> Markup {
        let (top, slant) = (self.chart.y.to, self.chart.y.to * 0.02);
        let beside = (one.to - one.from) * 0.2;
        let Point { x, y } = self.at((f64::midpoint(one.from, one.to), top));
        html! {
            @for at in [top * 0.84, top * 0.9] {
                (line(Tone::Sheet, 3, &self.seen(&[(one.from - beside, at - slant), (one.to + beside, at + slant)])))
            }
            (text(Tone::Ink, Point { x, y: y - 4.0 }, Anchor::Middle, &one.name))
        }
    }
}

/// A number of pixels with one decimal.
fn px(pixels: f64) -> String {
    let text = format!("{pixels:.1}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

fn written<'a>(points: impl IntoIterator<Item = &'a Point>) -> String {
    let all = points.into_iter().map(|point| format!("{},{}", px(point.x), px(point.y)));
    all.collect::<Vec<_>>().join(" ")
}

fn line(tone: Tone, width: u32, points: &[Point]) -> Markup {
    html! {
        polyline data-tone=(tone.name()) points=(written(points)) fill="none" stroke="currentColor" stroke-width=(width) {}
    }
}

fn text(tone: Tone, Point { x, y }: Point, anchor: Anchor, words: &str) -> Markup {
    let anchor = match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    };
    html! {
        @if !words.is_empty() {
            text data-tone=(tone.name()) x=(px(x)) y=(px(y)) text-anchor=(anchor) fill="currentColor" { (words) }
        }
    }
}

/// A name, cut to this many characters.
fn cut(name: &str, letters: f64) -> String {
    let letters = usize::try_from(numbers::whole(letters)).unwrap_or(0);
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    if letters < 4 {
        return String::new();
    }
    name.chars().take(letters - 1).chain(['…']).collect()
}
