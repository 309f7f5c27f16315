use ibnet_analysis::heat::HeatMap;
use ibnet_analysis::heat::order::{RowKind, RowLabel};
use ibnet_analysis::metric::{Metric, Unit};

use super::*;
use crate::draw::{Format, render};
use crate::fixtures::fold;

fn grid() -> Grid {
    let name = |row: &str| RowLabel {
        block: "leaf".to_owned(),
        hosts: vec!["n1".to_owned()],
        ..RowLabel::new(row)
    };
    let cells = vec![
        vec![Cell::Value(0.0), Cell::Value(1.0), Cell::NoAnswer],
        vec![Cell::Value(2.0), Cell::Value(40.0), Cell::NoRecord],
    ];
    Grid {
        start_ns: 1_795_262_400_000_000_000,
        step_ns: 1_000_000_000,
        columns: 3,
        by: RowKind::Port,
        rows: vec![name("a</text>&/1"), name("b/1")],
        panels: vec![Panel {
            metric: "xmit_gbps".parse().unwrap(),
            summed: 1,
            full: Some(100.0),
            ports: Vec::new(),
            cells,
        }],
    }
}

/// Returns the pixels of a picture as PNG.
fn pixels(picture: &HeatPicture) -> ((u32, u32), Vec<palette::Rgb>) {
    let file = render(picture, Format::Png).unwrap();
    let mut reader = png::Decoder::new(std::io::Cursor::new(file))
        .read_info()
        .unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    (
        (info.width, info.height),
        pixels
            .chunks(3)
            .map(|pixel| (pixel[0], pixel[1], pixel[2]))
            .collect(),
    )
}

fn svg(picture: &HeatPicture) -> String {
    String::from_utf8(render(picture, Format::Svg).unwrap()).unwrap()
}

#[test]
fn largest_value_has_the_last_colour_and_no_answer_is_striped() {
    let picture = HeatPicture::new(&grid(), None, &Range::Fixed(0.0, 40.0), Zone::utc(), None);
    let (size, pixels) = pixels(&picture);
    assert_eq!(size, picture.size());
    let at = |row, column| {
        let (x, y) = picture.pixel(0, row, column);
        pixels[(y * size.0 + x) as usize]
    };
    assert_eq!(
        (at(1, 1), at(0, 0)),
        (palette::color(1.0), palette::color(0.0))
    );
    assert_eq!(at(1, 2), NO_RECORD);
    assert!([STRIPES.0, STRIPES.1].contains(&at(0, 2)));
    let drawn = pixels.iter().filter(|pixel| **pixel != NO_RECORD).count();
    assert!(drawn > 5000, "only {drawn} pixels are not white");
}

#[test]
fn colour_bar_has_the_colours_of_the_cells() {
    let picture = HeatPicture::new(&grid(), None, &Range::Fixed(0.0, 40.0), Zone::utc(), None);
    let ((width, _), pixels) = pixels(&picture);
    let column = (picture.left + picture.width() + GAP + BAR / 2) as u32;
    let bar: Vec<_> = pixels
        .iter()
        .skip(column as usize)
        .step_by(width as usize)
        .collect();
    for end in [0.0, 1.0] {
        assert!(bar.contains(&&palette::color(end)), "the end at {end}");
    }
    // The bar of an SVG is one image too: lines would be mixed with the background at their edges.
    assert_eq!(
        svg(&picture).matches("<image ").count(),
        2 + picture.legend().len()
    );
}

#[test]
fn states_without_a_value_have_no_colour_of_a_value() {
    for state in [NO_RECORD, UNKNOWN, DOWN, STRIPES.0, STRIPES.1] {
        let differs = |share: i32| {
            let (red, green, blue) = palette::color(f64::from(share) / 255.0);
            state
                .0
                .abs_diff(red)
                .max(state.1.abs_diff(green))
                .max(state.2.abs_diff(blue))
                > 30
        };
        assert!((0..=255).all(differs), "{state:?}");
    }
}

#[test]
fn all_texts_are_within_the_picture() {
    for columns in [1, 3, 200] {
        let mut grid = grid();
        grid.columns = columns;
        grid.panels[0]
            .cells
            .iter_mut()
            .for_each(|row| row.resize(columns, Cell::Value(1.0)));
        let picture = HeatPicture::new(&grid, None, &Range::MeanDeviation, Zone::utc(), None);
        let width = f64::from(picture.size().0);
        for text in picture.subtitle().into_iter().chain([picture.title()]) {
            assert!(
                12.0 + font::width(&text, 13) < width,
                "{columns} columns: {text}"
            );
        }
        for text in picture.heading(&picture.sections[0], 0) {
            assert!(
                f64::from(picture.left) + font::width(&text, 13) < width,
                "{columns} columns: {text}"
            );
        }
    }
}

#[test]
fn size_limits_the_picture_and_merges_rows_and_columns() {
    let mut grid = grid();
    grid.columns = 1500;
    grid.panels[0].cells = vec![vec![Cell::Value(1.0); 1500]; 2000];
    grid.rows = (0..2000)
        .map(|row| RowLabel {
            block: format!("leaf{}", row / 50),
            ..RowLabel::new(format!("leaf{}/{row}", row / 50))
        })
        .collect();
    let picture = HeatPicture::new(
        &grid,
        None,
        &Range::default(),
        Zone::utc(),
        Some((1200, 800)),
    );
    let (width, height) = picture.size();
    assert!(width <= 1200 && height <= 800, "{width} x {height}");
    assert!(
        picture.subtitle()[1].contains("each with the largest value of"),
        "{:?}",
        picture.subtitle()
    );
    let tall = HeatPicture::new(&grid, None, &Range::default(), Zone::utc(), None);
    let marks = svg(&tall).matches(">12:00<").count();
    assert_eq!(
        marks, 2,
        "a tall panel has a time axis at its top and at its bottom"
    );
}

#[test]
fn rows_without_room_have_some_names_or_the_names_of_blocks() {
    let grid_of = |by, rows: usize| {
        let mut grid = grid();
        grid.by = by;
        grid.panels[0].cells = vec![vec![Cell::Value(1.0); 3]; rows];
        grid.rows = (0..rows)
            .map(|row| RowLabel {
                block: format!("leaf{:02}", row / 50),
                ..RowLabel::new(format!("row{row:04}"))
            })
            .collect();
        grid
    };
    let text = |grid: &Grid| {
        svg(&HeatPicture::new(
            grid,
            None,
            &Range::default(),
            Zone::utc(),
            None,
        ))
    };
    let hosts = text(&grid_of(RowKind::Host, 500));
    assert!(
        hosts.contains(">row0000<") && hosts.matches(">row0").count() > 50,
        "hosts have names"
    );
    let ports = text(&grid_of(RowKind::Port, 500));
    assert!(ports.contains(">leaf09<") && !ports.contains(">row0000<"));
    assert!(text(&grid_of(RowKind::Port, 40)).contains(">row0039<"));
}

#[test]
fn jobs_are_outlined_and_named() {
    let grid = grid();
    let job = JobMark {
        label: "job 47<11>".to_owned(),
        rows: std::iter::once(0..2).collect(),
        columns: (1.0, 2.0),
    };
    let picture = HeatPicture::new(&grid, None, &Range::default(), Zone::utc(), None)
        .with_jobs(|_| vec![job.clone()]);
    assert!(svg(&picture).contains(">job 47&lt;11&gt;<"));
    let ((width, _), pixels) = pixels(&picture);
    let (x, y) = (
        picture.left as u32 + picture.wide,
        picture.top(0) as u32 + 2 * picture.sections[0].high,
    );
    let at = |x: u32, y: u32| pixels[(y * width + x) as usize];
    assert_eq!(
        [at(x + 9, y + 1), at(x + 9, y)],
        [(0, 0, 0), (255, 255, 255)]
    );
}

#[test]
fn largest_possible_time_can_be_drawn() {
    let late = format!(
        r#"{{"type":"port","ts":{},"slot":1795262400,"sampler":"s","guid":"0x0000000000000001","port":2,"node":"leaf1","kind":"switch","status":"ok","xmit_gbps":1.0}}"#,
        u64::MAX
    );
    let early = late
        .replace(&u64::MAX.to_string(), "1020000000")
        .replace("1795262400", "1");
    for lines in [vec![late.clone()], vec![early, late]] {
        let heat = fold(
            HeatMap::new(vec!["xmit_gbps".parse().unwrap()], None),
            &lines,
        );
        let grid = heat.finish(RowKind::Port).unwrap();
        assert!(
            render(
                &HeatPicture::new(&grid, None, &Range::default(), Zone::utc(), None),
                Format::Svg
            )
            .is_ok()
        );
    }
}

#[test]
fn picture_has_title_time_range_and_legend() {
    let text = svg(&HeatPicture::new(
        &grid(),
        None,
        &Range::default(),
        Zone::utc(),
        None,
    ));
    for expected in [
        ">data sent, by port<",
        ">2026-11-21 12:00:00 to 2026-11-21 12:00:03 (UTC)<",
        ">2 ports, 1 s per column<",
        ">xmit_gbps; largest: 40 Gb/s at b/1, 12:00:01<",
        ">colours: 0 to a full link (100 Gb/s)<",
        ">no answer<",
        "a&lt;/text&gt;&amp;/1",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    assert!(
        svg(&HeatPicture::new(
            &grid(),
            None,
            &Range::MeanDeviation,
            Zone::utc(),
            None
        ))
        .contains("mean + mean absolute deviation")
    );
}

#[test]
fn lower_bounds_and_increases_are_marked() {
    let mut grid = grid();
    let lower = svg(&HeatPicture::new(
        &grid,
        None,
        &Range::default(),
        Zone::utc(),
        None,
    ));
    assert!(
        !lower.contains("at least") && !lower.contains("increase"),
        "the legend has only what is drawn: {lower}"
    );
    grid.by = RowKind::Switch;
    grid.panels[0].ports = vec![(3, 2), (4, 4)];
    grid.panels[0].cells[1] = vec![
        Cell::AtLeast {
            value: 40.0,
            covered: 0.5,
        },
        Cell::Increase,
        Cell::NoRecord,
    ];
    let picture = HeatPicture::new(&grid, None, &Range::Fixed(0.0, 40.0), Zone::utc(), None);
    let text = svg(&picture);
    for expected in [
        ">at least this value<",
        ">increase, rate unknown<",
        "xmit_gbps, without 1 port that does not have it, 33.3 % are lower bounds",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
    let ((width, _), pixels) = pixels(&picture);
    let around = |column| {
        let (x, y) = picture.pixel(0, 1, column);
        (0..13)
            .map(|right| pixels[(y * width + x + right) as usize])
            .collect::<Vec<_>>()
    };
    let marked = around(0);
    assert!(
        marked.contains(&palette::color(1.0))
            && marked.contains(&STRIPES.0)
            && marked.contains(&STRIPES.1),
        "{marked:?}"
    );
    assert_eq!(around(1), [INCREASE; 13]);
}

#[test]
fn host_metrics_are_below_the_fabric_on_the_same_columns() {
    let metric = Metric::of_hosts("ipoib", "IPoIB, in and out", Unit::OctetsPerSecond);
    let cells = vec![vec![Cell::NoRecord, Cell::Value(0.0), Cell::Value(3e9)]];
    let hosts = Grid {
        by: RowKind::Host,
        rows: vec![RowLabel::new("n1")],
        panels: vec![Panel {
            metric,
            summed: 1,
            full: None,
            ports: Vec::new(),
            cells,
        }],
        ..grid()
    };
    let picture = HeatPicture::new(&grid(), Some(&hosts), &Range::default(), Zone::utc(), None);
    let ((width, _), pixels) = pixels(&picture);
    let at = |column| {
        let (x, y) = picture.pixel(1, 0, column);
        pixels[(y * width + x) as usize]
    };
    assert_eq!(
        [at(0), at(1), at(2)],
        [NO_RECORD, palette::color(0.0), palette::color(1.0)]
    );
    assert_eq!(picture.pixel(0, 0, 2).0, picture.pixel(1, 0, 2).0);
    let text = svg(&picture);
    for expected in [
        ">data sent, by port; IPoIB, in and out, by host<",
        ">2 ports, host metrics of 1 host, 1 s per column<",
        ">ipoib: IPoIB, in and out; largest: 3 GB/s at n1, 12:00:02<",
    ] {
        assert!(text.contains(expected), "{expected} is not in {text}");
    }
}

#[test]
fn text_above_the_colours_ends_within_the_picture() {
    for size in [None, Some((500, 500))] {
        let picture = HeatPicture::new(&grid(), None, &Range::MeanDeviation, Zone::utc(), size);
        let (section, number) = picture.panels().next().unwrap();
        let text = beyond(&section.ranges[number], &section.grid.panels[number]);
        assert_eq!(text, "and more: ≥ 25.4 Gb/s");
        let end = picture.left + picture.width() + GAP + font::width(&text, SMALL) as i32;
        assert!(end < picture.size().0 as i32, "{end} {:?}", picture.size());
    }
}
