//! The one place that knows `plotters`.

use std::ops::Range;

use plotters::{
    coord::{
        Shift,
        ranged1d::{DefaultFormatting, KeyPointHint, Ranged},
        types::RangedCoordf64,
    },
    prelude::*,
    style::text_anchor::{HPos, Pos, VPos},
};

use super::{Axis, Chart, Layer, Tone};

/// Height of text, pixels.
const TEXT: i32 = 12;

/// Pixels that one letter takes, about.
const LETTER: i32 = 7;

/// Pixels between two marks of the horizontal axis at least.
const MARK_EVERY: u32 = 90;

/// Marks of the vertical axis.
const HEIGHTS: u32 = 5;

/// Pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) width: u32,
    pub(super) height: u32,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Plane<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Marked, Marked>>;
type Trouble = DrawingAreaErrorKind<std::io::Error>;

/// An axis whose marks stand where we say.
struct Marked {
    within: RangedCoordf64,
    marks: Vec<f64>,
}

impl Marked {
    fn new(axis: &Axis, marks: &[f64]) -> Self {
        Self { within: (axis.from..axis.to).into(), marks: marks.to_vec() }
    }
}

impl Ranged for Marked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.within.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() { Vec::new() } else { self.marks.clone() }
    }

    fn range(&self) -> Range<f64> {
        self.within.range()
    }
}

/// The picture as text of an SVG element.
///
/// # Errors
/// What `plotters` says.
pub(super) fn draw(chart: &Chart, size: Size) -> Result<String, String> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, (size.width, size.height)).into_drawing_area();
        filled(chart, size, &area).map_err(|error| error.to_string())?;
    }
    Ok(text)
}

fn filled(chart: &Chart, size: Size, area: &Area<'_>) -> Result<(), Trouble> {
    let across = chart.x.marks(size.width / MARK_EVERY);
    let up = chart.y.marks(HEIGHTS);
    let longest = up.iter().map(|at| label(&chart.y, *at, &up).chars().count()).max().unwrap_or(1);
    let room = i32::try_from(longest).unwrap_or(8) * LETTER + 10;
    let mut plane = ChartBuilder::on(area)
        .margin_top(18)
        .margin_right(20)
        .x_label_area_size(26)
        .y_label_area_size(room)
        .build_cartesian_2d(Marked::new(&chart.x, &across), Marked::new(&chart.y, &up))?;
    let (behind, before): (Vec<&Layer>, Vec<&Layer>) =
        chart.layers.iter().partition(|layer| matches!(layer, Layer::Band { .. }));
    for layer in behind {
        add(&mut plane, layer, chart, size)?;
    }
    plane
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(Tone::Grid.color())
        .axis_style(Tone::Axis.color())
        .label_style(("sans-serif", TEXT, &Tone::Ink.color()))
        .x_label_formatter(&|at| label(&chart.x, *at, &across))
        .y_label_formatter(&|at| label(&chart.y, *at, &up))
        .draw()?;
    before.into_iter().try_for_each(|layer| add(&mut plane, layer, chart, size))
}

fn label(axis: &Axis, at: f64, marks: &[f64]) -> String {
    let step = marks.first().zip(marks.get(1)).map_or(1.0, |(first, second)| second - first);
    axis.label(at, step)
}

fn add(plane: &mut Plane<'_, '_>, layer: &Layer, chart: &Chart, size: Size) -> Result<(), Trouble> {
    match layer {
        Layer::Band { from, to, tone, name } => {
            band(plane, (*from, *to), *tone, &cut(name, (*from, *to), chart, size))
        }
        Layer::Area { tone, points } => {
            let area = AreaSeries::new(seen(points), 0.0, tone.color().mix(0.22));
            plane.draw_series(area.border_style(tone.color().stroke_width(1))).map(|_| ())
        }
        Layer::Line { tone, points } => {
            plane.draw_series(LineSeries::new(seen(points), tone.color().stroke_width(2))).map(|_| ())
        }
        Layer::Ticks { tone, points } => {
            let tick = |at| {
                EmptyElement::at(at) + PathElement::new(vec![(-5, 0), (5, 0)], tone.color().stroke_width(2))
            };
            plane.draw_series(seen(points).map(tick)).map(|_| ())
        }
        Layer::Dots { tone, points } => {
            let dot = |at| Circle::new(at, 3, tone.color().mix(0.8).filled());
            plane.draw_series(seen(points).map(dot)).map(|_| ())
        }
        Layer::Crosses { tone, points } => {
            let cross = |at| Cross::new(at, 4, tone.color().stroke_width(2));
            plane.draw_series(seen(points).map(cross)).map(|_| ())
        }
        Layer::Level { tone, at } => {
            let ends = [(chart.x.from, *at), (chart.x.to, *at)];
            plane.draw_series(LineSeries::new(seen(&ends), tone.color().stroke_width(2))).map(|_| ())
        }
        Layer::Moment { tone, at, name } => moment(plane, *at, *tone, name, chart),
        Layer::Bars { tone, bars } => {
            let bars = bars.iter().filter(|(_, _, bottom, top)| top > bottom);
            let bar = |(from, to, bottom, top): &(f64, f64, f64, f64)| {
                Rectangle::new([(*from, *bottom), (*to, *top)], tone.color().filled())
            };
            plane.draw_series(bars.map(bar)).map(|_| ())
        }
    }
}

/// Points that have a place.
fn seen(points: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    points.iter().copied().filter(|(x, y)| x.is_finite() && y.is_finite())
}

/// A stretch in the background with its name at the top.
fn band(plane: &mut Plane<'_, '_>, (from, to): (f64, f64), tone: Tone, name: &str) -> Result<(), Trouble> {
    let top = plane.y_range().end;
    plane.draw_series([Rectangle::new([(from, 0.0), (to, top)], tone.color().filled())])?;
    let ink = Tone::Ink.color();
    let style = ("sans-serif", TEXT - 1, &ink).into_text_style(plane.plotting_area());
    let style = style.pos(Pos::new(HPos::Left, VPos::Bottom));
    let words = Text::new(name.to_owned(), (from, top), style);
    plane.draw_series([words]).map(|_| ())
}

/// As much of a name as its stretch has room for.
fn cut(name: &str, (from, to): (f64, f64), chart: &Chart, size: Size) -> String {
    let share = (to - from) / (chart.x.to - chart.x.from);
    let pixels = crate::domain::Bytes::from_f64(share * f64::from(size.width) * 0.9).0;
    let letters = usize::try_from(pixels).unwrap_or(0) / 7;
    if name.chars().count() <= letters {
        return name.to_owned();
    }
    if letters < 4 {
        return String::new();
    }
    name.chars().take(letters - 1).chain(['…']).collect()
}

/// An upright line with its name at the foot, on the side where there is room.
fn moment(plane: &mut Plane<'_, '_>, at: f64, tone: Tone, name: &str, chart: &Chart) -> Result<(), Trouble> {
    let top = plane.y_range().end;
    plane.draw_series(LineSeries::new([(at, 0.0), (at, top)], tone.color().stroke_width(2)))?;
    let late = at > f64::midpoint(chart.x.from, chart.x.to);
    let side = if late { HPos::Right } else { HPos::Left };
    let color = tone.color();
    let style = ("sans-serif", TEXT, &color).into_text_style(plane.plotting_area());
    let aside = if late { (-6, 0) } else { (6, 0) };
    let words = Text::new(name.to_owned(), aside, style.pos(Pos::new(side, VPos::Bottom)));
    let words = EmptyElement::at((at, top * 0.04)) + words;
    plane.draw_series([words]).map(|_| ())
}
