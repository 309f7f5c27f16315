//! Outlines of jobs over the cells.

use ibnet::drawing::canvas::shortened;
use ibnet_analysis::heat::marks::JobMark;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::SMALL;
use crate::draw::{self, Drawn, font};

/// Draws the outlines of jobs. `at` is the upper left corner of the cells. `cell` is the width and
/// height of a cell in pixels.
pub(super) fn draw<DB: DrawingBackend>(
    area: &DrawingArea<DB, Shift>,
    jobs: &[JobMark],
    (left, top): (i32, i32),
    (wide, high): (u32, u32),
) -> Drawn<DB> {
    let x = |column: f64| left + (column * f64::from(wide)).round() as i32;
    let y = |row: usize| top + row as i32 * high as i32;
    for job in jobs {
        let (from, to) = (
            x(job.columns.0),
            x(job.columns.1).max(x(job.columns.0) + 3) - 1,
        );
        for rows in &job.rows {
            let (upper, lower) = (y(rows.start), y(rows.end) - 1);
            // Black and white lines side by side are visible on every colour. They are outside of
            // the rows, so they cannot cover a row that is one pixel high.
            area.draw(&Rectangle::new(
                [(from - 2, upper - 2), (to + 2, lower + 2)],
                BLACK,
            ))?;
            area.draw(&Rectangle::new(
                [(from - 1, upper - 1), (to + 1, lower + 1)],
                WHITE,
            ))?;
        }
    }
    // The labels are above all outlines. One that would cover another one is left out.
    let mut drawn: Vec<(i32, i32, i32)> = Vec::new();
    for job in jobs {
        let Some(rows) = job
            .rows
            .iter()
            .max_by_key(|rows| (rows.len(), std::cmp::Reverse(rows.start)))
        else {
            continue;
        };
        let text = shortened(&job.label, 24);
        let (from, height) = (x(job.columns.0) - 2, SMALL as i32 + 3);
        // The label is above the outline if there is space. Inside, it could cover a small job.
        let outline = y(rows.start) - 2;
        let upper = if outline - height >= top {
            outline - height
        } else {
            outline
        };
        let corner = (
            from + font::width(&text, SMALL).ceil() as i32 + 7,
            upper + height,
        );
        let covers = |(left, top, right): &(i32, i32, i32)| {
            from <= *right && corner.0 >= *left && (top - upper).abs() < height
        };
        if drawn.iter().any(covers) {
            continue;
        }
        drawn.push((from, upper, corner.0));
        area.draw(&Rectangle::new([(from, upper), corner], WHITE.filled()))?;
        area.draw(&Rectangle::new([(from, upper), corner], BLACK))?;
        draw::write(
            area,
            &text,
            SMALL,
            (from + 4, (upper + corner.1) / 2),
            (HPos::Left, VPos::Center),
            &BLACK,
        )?;
    }
    Ok(())
}
