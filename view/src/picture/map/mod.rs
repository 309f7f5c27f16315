//! Draws a map of the fabric as SVG. Switches are in rows by tier. The colour and the width of a
//! link show its utilization, or another metric. Links of hosts are bars in the box of their
//! switch, or boxes below it.
//!
//! Blocked links have teeth, and roots of congestion have a label. Devices that do not answer
//! are crossed out. If a job is selected, its hosts are outlined and all other parts are
//! dimmed, so that no mark depends on its colour alone.

use std::cmp::Ordering;

use ibnet::drawing::canvas::{Canvas, FONT, px, shortened};
use ibnet::drawing::layout::Net;
use ibnet::drawing::sheet::{BOX, NAME, Sheet};
use ibnet_analysis::cell::Cell;
use ibnet_analysis::links::Link;
use ibnet_analysis::map::{Map, MapSwitch};
use ibnet_record::types::Guid;

use crate::draw::axis;
use crate::text::{count, errors, percent};

mod scale;

use self::scale::{DOTS, INK, ROOT, blocked};

/// Height of the box of a host in pixels.
const HOST: f64 = 13.0;
/// Height of the bars in the box of a switch, and distance of their upper ends from the top of
/// the box.
const BARS: (f64, f64) = (10.5, 33.0);
/// Max number of links between two switches that are drawn as a line each, and the width of all
/// these lines. Boxes hide what is wider than the gap between them.
const CABLES: (usize, f64) = (4, 16.0);
/// Opacity of the parts that do not belong to the job.
const DIM: (&str, &str) = ("opacity", "0.25");

/// Draws the map and returns the SVG. Each host gets its own box, or a bar in the box of
/// its switch.
pub fn to_svg(map: &Map, with_hosts: bool) -> String {
    // Hosts are below their switch, two side by side.
    let below = |switch: &MapSwitch| {
        if switch.hosts.is_empty() {
            0.0
        } else {
            switch.hosts.len().div_ceil(2) as f64 * HOST + 6.0
        }
    };
    let space: Vec<f64> = if with_hosts {
        map.switches.iter().map(below).collect()
    } else {
        Vec::new()
    };
    let switches = map
        .switches
        .iter()
        .map(|switch| (&*switch.name, switch.tier))
        .collect();
    let net = Net {
        switches,
        links: map.trunks.keys().copied().collect(),
    };
    let mut trunks: Vec<Vec<Cable<'_>>> = vec![Vec::new(); map.switches.len()];
    for ((one, other), links) in &map.trunks {
        trunks[*one].extend(links.iter().map(|link| Cable { link, end: 0 }));
        trunks[*other].extend(links.iter().map(|link| Cable { link, end: 1 }));
    }
    trunks
        .iter_mut()
        .for_each(|cables| cables.sort_by_key(Cable::number));
    Drawing {
        map,
        sheet: Sheet::with_space_below(&net, &space),
        trunks,
        with_hosts,
    }
    .draw()
}

/// A link as seen from one of its switches.
#[derive(Clone, Copy)]
struct Cable<'a> {
    link: &'a Link,
    /// Index of the end at the switch.
    end: usize,
}

impl Cable<'_> {
    fn number(&self) -> u8 {
        self.link.ends[self.end].port.port.0
    }

    /// Returns the GUID of the device at the other end.
    fn peer(&self) -> Guid {
        self.link.ends[1 - self.end].port.guid
    }
}

fn summary(map: &Map) -> String {
    let hosts: usize = map.switches.iter().map(|switch| switch.hosts.len()).sum();
    let links: usize = map.trunks.values().map(Vec::len).sum();
    let (switches, links, hosts) = (
        count(map.switches.len(), "switch"),
        count(links, "link"),
        count(hosts, "host port"),
    );
    format!(
        "{switches} with {links} between them, {hosts}; {}",
        map.when
    )
}

/// A line between two switches.
struct Line<'a> {
    ends: (usize, usize),
    /// The links of the line: one, or all between the two switches.
    links: &'a [Link],
    /// Distance from the middle between the switches in pixels.
    offset: f64,
    /// Factor of the width.
    thick: f64,
    value: Option<f64>,
    is_bright: bool,
}

struct Drawing<'a> {
    map: &'a Map,
    sheet: Sheet,
    /// Links of each switch to other switches, by port number.
    trunks: Vec<Vec<Cable<'a>>>,
    with_hosts: bool,
}

impl Drawing<'_> {
    /// Returns the largest value of the links, over both directions of each link.
    fn value<'a>(&self, links: impl IntoIterator<Item = &'a Link>) -> Option<f64> {
        let values = links.into_iter().filter_map(|link| self.map.value(link));
        values.reduce(f64::max)
    }

    fn share(&self, value: Option<f64>) -> Option<f64> {
        value.map(|value| self.map.range.share(value))
    }

    fn color(&self, value: Option<f64>) -> String {
        scale::color(self.share(value))
    }

    fn width(&self, value: Option<f64>) -> f64 {
        scale::width(self.share(value))
    }

    fn quantity(&self, value: f64) -> String {
        axis::quantity(value, scale::unit(self.map))
    }

    /// Describes both directions of a link.
    fn description(&self, link: &Link) -> String {
        let line = |from: usize| {
            let metric = self.map.metric.as_ref().map_or_else(String::new, |metric| {
                let value = match metric.of(link, from) {
                    Some(Cell::Value(value)) => self.quantity(value),
                    Some(Cell::AtLeast { value, .. }) => {
                        format!("at least {}", self.quantity(value))
                    }
                    _ => "-".to_owned(),
                };
                format!("{} {value}, ", metric.metric)
            });
            let direction = &link.directions[from];
            let gbps = direction
                .gbps
                .map_or_else(|| "-".to_owned(), |gbps| format!("{gbps:.1}"));
            let (used, peak, blocked) = (
                percent(direction.utilization),
                percent(direction.peak),
                percent(direction.blocked),
            );
            format!(
                "{} \u{2192} {}: {metric}{gbps} Gb/s, {used} used, peak {peak}, blocked {blocked}",
                link.ends[from],
                link.ends[1 - from]
            )
        };
        let errors = if link.errors > 0 {
            format!("\nerrors: {}", link.errors)
        } else {
            String::new()
        };
        format!("{}\n{}\n{}{errors}", link.rate, line(0), line(1))
    }

    fn draw(&self) -> String {
        let mut canvas = Canvas::new();
        let bottom = self.sheet.bottom() + 40.0;
        let (width, height) = (self.sheet.width(980.0), bottom + scale::LEGEND + 14.0);
        let (w, h) = (px(width), px(height));
        let view = format!("0 0 {w} {h}");
        canvas.open(
            "svg",
            &[
                ("xmlns", "http://www.w3.org/2000/svg"),
                ("viewBox", &view),
                ("width", &w),
                ("height", &h),
                ("style", FONT),
            ],
        );
        canvas.text("title", &[], &summary(self.map));
        canvas.text(
            "style",
            &[],
            ".link:hover path{stroke:#d62598}.box:hover rect{stroke:#d62598;stroke-width:2.5}",
        );
        canvas.empty(
            "rect",
            &[("width", "100%"), ("height", "100%"), ("fill", "#ffffff")],
        );
        self.head(&mut canvas);
        self.sheet.rows(&mut canvas, width);
        self.links(&mut canvas);
        for (index, switch) in self.map.switches.iter().enumerate() {
            self.switch(&mut canvas, switch, index);
        }
        scale::legend(&mut canvas, bottom, self.map);
        canvas.close("svg");
        canvas.finish()
    }

    /// Writes the title, the time range, and the devices that do not answer.
    fn head(&self, canvas: &mut Canvas) {
        let at = |y: &'static str, size: &'static str| [("x", "24"), ("y", y), ("font-size", size)];
        let what = scale::title(self.map);
        let title = match &self.map.job {
            Some(job) => format!("{what}: {}", shortened(&job.title, 80)),
            None => what,
        };
        canvas.text(
            "text",
            &[&at("28", "18")[..], &[("font-weight", "bold")]].concat(),
            &title,
        );
        canvas.text("text", &at("46", "12"), &summary(self.map));
        if let Some(line) = errors::unreachable(&self.map.faults) {
            canvas.text(
                "text",
                &[&at("62", "12")[..], &[("font-weight", "bold")]].concat(),
                &line,
            );
        }
    }

    /// Draws the links between switches: a line for each link, or, if there are too many links
    /// between two switches, a line for the one with the largest value, and their number. Links of
    /// the job are on top, then blocked links, then the others by their value.
    fn links(&self, canvas: &mut Canvas) {
        let mut lines: Vec<Line<'_>> = Vec::new();
        for (ends, links) in &self.map.trunks {
            let is_of_job = self.map.is_of_job(ends.0) || self.map.is_of_job(ends.1);
            let parts = links.chunks(if links.len() <= CABLES.0 {
                1
            } else {
                links.len()
            });
            let of = parts.len() as f64;
            lines.extend(parts.enumerate().map(|(number, links)| Line {
                ends: *ends,
                offset: CABLES.1 * ((number as f64 + 0.5) / of - 0.5),
                thick: 1.0 / of,
                value: self.value(links),
                is_bright: is_of_job || links.iter().any(|link| self.map.is_emphasized(link)),
                links,
            }));
        }
        let is_blocked = |line: &Line<'_>| line.links.iter().any(|link| blocked(link).is_some());
        lines.sort_by(|a, b| {
            let by_use = || a.value.partial_cmp(&b.value).unwrap_or(Ordering::Equal);
            a.is_bright
                .cmp(&b.is_bright)
                .then(is_blocked(a).cmp(&is_blocked(b)))
                .then_with(by_use)
        });
        for line in lines {
            self.line(canvas, &line);
        }
    }

    fn line(&self, canvas: &mut Canvas, line: &Line<'_>) {
        let (path, label) = self.sheet.path(line.ends);
        let place = format!("translate({:.1} 0)", line.offset);
        let class = [("class", "link"), ("transform", &*place), DIM];
        canvas.open("g", if line.is_bright { &class[..2] } else { &class });
        let all: Vec<_> = line
            .links
            .iter()
            .map(|link| self.description(link))
            .collect();
        canvas.text("title", &[], &all.join("\n"));
        let (color, thick) = (self.color(line.value), self.width(line.value) * line.thick);
        if let Some(mark) = line
            .links
            .iter()
            .max_by(|a, b| most_blocked(a).total_cmp(&most_blocked(b)))
            .and_then(blocked)
        {
            scale::teeth(canvas, &path, mark, thick);
        }
        let thick = format!("{thick:.1}");
        let stroke = [
            ("d", &*path),
            ("fill", "none"),
            ("stroke", &color),
            ("stroke-width", &thick),
            DOTS,
        ];
        canvas.empty(
            "path",
            if line.value.is_some() {
                &stroke[..4]
            } else {
                &stroke
            },
        );
        if line.links.len() > 1 {
            let at = [
                ("x", &*px(label.0)),
                ("y", &px(label.1)),
                ("font-size", "9"),
                ("text-anchor", "middle"),
                ("stroke", "#ffffff"),
                ("stroke-width", "3"),
                ("paint-order", "stroke"),
            ];
            canvas.text("text", &at, &format!("\u{d7}{}", line.links.len()));
        }
        canvas.close("g");
    }

    fn switch(&self, canvas: &mut Canvas, switch: &MapSwitch, index: usize) {
        let (x, y) = self.sheet.places[index];
        let is_dead = self.map.unreachable.contains(&switch.guid);
        let place = format!("translate({x:.0} {y:.0})");
        let group = [("class", "box"), ("transform", &*place), DIM];
        canvas.open(
            "g",
            if self.map.is_of_job(index) || self.map.has_waited(index) {
                &group[..2]
            } else {
                &group
            },
        );
        let answer = if is_dead { "\ndoes not answer" } else { "" };
        canvas.text(
            "title",
            &[],
            &format!(
                "{} {}\n{}{answer}",
                switch.name,
                switch.guid,
                self.contents(switch, index)
            ),
        );
        let (w, h) = (px(BOX.0), px(BOX.1));
        let frame = [
            ("width", &*w),
            ("height", &*h),
            ("rx", "4"),
            ("fill", if is_dead { "#e4e4e4" } else { "#ffffff" }),
            ("stroke", INK),
        ];
        let dead_frame = [("stroke-width", "2"), ("stroke-dasharray", "7 4")];
        canvas.empty(
            "rect",
            &[&frame[..], if is_dead { &dead_frame } else { &[] }].concat(),
        );
        canvas.text(
            "text",
            &[
                ("x", "5"),
                ("y", "14"),
                ("font-size", "11"),
                ("font-weight", "bold"),
            ],
            &self.sheet.labels[index],
        );
        let below_name = [("x", "5"), ("y", "26"), ("font-size", "9")];
        if is_dead {
            canvas.text(
                "text",
                &[&below_name[..], &[("font-weight", "bold")]].concat(),
                "no answer",
            );
        } else {
            canvas.text("text", &below_name, &self.caption(switch, index));
        }
        let hosts: Vec<Cable<'_>> = by_port(switch);
        if hosts.is_empty() {
            self.bars(canvas, &self.trunks[index]);
        } else if !self.with_hosts {
            self.bars(canvas, &hosts);
        }
        if is_dead {
            cross(canvas, (BOX.0 - 22.0, 4.0), (16.0, 16.0), "2.5");
        }
        self.root(canvas, switch);
        canvas.close("g");
        if self.with_hosts {
            self.hosts(canvas, &hosts, (x, y + BOX.1 + 3.0));
        }
    }

    /// Returns the number of hosts of a switch, or the number of links of a switch without hosts.
    fn caption(&self, switch: &MapSwitch, index: usize) -> String {
        match switch.hosts.len() {
            0 => count(self.trunks[index].len(), "link"),
            hosts => count(hosts, "host port"),
        }
    }

    /// Describes the hosts of a switch, or its links to other switches.
    fn contents(&self, switch: &MapSwitch, index: usize) -> String {
        let cables = &self.trunks[index];
        let number = |links: &mut dyn Iterator<Item = &Link>| {
            links.filter(|link| blocked(link).is_some()).count()
        };
        if switch.hosts.is_empty() {
            let most = self.value(cables.iter().map(|cable| cable.link));
            let most = most.map_or_else(|| "-".to_owned(), |most| self.quantity(most));
            let blocked = number(&mut cables.iter().map(|cable| cable.link));
            return format!(
                "{}, the largest value {most}, {blocked} blocked",
                count(cables.len(), "link")
            );
        }
        let sum = |from: usize| {
            switch
                .hosts
                .iter()
                .filter_map(|link| link.directions[from].gbps)
                .sum::<f64>()
        };
        let blocked = number(&mut switch.hosts.iter());
        format!(
            "{}: {:.1} Gb/s to them, {:.1} Gb/s from them, {blocked} blocked",
            count(switch.hosts.len(), "host port"),
            sum(0),
            sum(1)
        )
    }

    /// Writes a label into the box of a switch that names the ports at which congestion begins.
    fn root(&self, canvas: &mut Canvas, switch: &MapSwitch) {
        let ports: Vec<String> = self
            .map
            .roots
            .iter()
            .filter(|root| root.0 == switch.guid)
            .map(|root| root.1.to_string())
            .collect();
        if ports.is_empty() {
            return;
        }
        let text = format!("root: {}", ports.join(", "));
        let length = 10.0 + 5.6 * text.len() as f64;
        let x = BOX.0 - length - 3.0;
        canvas.empty(
            "rect",
            &[
                ("x", &px(x)),
                ("y", "17"),
                ("width", &px(length)),
                ("height", "13"),
                ("rx", "6.5"),
                ("fill", ROOT),
            ],
        );
        let at = [
            ("x", &*px(x + length / 2.0)),
            ("y", "27"),
            ("font-size", "10"),
            ("fill", "#ffffff"),
            ("text-anchor", "middle"),
        ];
        canvas.text("text", &at, &text);
    }

    /// Returns whether a device belongs to the job, or true if there is no job.
    fn is_of_job(&self, guid: Guid) -> bool {
        self.map
            .job
            .as_ref()
            .is_none_or(|job| job.ports.contains(&guid))
    }

    /// Draws a bar for each link at the bottom of the box of a switch, by port number. A blocked
    /// link has a mark above its bar. The bar of a device that does not answer is crossed out.
    fn bars(&self, canvas: &mut Canvas, cables: &[Cable<'_>]) {
        let step = ((BOX.0 - 2.0) / cables.len() as f64).min(12.0);
        let (height, top) = (format!("{:.1}", BARS.0), px(BARS.1));
        for (number, cable) in cables.iter().enumerate() {
            let used = self.map.value(cable.link);
            let left = 1.0 + number as f64 * step;
            let (x, width) = (
                format!("{left:.1}"),
                format!("{:.1}", step - if step > 4.0 { 1.0 } else { 0.0 }),
            );
            let is_own = self.map.job.is_some() && self.is_of_job(cable.peer());
            let class = [("class", "bar"), DIM];
            canvas.open(
                "g",
                if self.map.is_emphasized(cable.link) {
                    &class[..1]
                } else {
                    &class
                },
            );
            canvas.text("title", &[], &self.description(cable.link));
            let bar = [
                ("x", &*x),
                ("y", &*top),
                ("width", &*width),
                ("height", &*height),
            ];
            if self.map.unreachable.contains(&cable.peer()) {
                canvas.empty(
                    "rect",
                    &[
                        &bar[..],
                        &[
                            ("fill", "#ffffff"),
                            ("stroke", INK),
                            ("stroke-width", "0.5"),
                        ],
                    ]
                    .concat(),
                );
                cross(canvas, (left, BARS.1), (step - 1.0, BARS.0), "1");
            } else {
                let outline = [("stroke", INK), ("stroke-width", "1")];
                let fill = self.color(used);
                canvas.empty(
                    "rect",
                    &[
                        &bar[..],
                        &[("fill", &fill)],
                        if is_own { &outline } else { &[] },
                    ]
                    .concat(),
                );
            }
            if let Some(mark) = blocked(cable.link) {
                canvas.empty(
                    "rect",
                    &[
                        ("x", &*x),
                        ("y", "29"),
                        ("width", &width),
                        ("height", "3"),
                        ("fill", mark),
                    ],
                );
            }
            canvas.close("g");
        }
    }

    /// Draws a small box for each host, two side by side.
    fn hosts(&self, canvas: &mut Canvas, hosts: &[Cable<'_>], (x, y): (f64, f64)) {
        let half = BOX.0 / 2.0;
        for (number, cable) in hosts.iter().enumerate() {
            let link = cable.link;
            let (x, y) = (
                x + (number % 2) as f64 * half,
                y + (number / 2) as f64 * HOST,
            );
            let is_dead = self.map.unreachable.contains(&cable.peer());
            let place = format!("translate({x:.0} {y:.0})");
            let group = [("class", "box"), ("transform", &*place), DIM];
            canvas.open(
                "g",
                if self.map.is_emphasized(link) {
                    &group[..2]
                } else {
                    &group
                },
            );
            canvas.text(
                "title",
                &[],
                &(self.description(link) + if is_dead { "\ndoes not answer" } else { "" }),
            );
            let used = self.map.value(link);
            let (w, h, fill) = (
                px(half - 2.0),
                px(HOST - 2.0),
                if is_dead {
                    "#ffffff".to_owned()
                } else {
                    self.color(used)
                },
            );
            let (stroke, thick) = match (
                blocked(link),
                self.map.job.is_some() && self.is_of_job(cable.peer()),
            ) {
                (Some(mark), _) => (mark, "2.2"),
                (None, true) => (INK, "1.4"),
                (None, false) => ("#999999", "0.6"),
            };
            canvas.empty(
                "rect",
                &[
                    ("width", &w),
                    ("height", &h),
                    ("fill", &fill),
                    ("stroke", stroke),
                    ("stroke-width", thick),
                ],
            );
            let ink = if !is_dead && self.share(used).unwrap_or(0.0) > 0.5 {
                "#ffffff"
            } else {
                "#000000"
            };
            let name = link.ends[1 - cable.end]
                .port
                .node
                .split_whitespace()
                .next()
                .unwrap_or("");
            canvas.text(
                "text",
                &[("x", "3"), ("y", "8.5"), ("font-size", "8"), ("fill", ink)],
                &shortened(name, NAME - 2),
            );
            if is_dead {
                cross(canvas, (half - 13.0, 1.0), (9.0, 9.0), "1.5");
            }
            canvas.close("g");
        }
    }
}

fn cross(canvas: &mut Canvas, (x, y): (f64, f64), (w, h): (f64, f64), width: &str) {
    let path = format!(
        "M{x:.1} {y:.1}l{w:.1} {h:.1}M{x:.1} {:.1}l{w:.1} {:.1}",
        y + h,
        -h
    );
    canvas.empty(
        "path",
        &[
            ("d", &path),
            ("fill", "none"),
            ("stroke", INK),
            ("stroke-width", width),
        ],
    );
}

/// Returns the links of the hosts of a switch by port number.
fn by_port(switch: &MapSwitch) -> Vec<Cable<'_>> {
    let mut cables: Vec<Cable<'_>> = switch
        .hosts
        .iter()
        .map(|link| Cable { link, end: 0 })
        .collect();
    cables.sort_by_key(Cable::number);
    cables
}

/// Returns the larger blocked share of the two ends of a link, or 0 if it is not known.
fn most_blocked(link: &Link) -> f64 {
    link.directions
        .iter()
        .filter_map(|direction| direction.blocked)
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;
    use quick_xml::events::Event;

    use std::collections::BTreeMap;

    use ibnet_analysis::devices::Devices;
    use ibnet_analysis::heat::HeatMap;
    use ibnet_analysis::heat::order::RowKind;
    use ibnet_analysis::heat::range::Range;
    use ibnet_analysis::hosts::Hosts;
    use ibnet_analysis::links;
    use ibnet_analysis::ports::Ports;
    use ibnet_analysis::trees::{Limits, Trees};

    use super::*;
    use crate::fixtures::{event, fold, map_lines};

    fn map() -> Map {
        Map::of(
            &links::find(&fold(Ports::with_bins(1), &map_lines()).finish()),
            "from then to now (UTC)",
        )
    }

    /// Counts an element with an XML parser.
    fn count(svg: &str, name: &str) -> usize {
        let mut reader = Reader::from_str(svg);
        let mut found = 0;
        loop {
            match reader.read_event().expect("well-formed") {
                Event::Start(start) | Event::Empty(start) => {
                    start
                        .attributes()
                        .for_each(|attribute| drop(attribute.expect("well-formed")));
                    found += usize::from(start.name().as_ref() == name);
                }
                Event::Eof => return found,
                _ => {}
            }
        }
    }

    /// Number of paths in the legend: three lines with teeth.
    const LEGEND: usize = 2 * 3;

    #[test]
    fn every_link_is_drawn_and_names_are_escaped() {
        for with_hosts in [false, true] {
            let svg = to_svg(&map(), with_hosts);
            assert_eq!(
                (count(&svg, "path"), count(&svg, "script")),
                (4 + 4 + LEGEND, 0),
                "all links between switches are blocked"
            );
            // The page, the links between switches, three switches, four hosts, the core's bars.
            assert_eq!(count(&svg, "title"), 1 + 4 + 3 + 4 + 4);
            assert!(svg.contains("&lt;/text&gt;&lt;script&gt;\\u{1b}"));
            assert!(!svg.contains(|c: char| c.is_control() && c != '\n'));
        }
    }

    #[test]
    fn links_have_colour_width_and_teeth_and_roots_have_a_label() {
        let svg = to_svg(&map(), false);
        for (used, width) in [(0.8, "3.3"), (0.6, "2.6")] {
            let color = scale::color(Some(used));
            let stroke = format!("stroke=\"{color}\" stroke-width=\"{width}\"/>");
            assert_eq!(
                svg.matches(&stroke).count(),
                2,
                "one of both links of each leaf"
            );
        }
        assert_eq!(
            svg.matches("stroke-width=\"8.3\" stroke-dasharray=\"4 4\"")
                .count(),
            2,
            "they are blocked"
        );
        let mut marked = map();
        let leaf = marked.switches[0].guid;
        marked.roots.extend(
            [1, 2].map(|host| (leaf, marked.switches[0].hosts[host - 1].ends[0].port.port)),
        );
        assert!(to_svg(&marked, false).contains(">root: 1, 2<") && !svg.contains(">root: 1"));
        assert_eq!(
            svg.matches("height=\"3\" fill=\"#f9a557\"").count(),
            4 + 4,
            "the links of all hosts and of the core are blocked"
        );
    }

    #[test]
    fn device_that_does_not_answer_has_a_cross_and_a_text() {
        let mut lines = map_lines();
        lines.extend([
            event(2, (1, 0), "unreachable", ""),
            event(2, (0x201, 1), "unreachable", ""),
        ]);
        let map = map().with_devices(&fold(Devices::default(), &lines));
        for with_hosts in [false, true] {
            let svg = to_svg(&map, with_hosts);
            assert_eq!(svg.matches(">no answer<").count(), 1);
            // The switch, its two bars in the box of the core, and the host.
            assert_eq!(count(&svg, "path"), 4 + 4 + LEGEND + 1 + 2 + 1);
            assert!(svg.contains("do not answer: "), "named below the title");
        }
    }

    #[test]
    fn hosts_of_a_job_are_outlined_and_the_rest_is_dimmed() {
        let of = |hosts: &str, title| {
            let trees = Trees::find(&BTreeMap::new(), &Devices::default(), Limits::default());
            let hosts = Hosts::parse(hosts).expect("a host list");
            to_svg(&map().with_job(&hosts, &trees, title), false)
        };
        let none = of("other", "other");
        // All bars, the three switches, and the links between them.
        assert_eq!(
            (
                none.matches("opacity=\"0.25\"").count(),
                none.matches("<title>").count()
            ),
            (4 + 4 + 3 + 4, 16)
        );
        let all = of("n", "job 7");
        assert_eq!(
            all.matches("opacity=\"0.25\"").count(),
            4 + 1,
            "the core and its bars"
        );
        assert_eq!(
            all.matches("stroke=\"#222222\" stroke-width=\"1\"").count(),
            4
        );
        assert!(all.contains(">Utilization of the links: job 7<"));
    }

    #[test]
    fn many_links_between_two_switches_are_one_line_with_their_number() {
        let mut map = map();
        let links = map.trunks.get_mut(&(0, 2)).expect("a trunk");
        *links = links.iter().cycle().take(CABLES.0 + 1).cloned().collect();
        let svg = to_svg(&map, false);
        assert_eq!(svg.matches("class=\"link\"").count(), 1 + 2);
        assert_eq!(svg.matches(">\u{d7}5<").count(), 1);
        let stroke = format!(
            "stroke=\"{}\" stroke-width=\"6.6\"/>",
            scale::color(Some(0.8))
        );
        assert!(svg.contains(&stroke), "the largest utilization: {svg}");
    }

    #[test]
    fn other_metric_has_its_own_range_and_legend() {
        let heat = HeatMap::new(vec!["xmit_blocked".parse().expect("a metric")], None);
        let grid = fold(heat, &map_lines())
            .finish(RowKind::Port)
            .expect("ports");
        let map = map().with_metric(&grid).with_range(Range::Largest);
        let svg = to_svg(&map, false);
        for text in [
            ">xmit_blocked (time blocked) on each link<",
            ">25 %<",
            ">Larger value of the two ends, mean of the time range<",
            ">Colours: 0 to the largest value (25 %).<",
            "xmit_blocked 25 %, 0.0 Gb/s",
        ] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        let last = scale::color(Some(1.0));
        assert_eq!(svg.matches(&format!("fill=\"{last}\"")).count(), 4 + 4);
    }

    #[test]
    fn link_shows_the_direction_with_the_larger_value() {
        let map = map();
        let values: Vec<_> = map.trunks[&(0, 2)]
            .iter()
            .map(|link| map.value(link))
            .collect();
        assert_eq!(values, [Some(0.6), Some(0.8)], "to the leaf switch");
        assert_eq!(map.value(&map.switches[0].hosts[0]), Some(0.5));
        let svg = to_svg(&map, false);
        let text = "mlx5_0 port 1: 0.0 Gb/s, 50.0 % used, peak 50.0 %, blocked 25.0 %";
        assert!(svg.contains(text), "{svg}");
    }
}
