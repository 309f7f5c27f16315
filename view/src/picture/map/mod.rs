//! Draws a map of the fabric as SVG. Switches are in rows by tier. The colour and the width of
//! a link show its utilization. Links of hosts are bars in the box of their switch, or boxes
//! below it.
//!
//! Blocked links have teeth, and roots of congestion have a label. Devices that do not answer
//! are crossed out. If a job is selected, its hosts are outlined and all other parts are
//! dimmed, so that no mark depends on its colour alone.

use std::cmp::Ordering;

use ibnet::drawing::canvas::{Canvas, FONT, px, shortened};
use ibnet::drawing::layout::Net;
use ibnet::drawing::sheet::{BOX, NAME, Sheet};
use ibnet_analysis::links::Link;
use ibnet_analysis::map::{Map, MapSwitch};
use ibnet_record::types::Guid;

use crate::text::{count, errors, percent};

mod scale;

use self::scale::{DOTS, INK, ROOT, blocked, color, width};

/// Height of the box of a host in pixels.
const HOST: f64 = 13.0;
/// Height of the bars in the box of a switch, and distance of their upper ends from the top of
/// the box.
const BARS: (f64, f64) = (10.5, 33.0);
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

/// Returns the largest utilization of the links, over both directions of each link.
fn utilization<'a>(links: impl IntoIterator<Item = &'a Link>) -> Option<f64> {
    links
        .into_iter()
        .flat_map(|link| &link.directions)
        .filter_map(|direction| direction.utilization)
        .reduce(f64::max)
}

/// Describes both directions of a link.
fn description(link: &Link) -> String {
    let line = |from: usize| {
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
            "{} \u{2192} {}: {gbps} Gb/s, {used} used, peak {peak}, blocked {blocked}",
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

struct Drawing<'a> {
    map: &'a Map,
    sheet: Sheet,
    /// Links of each switch to other switches, by port number.
    trunks: Vec<Vec<Cable<'a>>>,
    with_hosts: bool,
}

impl Drawing<'_> {
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
        scale::legend(&mut canvas, bottom, self.map.stat, self.map.job.is_some());
        canvas.close("svg");
        canvas.finish()
    }

    /// Writes the title, the time range, and the devices that do not answer.
    fn head(&self, canvas: &mut Canvas) {
        let at = |y: &'static str, size: &'static str| [("x", "24"), ("y", y), ("font-size", size)];
        let title = match &self.map.job {
            Some(job) => format!("Utilization of the links: {}", shortened(&job.title, 80)),
            None => "Utilization of the links".to_owned(),
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

    /// Draws the links between switches. Links of the job are on top, then blocked links, then the
    /// others by their utilization.
    fn links(&self, canvas: &mut Canvas) {
        let is_of_job =
            |ends: &(usize, usize)| self.map.is_of_job(ends.0) || self.map.is_of_job(ends.1);
        let is_blocked = |links: &[Link]| links.iter().any(|link| blocked(link).is_some());
        let mut trunks: Vec<_> = self
            .map
            .trunks
            .iter()
            .map(|(ends, links)| (utilization(links), ends, links))
            .collect();
        trunks.sort_by(|a, b| {
            let by_use = || a.0.partial_cmp(&b.0).unwrap_or(Ordering::Equal);
            is_of_job(a.1)
                .cmp(&is_of_job(b.1))
                .then(is_blocked(a.2).cmp(&is_blocked(b.2)))
                .then_with(by_use)
        });
        for (used, ends, links) in trunks {
            let (path, _) = self.sheet.path(*ends);
            let class = [("class", "link"), DIM];
            canvas.open("g", if is_of_job(ends) { &class[..1] } else { &class });
            let all: Vec<_> = links.iter().map(description).collect();
            canvas.text("title", &[], &all.join("\n"));
            let (color, thick) = (color(used), width(used));
            if let Some(mark) = links
                .iter()
                .max_by(|a, b| most_blocked(a).total_cmp(&most_blocked(b)))
                .and_then(blocked)
            {
                scale::teeth(canvas, &path, mark, thick);
            }
            let thick = format!("{thick:.1}");
            let line = [
                ("d", &*path),
                ("fill", "none"),
                ("stroke", &color),
                ("stroke-width", &thick),
                DOTS,
            ];
            canvas.empty("path", if used.is_some() { &line[..4] } else { &line });
            canvas.close("g");
        }
    }

    fn switch(&self, canvas: &mut Canvas, switch: &MapSwitch, index: usize) {
        let (x, y) = self.sheet.places[index];
        let is_dead = self.map.unreachable.contains(&switch.guid);
        let place = format!("translate({x:.0} {y:.0})");
        let group = [("class", "box"), ("transform", &*place), DIM];
        canvas.open(
            "g",
            if self.map.is_of_job(index) {
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
            let used = percent(utilization(cables.iter().map(|cable| cable.link)));
            let blocked = number(&mut cables.iter().map(|cable| cable.link));
            return format!(
                "{}, the busiest {used} used, {blocked} blocked",
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
            let used = utilization([cable.link]);
            let left = 1.0 + number as f64 * step;
            let (x, width) = (
                format!("{left:.1}"),
                format!("{:.1}", step - if step > 4.0 { 1.0 } else { 0.0 }),
            );
            let is_of_hosts = self.map.job.is_some()
                && cable.link.ends[0].port.guid != cable.link.ends[1].port.guid;
            let is_own = is_of_hosts && self.is_of_job(cable.peer());
            let class = [("class", "bar"), DIM];
            canvas.open(
                "g",
                if self.map.job.is_none() || is_own {
                    &class[..1]
                } else {
                    &class
                },
            );
            canvas.text("title", &[], &description(cable.link));
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
                let fill = color(used);
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
                if self.is_of_job(cable.peer()) {
                    &group[..2]
                } else {
                    &group
                },
            );
            canvas.text(
                "title",
                &[],
                &(description(link) + if is_dead { "\ndoes not answer" } else { "" }),
            );
            let used = utilization([link]);
            let (w, h, fill) = (
                px(half - 2.0),
                px(HOST - 2.0),
                if is_dead {
                    "#ffffff".to_owned()
                } else {
                    color(used)
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
            let ink = if !is_dead && used.unwrap_or(0.0) > 0.5 {
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

    use ibnet_analysis::devices::Devices;
    use ibnet_analysis::hosts::Hosts;
    use ibnet_analysis::links;
    use ibnet_analysis::ports::Ports;

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
        for (with_hosts, core) in [(false, 4), (true, 4)] {
            let svg = to_svg(&map(), with_hosts);
            assert_eq!(
                (count(&svg, "path"), count(&svg, "script")),
                (2 + 2 + LEGEND, 0),
                "both pairs of switches have blocked links"
            );
            // The page, two pairs of switches, three switches, four hosts, the links of the core.
            assert_eq!(count(&svg, "title"), 1 + 2 + 3 + 4 + core);
            assert!(svg.contains("&lt;/text&gt;&lt;script&gt;\\u{1b}"));
            assert!(!svg.contains(|c: char| c.is_control() && c != '\n'));
        }
    }

    #[test]
    fn links_have_colour_width_and_teeth_and_roots_have_a_label() {
        let svg = to_svg(&map(), false);
        let stroke = format!("stroke=\"{}\" stroke-width=\"6.6\"/>", color(Some(0.8)));
        assert_eq!(
            svg.matches(&stroke).count(),
            2 + 1,
            "both have a utilization of 80 %; the legend"
        );
        assert_eq!(
            svg.matches("stroke-width=\"11.6\" stroke-dasharray=\"4 4\"")
                .count(),
            2,
            "and a blocked link"
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
            assert_eq!(count(&svg, "path"), 2 + 2 + LEGEND + 1 + 2 + 1);
            assert!(svg.contains("do not answer: "), "named below the title");
        }
    }

    #[test]
    fn hosts_of_a_job_are_outlined_and_the_rest_is_dimmed() {
        let none = to_svg(
            &map().with_job(&Hosts::parse("other").expect("a host list"), "other"),
            false,
        );
        // All bars, the three switches, and both pairs of switches.
        assert_eq!(
            (
                none.matches("opacity=\"0.25\"").count(),
                none.matches("<title>").count()
            ),
            (4 + 4 + 3 + 2, 14)
        );
        let all = to_svg(
            &map().with_job(&Hosts::parse("n").expect("a host list"), "job 7"),
            false,
        );
        assert_eq!(
            all.matches("opacity=\"0.25\"").count(),
            4 + 1,
            "the core and its links"
        );
        assert_eq!(
            all.matches("stroke=\"#222222\" stroke-width=\"1\"").count(),
            4
        );
        assert!(all.contains(">Utilization of the links: job 7<"));
    }

    #[test]
    fn link_shows_the_larger_direction_of_the_busiest_cable() {
        let map = map();
        assert_eq!(
            utilization(&map.trunks[&(0, 2)]),
            Some(0.8),
            "4/5 on the second cable, to the leaf switch"
        );
        assert_eq!(utilization(&map.switches[0].hosts), Some(0.5));
        assert_eq!(utilization([]), None);
        let text = description(&map.switches[0].hosts[1]);
        assert!(text.contains("leaf1 port 2 \u{2192} n \"<\" mlx5_0 port 1: 0.0 Gb/s, 50.0 % used, peak 50.0 %, blocked 25.0 %"), "{text}");
    }
}
