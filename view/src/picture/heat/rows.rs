//! Labels the rows: every row, some rows, or blocks of rows.

use std::collections::BTreeSet;

use ibnet_analysis::heat::grid::Grid;
use ibnet_analysis::heat::order::{RowKind, RowLabel};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::{GREY, READABLE, SMALL};
use crate::draw::{self, Drawn, font};

/// Labels of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Labels {
    /// Every row has its name.
    Every,
    /// Only some rows have their names, as many as fit.
    Some,
    /// Each block of rows, such as a switch with its ports, has the name of the block.
    Blocks,
}

impl Labels {
    /// Chooses the labels for rows of this height in pixels.
    pub(super) fn of(grid: &Grid, height: u32) -> Self {
        let blocks: BTreeSet<&str> = grid.rows.iter().map(|row| &*row.block).collect();
        // Rows form blocks only in the order of the topology.
        let runs = grid.rows.chunk_by(|a, b| a.block == b.block).count();
        match grid.by {
            _ if height >= READABLE => Self::Every,
            RowKind::Port | RowKind::Link if runs == blocks.len() => Self::Blocks,
            _ => Self::Some,
        }
    }

    pub(super) fn width(self, grid: &Grid) -> f64 {
        let label = |row: &RowLabel| {
            font::width(
                if self == Self::Blocks {
                    &row.block
                } else {
                    &row.row
                },
                SMALL,
            )
        };
        grid.rows.iter().map(label).fold(0.0, f64::max)
    }

    /// Draws the labels to the left of a panel. `at` is the upper left corner of its cells.
    pub(super) fn draw<DB: DrawingBackend>(
        self,
        area: &DrawingArea<DB, Shift>,
        grid: &Grid,
        (left, top): (i32, i32),
        height: i32,
    ) -> Drawn<DB> {
        let line = SMALL as i32 + 1;
        let mut free = i32::MIN;
        let mut before = None;
        for (row, name) in grid.rows.iter().enumerate() {
            let y = top + row as i32 * height + if self == Self::Blocks { 0 } else { height / 2 };
            let begins = self != Self::Blocks || before.replace(&name.block) != Some(&name.block);
            if !begins {
                continue;
            }
            if self == Self::Blocks {
                // Each block has a mark, even if its name does not fit.
                draw::line(area, (left - 8, y), (left - 1, y), &GREY)?;
            }
            if y < free {
                continue;
            }
            let text = if self == Self::Blocks {
                &name.block
            } else {
                &name.row
            };
            if self == Self::Some {
                draw::line(area, (left - 8, y), (left - 1, y), &GREY)?;
            }
            let v = if self == Self::Blocks {
                VPos::Top
            } else {
                VPos::Center
            };
            draw::write(area, text, SMALL, (left - 12, y), (HPos::Right, v), &BLACK)?;
            free = if self == Self::Every {
                i32::MIN
            } else {
                y + line
            };
        }
        Ok(())
    }
}
