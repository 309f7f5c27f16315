//! Draws a map of the fabric as SVG. Switches are in rows by tier. The colour and the width of a
//! link show its utilization. Hosts are a strip in the box of their switch, or boxes below it.

use ibnet::drawing::canvas::{Canvas, FONT, px, shortened};
use ibnet::drawing::layout::Net;
use ibnet::drawing::sheet::{BOX, MARGIN, NAME, Sheet};
use ibnet_analysis::links::Link;
use ibnet_analysis::map::{Map, MapSwitch};

use crate::text::percent;

/// Colours from 0 to full utilization: the sequential scheme YlOrBr of P. Tol, *Colour Schemes*
/// (SRON/EPS/TN/09-002), without its palest colours. The colours get darker monotonically, so
/// colour-blind readers and readers of grey prints can distinguish them.
const COLORS: [[u8; 3]; 8] = [
    [0xfe, 0xe3, 0x91],
    [0xfe, 0xc4, 0x4f],
    [0xfb, 0x9a, 0x29],
    [0xec, 0x70, 0x14],
    [0xcc, 0x4c, 0x02],
    [0xa8, 0x3c, 0x03],
    [0x85, 0x2f, 0x05],
    [0x66, 0x25, 0x06],
];

/// Colour of an unknown utilization.
const UNKNOWN: &str = "#bbbbbb";
/// Colour of waiting ports and of roots.
const RED: &str = "#cc0000";
/// A port that is blocked for more than this share of the time is marked, 0 to 1.
const WAITS: f64 = 0.1;
/// Height of the box of a host in pixels.
const HOST: f64 = 13.0;

/// Returns the colour of a utilization.
fn color(used: Option<f64>) -> String {
    let Some(used) = used else { return UNKNOWN.to_owned() };
    let at = used.clamp(0.0, 1.0) * (COLORS.len() - 1) as f64;
    let (low, part) = ((at as usize).min(COLORS.len() - 2), at - (at as usize).min(COLORS.len() - 2) as f64);
    let mix = |channel: usize| {
        let (a, b) = (f64::from(COLORS[low][channel]), f64::from(COLORS[low + 1][channel]));
        (a + (b - a) * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// Returns the width of a line in pixels.
fn width(used: Option<f64>) -> f64 {
    1.0 + 7.0 * used.unwrap_or(0.0).clamp(0.0, 1.0)
}

/// Draws the map and returns the SVG. Each host gets its own box, or a bar in the box of its
/// switch.
pub fn to_svg(map: &Map, with_hosts: bool) -> String {
    let most = map.switches.iter().map(|switch| switch.hosts.len()).max().unwrap_or(0);
    // Two hosts are side by side below their switch.
    let below = if with_hosts { most.div_ceil(2) as f64 * HOST + 6.0 } else { 0.0 };
    let switches = map.switches.iter().map(|switch| (&*switch.name, switch.tier)).collect();
    let net = Net { switches, links: map.trunks.keys().copied().collect() };
    Drawing { map, sheet: Sheet::with_space_below(&net, below), with_hosts, below }.draw()
}

/// Returns the largest utilization of the links and their directions.
fn utilization<'a>(links: impl IntoIterator<Item = &'a Link>) -> Option<f64> {
    links.into_iter().flat_map(|link| &link.directions).filter_map(|direction| direction.utilization).reduce(f64::max)
}

/// Describes both directions of a link.
fn description(link: &Link) -> String {
    let line = |from: usize| {
        let direction = &link.directions[from];
        let gbps = direction.gbps.map_or_else(|| "-".to_owned(), |gbps| format!("{gbps:.1}"));
        let (used, peak, blocked) = (percent(direction.utilization), percent(direction.peak), percent(direction.blocked));
        format!("{} \u{2192} {}: {gbps} Gb/s, {used} used, peak {peak}, blocked {blocked}", link.ends[from], link.ends[1 - from])
    };
    let errors = if link.errors > 0 { format!("\nerrors: {}", link.errors) } else { String::new() };
    format!("{}\n{}\n{}{errors}", link.rate, line(0), line(1))
}

fn summary(map: &Map) -> String {
    let hosts: usize = map.switches.iter().map(|switch| switch.hosts.len()).sum();
    let links: usize = map.trunks.values().map(Vec::len).sum();
    format!("{} switches with {links} links between them, {hosts} host ports; {}", map.switches.len(), map.when)
}

struct Drawing<'a> {
    map: &'a Map,
    sheet: Sheet,
    with_hosts: bool,
    below: f64,
}

impl Drawing<'_> {
    fn draw(&self) -> String {
        let mut canvas = Canvas::new();
        let bottom = self.sheet.bottom() + self.below + 36.0;
        let (width, height) = (self.sheet.width(980.0), bottom + 80.0);
        let (w, h) = (px(width), px(height));
        let view = format!("0 0 {w} {h}");
        canvas.open("svg", &[("xmlns", "http://www.w3.org/2000/svg"), ("viewBox", &view), ("width", &w), ("height", &h), ("style", FONT)]);
        canvas.text("title", &[], &summary(self.map));
        canvas.text("style", &[], ".link:hover path{stroke:#06c}.box:hover rect{stroke:#06c;stroke-width:2.5}");
        canvas.empty("rect", &[("width", "100%"), ("height", "100%"), ("fill", "#ffffff")]);
        let at = |y: &'static str, size: &'static str| [("x", "24"), ("y", y), ("font-size", size)];
        canvas.text("text", &[&at("30", "18")[..], &[("font-weight", "bold")]].concat(), "Utilization of the links");
        canvas.text("text", &at("50", "12"), &summary(self.map));
        self.sheet.rows(&mut canvas, width);
        self.trunks(&mut canvas);
        for (index, switch) in self.map.switches.iter().enumerate() {
            self.switch(&mut canvas, switch, index);
        }
        legend(&mut canvas, bottom);
        canvas.close("svg");
        canvas.finish()
    }

    /// Draws the links between switches. Waiting links are on top, then those with the largest
    /// utilization.
    fn trunks(&self, canvas: &mut Canvas) {
        let mut trunks: Vec<_> = self.map.trunks.iter().map(|(ends, links)| (utilization(links), ends, links)).collect();
        trunks.sort_by(|a, b| a.2.iter().any(waits).cmp(&b.2.iter().any(waits)).then(a.0.unwrap_or(-1.0).total_cmp(&b.0.unwrap_or(-1.0))));
        for (used, ends, links) in trunks {
            let (path, _) = self.sheet.path(*ends);
            canvas.open("g", &[("class", "link")]);
            let all: Vec<_> = links.iter().map(description).collect();
            canvas.text("title", &[], &all.join("\n"));
            let (color, width) = (color(used), format!("{:.1}", width(used)));
            let opacity = if used.unwrap_or(0.0) < 0.1 { "0.6" } else { "0.95" };
            canvas.empty(
                "path",
                &[("d", &path), ("fill", "none"), ("stroke", &color), ("stroke-width", &width), ("stroke-opacity", opacity)],
            );
            if links.iter().any(waits) {
                let dashes = [("fill", "none"), ("stroke", RED), ("stroke-width", "1.2"), ("stroke-dasharray", "6 5")];
                canvas.empty("path", &[&[("d", &*path)][..], &dashes].concat());
            }
            canvas.close("g");
        }
    }

    fn switch(&self, canvas: &mut Canvas, switch: &MapSwitch, index: usize) {
        let (x, y) = self.sheet.places[index];
        canvas.open("g", &[("class", "box"), ("transform", &format!("translate({x:.0} {y:.0})"))]);
        canvas.text("title", &[], &format!("{} {}\n{}", switch.name, switch.guid, hosts_summary(switch)));
        let (w, h) = (px(BOX.0), px(BOX.1));
        canvas.empty("rect", &[("width", &w), ("height", &h), ("rx", "4"), ("fill", "#ffffff"), ("stroke", "#333333")]);
        canvas.text("text", &[("x", "5"), ("y", "14"), ("font-size", "11"), ("font-weight", "bold")], &self.sheet.labels[index]);
        if !switch.hosts.is_empty() {
            let text = format!("{} host ports", switch.hosts.len());
            canvas.text("text", &[("x", "5"), ("y", "26"), ("font-size", "9")], &text);
            if !self.with_hosts {
                strip(canvas, switch);
            }
        }
        for (number, root) in self.map.roots.iter().filter(|root| root.0 == switch.guid).enumerate() {
            let x = BOX.0 - 52.0 * (number + 1) as f64;
            canvas.empty("rect", &[("x", &px(x)), ("y", "-8"), ("width", "50"), ("height", "14"), ("rx", "7"), ("fill", RED)]);
            let at = [("x", &*px(x + 25.0)), ("y", "3"), ("font-size", "10"), ("fill", "#ffffff"), ("text-anchor", "middle")];
            canvas.text("text", &at, &format!("root: {}", root.1));
        }
        canvas.close("g");
        if self.with_hosts {
            self.hosts(canvas, switch, (x, y + BOX.1 + 3.0));
        }
    }

    /// Draws a small box for each host, two side by side.
    fn hosts(&self, canvas: &mut Canvas, switch: &MapSwitch, (x, y): (f64, f64)) {
        let half = BOX.0 / 2.0;
        for (number, link) in by_port(switch).into_iter().enumerate() {
            let (x, y) = (x + (number % 2) as f64 * half, y + (number / 2) as f64 * HOST);
            canvas.open("g", &[("class", "box"), ("transform", &format!("translate({x:.0} {y:.0})"))]);
            canvas.text("title", &[], &description(link));
            let (w, h, fill) = (px(half - 2.0), px(HOST - 2.0), color(utilization([link])));
            let (stroke, thick) = if waits(link) { (RED, "1.6") } else { ("#999999", "0.6") };
            canvas.empty("rect", &[("width", &w), ("height", &h), ("fill", &fill), ("stroke", stroke), ("stroke-width", thick)]);
            let ink = if utilization([link]).unwrap_or(0.0) > 0.45 { "#ffffff" } else { "#000000" };
            let name = link.ends[1].port.node.split_whitespace().next().unwrap_or("");
            canvas.text("text", &[("x", "3"), ("y", "8.5"), ("font-size", "8"), ("fill", ink)], &shortened(name, NAME - 2));
            canvas.close("g");
        }
    }
}

/// Draws a bar for each host port at the bottom of the box of its switch, by port number. A waiting
/// link has a red mark above its bar.
fn strip(canvas: &mut Canvas, switch: &MapSwitch) {
    let bar = BOX.0 / switch.hosts.len() as f64;
    for (number, link) in by_port(switch).into_iter().enumerate() {
        let used = utilization([link]);
        let (x, width, fill) = (format!("{:.1}", number as f64 * bar), format!("{:.1}", bar.min(12.0)), color(used));
        canvas.open("g", &[("class", "bar")]);
        canvas.text("title", &[], &description(link));
        canvas.empty("rect", &[("x", &x), ("y", "33"), ("width", &width), ("height", "10.5"), ("fill", &fill)]);
        if waits(link) {
            canvas.empty("rect", &[("x", &x), ("y", "29"), ("width", &width), ("height", "3"), ("fill", RED)]);
        }
        canvas.close("g");
    }
}

fn by_port(switch: &MapSwitch) -> Vec<&Link> {
    let mut links: Vec<&Link> = switch.hosts.iter().collect();
    links.sort_by_key(|link| (link.ends[0].port.guid, link.ends[0].port.port));
    links
}

/// Returns whether either end of a link is blocked for more than [`WAITS`].
fn waits(link: &Link) -> bool {
    link.directions.iter().any(|direction| direction.blocked.is_some_and(|blocked| blocked > WAITS))
}

/// Describes the hosts of a switch.
fn hosts_summary(switch: &MapSwitch) -> String {
    let sum = |from: usize| switch.hosts.iter().filter_map(|link| link.directions[from].gbps).sum::<f64>();
    let waiting = switch.hosts.iter().filter(|link| waits(link)).count();
    format!("{} host ports: {:.1} Gb/s to them, {:.1} Gb/s from them, {waiting} waiting", switch.hosts.len(), sum(0), sum(1))
}

fn legend(canvas: &mut Canvas, top: f64) {
    const STEPS: usize = 11;
    const STEP: f64 = 46.0;
    for step in 0..STEPS {
        let used = step as f64 / (STEPS - 1) as f64;
        let (x, middle) = (MARGIN + step as f64 * STEP, px(top + 8.0));
        let (stroke, thick) = (color(Some(used)), format!("{:.1}", width(Some(used))));
        let (from, to) = (px(x), px(x + STEP - 4.0));
        canvas
            .empty("line", &[("x1", &from), ("x2", &to), ("y1", &middle), ("y2", &middle), ("stroke", &stroke), ("stroke-width", &thick)]);
        canvas.text("text", &[("x", &from), ("y", &px(top + 26.0)), ("font-size", "10")], &format!("{:.0} %", 100.0 * used));
    }
    let x = px(MARGIN + STEPS as f64 * STEP + 6.0);
    canvas.text("text", &[("x", &x), ("y", &px(top + 12.0)), ("font-size", "11")], "utilization: mean of the direction with more traffic");
    let notes = [
        "Between two switches: the link with the largest utilization. Strip in a box: the links of its hosts by port number. Grey: unknown.",
        "Red: an end of the link was blocked for more than 10 % of the time. \"root\" and a port: congestion begins at this port. Hover for details.",
    ];
    for (text, y) in notes.iter().zip([top + 46.0, top + 62.0]) {
        canvas.text("text", &[("x", &px(MARGIN)), ("y", &px(y)), ("font-size", "11"), ("fill", "#444444")], text);
    }
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;
    use quick_xml::events::Event;

    use ibnet_analysis::links;
    use ibnet_analysis::ports::Ports;

    use super::*;
    use crate::fixtures::{fold, map_lines};

    fn map() -> Map {
        Map::of(&links::find(&fold(Ports::with_bins(1), &map_lines()).finish()), "from then to now (UTC)")
    }

    /// Counts an element with an XML parser.
    fn count(svg: &str, name: &str) -> usize {
        let mut reader = Reader::from_str(svg);
        let mut found = 0;
        loop {
            match reader.read_event().expect("well-formed") {
                Event::Start(start) | Event::Empty(start) => {
                    start.attributes().for_each(|attribute| drop(attribute.expect("well-formed")));
                    found += usize::from(start.name().as_ref() == name);
                }
                Event::Eof => return found,
                _ => {}
            }
        }
    }

    #[test]
    fn every_link_is_drawn_and_names_are_escaped() {
        for with_hosts in [false, true] {
            let svg = to_svg(&map(), with_hosts);
            assert_eq!((count(&svg, "path"), count(&svg, "script")), (2 + 2, 0), "both pairs of switches have waiting links");
            // The page, two pairs of switches, three switches, four hosts.
            assert_eq!(count(&svg, "title"), 1 + 2 + 3 + 4);
            assert!(svg.contains("&lt;/text&gt;&lt;script&gt;\\u{1b}"));
            assert!(!svg.contains(|c: char| c.is_control() && c != '\n'));
        }
    }

    #[test]
    fn colour_and_width_follow_the_utilization() {
        assert_eq!(
            (color(None), color(Some(0.0)), color(Some(1.0)), color(Some(1.7))),
            (UNKNOWN.into(), "#fee391".into(), "#662506".into(), "#662506".into())
        );
        assert_eq!([None, Some(0.0), Some(0.5), Some(2.0)].map(width), [1.0, 1.0, 4.5, 8.0]);
        let svg = to_svg(&map(), false);
        let stroke = format!("stroke=\"{}\" stroke-width=\"6.6\" stroke-opacity", color(Some(0.8)));
        assert_eq!(svg.matches(&stroke).count(), 2, "both have a utilization of 80 %");
        assert_eq!(svg.matches("stroke-dasharray").count(), 2, "and a waiting link");
        let mut marked = map();
        marked.roots.push((marked.switches[0].guid, marked.switches[0].hosts[1].ends[0].port.port));
        assert!(to_svg(&marked, false).contains(">root: 2<") && !svg.contains(">root: 2<"));
        assert_eq!(svg.matches("height=\"3\" fill=\"#cc0000\"").count(), 4, "the links of all hosts wait");
    }

    #[test]
    fn link_shows_the_larger_direction_of_the_busiest_cable() {
        let map = map();
        assert_eq!(utilization(&map.trunks[&(0, 2)]), Some(0.8), "4/5 on the second cable, to the leaf switch");
        assert_eq!(utilization(&map.switches[0].hosts), Some(0.5));
        assert_eq!(utilization([]), None);
        let text = description(&map.switches[0].hosts[1]);
        assert!(text.contains("leaf1 port 2 \u{2192} n \"<\" mlx5_0 port 1: 0.0 Gb/s, 50.0 % used, peak 50.0 %, blocked 25.0 %"), "{text}");
    }
}
