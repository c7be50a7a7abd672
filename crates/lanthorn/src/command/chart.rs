//! The loss curve as an SVG file.

use std::path::Path;

use lanthorn_io::atomic;
use plotters::prelude::*;

use super::failure::{Failure, Result};

/// What is drawn: losses in nats per token against the step.
pub struct Losses<'a> {
    /// Training loss of every step.
    pub train: &'a [(u64, f64)],
    /// Held-out loss where it was measured.
    pub held_out: &'a [(u64, f64)],
    /// The unigram entropy of the tokens: what a model without context reaches.
    pub unigram: f64,
}

/// Writes the curve to `path`.
pub fn write(path: &Path, losses: &Losses<'_>) -> Result<()> {
    let mut svg = String::new();
    draw(&mut svg, losses).map_err(|message| Failure::request(format!("the loss curve: {message}")))?;
    atomic::write(path, svg.as_bytes())?;
    Ok(())
}

/// Steps over which the drawn mean runs.
const WINDOW: usize = 20;

fn draw(svg: &mut String, losses: &Losses<'_>) -> std::result::Result<(), String> {
    let text = |error: DrawingAreaErrorKind<_>| error.to_string();
    let last = losses.train.last().map_or(1, |&(step, _)| step).max(1);
    let points = losses.train.iter().chain(losses.held_out).map(|&(_, loss)| loss);
    let (low, high) =
        points.fold((f64::INFINITY, losses.unigram), |(low, high), loss| (low.min(loss), high.max(loss)));
    let low = if low.is_finite() { (low - 0.3).max(0.0) } else { 0.0 };
    let area = SVGBackend::with_string(svg, (900, 520)).into_drawing_area();
    area.fill(&WHITE).map_err(text)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("loss", ("sans-serif", 22))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d(0..last, low..high + 0.2)
        .map_err(text)?;
    chart
        .configure_mesh()
        .x_desc("step")
        .y_desc("nats per token")
        .light_line_style(WHITE)
        .draw()
        .map_err(text)?;
    let (pale, dark, red, gray) =
        (RGBColor(176, 200, 232), RGBColor(31, 98, 178), RGBColor(201, 60, 48), RGBColor(120, 120, 120));
    chart
        .draw_series(LineSeries::new(losses.train.iter().copied(), pale))
        .map_err(text)?
        .label("training, each step")
        .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], pale));
    let smooth = losses.train.iter().enumerate().map(|(at, &(step, _))| {
        let window = &losses.train[(at + 1).saturating_sub(WINDOW)..=at];
        (step, window.iter().map(|&(_, loss)| loss).sum::<f64>() / window.len() as f64)
    });
    chart
        .draw_series(LineSeries::new(smooth, dark.stroke_width(2)))
        .map_err(text)?
        .label(format!("training, mean of {WINDOW}"))
        .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], dark.stroke_width(2)));
    chart
        .draw_series(LineSeries::new(losses.held_out.iter().copied(), red.stroke_width(2)).point_size(3))
        .map_err(text)?
        .label("held out")
        .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], red.stroke_width(2)));
    let line = [(0, losses.unigram), (last, losses.unigram)];
    chart
        .draw_series(LineSeries::new(line, gray))
        .map_err(text)?
        .label(format!("unigram entropy, {:.2}", losses.unigram))
        .legend(move |(x, y)| PathElement::new(vec![(x, y), (x + 18, y)], gray));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(gray)
        .draw()
        .map_err(text)?;
    area.present().map_err(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_of_one_point_or_none_is_drawn() {
        for train in [&[][..], &[(1, 3.0)][..], &[(1, 7.0), (2, 6.5)][..]] {
            let mut svg = String::new();
            draw(&mut svg, &Losses { train, held_out: &[(1, 6.0)], unigram: 6.2 }).unwrap();
            assert!(
                svg.starts_with("<svg") && svg.contains("held out") && svg.trim_end().ends_with("</svg>")
            );
        }
    }
}
