//! The map as SVG.

use super::super::links::Link;
use super::{Map, Switch, most_used, told};
use ibnet::drawing::canvas::{Canvas, FONT, px, shortened};
use ibnet::drawing::sheet::{BOX, MARGIN, NAME, Sheet};

/// Colours from nothing to full, ascending also in darkness, so that they are told apart in grey and with any kind of colour vision: the sequential
/// scheme YlOrBr of P. Tol, *Colour Schemes* (SRON/EPS/TN/09-002), without its palest.
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

/// Where nothing is known.
const UNKNOWN: &str = "#bbbbbb";
/// Of what waits, and of roots.
const RED: &str = "#cc0000";
/// A port that waits for more than this share of the time is marked.
const WAITS: f64 = 0.1;
/// Height of a host's box below its switch.
const HOST: f64 = 13.0;

/// The color of a share.
fn color(used: Option<f64>) -> String {
    let Some(used) = used else { return UNKNOWN.to_owned() };
    let at = used.clamp(0.0, 1.0) * (COLORS.len() - 1) as f64;
    let (low, part) = ((at as usize).min(COLORS.len() - 2), at - (at as usize).min(COLORS.len() - 2) as f64);
    let mix = |place: usize| {
        let (a, b) = (f64::from(COLORS[low][place]), f64::from(COLORS[low + 1][place]));
        (a + (b - a) * part).round() as u8
    };
    format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2))
}

/// The width of a line.
fn width(used: Option<f64>) -> f64 {
    1.0 + 7.0 * used.unwrap_or(0.0).clamp(0.0, 1.0)
}

impl Map {
    /// The text of a `.svg` file; with each host by itself, or folded into its switch.
    pub fn to_svg(&self, with_hosts: bool) -> String {
        let most = self.switches.iter().map(|switch| switch.hosts.len()).max().unwrap_or(0);
        // Hosts stand two abreast below their switch.
        let below = if with_hosts { most.div_ceil(2) as f64 * HOST + 6.0 } else { 0.0 };
        Drawing { map: self, sheet: Sheet::with_room_below(&self.net(), below), with_hosts, below }.draw()
    }

    fn summary(&self) -> String {
        let hosts: usize = self.switches.iter().map(|switch| switch.hosts.len()).sum();
        let cables: usize = self.trunks.values().map(Vec::len).sum();
        format!("{} switches with {cables} links between them, {hosts} host ports; {}", self.switches.len(), self.when)
    }
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
        canvas.text("title", &[], &self.map.summary());
        canvas.text("style", &[], ".link:hover path{stroke:#06c}.box:hover rect{stroke:#06c;stroke-width:2.5}");
        canvas.empty("rect", &[("width", "100%"), ("height", "100%"), ("fill", "#ffffff")]);
        let at = |y: &'static str, size: &'static str| [("x", "24"), ("y", y), ("font-size", size)];
        canvas.text("text", &[&at("30", "18")[..], &[("font-weight", "bold")]].concat(), "How much of each link is used");
        canvas.text("text", &at("50", "12"), &self.map.summary());
        self.sheet.rows(&mut canvas, width);
        self.trunks(&mut canvas);
        for (place, switch) in self.map.switches.iter().enumerate() {
            self.switch(&mut canvas, switch, place);
        }
        legend(&mut canvas, bottom);
        canvas.close("svg");
        canvas.finish()
    }

    /// Links between switches; those that wait last, and among equals the fullest, and so on top.
    fn trunks(&self, canvas: &mut Canvas) {
        let mut trunks: Vec<_> = self.map.trunks.iter().map(|(ends, cables)| (most_used(cables), ends, cables)).collect();
        trunks.sort_by(|a, b| a.2.iter().any(waits).cmp(&b.2.iter().any(waits)).then(a.0.unwrap_or(-1.0).total_cmp(&b.0.unwrap_or(-1.0))));
        for (used, ends, cables) in trunks {
            let (path, _) = self.sheet.path(*ends);
            canvas.open("g", &[("class", "link")]);
            let all: Vec<_> = cables.iter().map(told).collect();
            canvas.text("title", &[], &all.join("\n"));
            let (color, width) = (color(used), format!("{:.1}", width(used)));
            let opacity = if used.unwrap_or(0.0) < 0.1 { "0.6" } else { "0.95" };
            canvas.empty(
                "path",
                &[("d", &path), ("fill", "none"), ("stroke", &color), ("stroke-width", &width), ("stroke-opacity", opacity)],
            );
            if cables.iter().any(waits) {
                let dashes = [("fill", "none"), ("stroke", RED), ("stroke-width", "1.2"), ("stroke-dasharray", "6 5")];
                canvas.empty("path", &[&[("d", &*path)][..], &dashes].concat());
            }
            canvas.close("g");
        }
    }

    fn switch(&self, canvas: &mut Canvas, switch: &Switch, place: usize) {
        let (x, y) = self.sheet.places[place];
        canvas.open("g", &[("class", "box"), ("transform", &format!("translate({x:.0} {y:.0})"))]);
        canvas.text("title", &[], &format!("{} {}\n{}", switch.name, switch.guid, folded(switch)));
        let (w, h) = (px(BOX.0), px(BOX.1));
        canvas.empty("rect", &[("width", &w), ("height", &h), ("rx", "4"), ("fill", "#ffffff"), ("stroke", "#333333")]);
        canvas.text("text", &[("x", "5"), ("y", "14"), ("font-size", "11"), ("font-weight", "bold")], &self.sheet.labels[place]);
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

    /// A small box for each host, two abreast.
    fn hosts(&self, canvas: &mut Canvas, switch: &Switch, (x, y): (f64, f64)) {
        let half = BOX.0 / 2.0;
        for (number, link) in by_port(switch).into_iter().enumerate() {
            let (x, y) = (x + (number % 2) as f64 * half, y + (number / 2) as f64 * HOST);
            canvas.open("g", &[("class", "box"), ("transform", &format!("translate({x:.0} {y:.0})"))]);
            canvas.text("title", &[], &told(link));
            let (w, h, fill) = (px(half - 2.0), px(HOST - 2.0), color(most_used([link])));
            let (stroke, thick) = if waits(link) { (RED, "1.6") } else { ("#999999", "0.6") };
            canvas.empty("rect", &[("width", &w), ("height", &h), ("fill", &fill), ("stroke", stroke), ("stroke-width", thick)]);
            let ink = if most_used([link]).unwrap_or(0.0) > 0.45 { "#ffffff" } else { "#000000" };
            let name = link.ends[1].name.split_whitespace().next().unwrap_or("");
            canvas.text("text", &[("x", "3"), ("y", "8.5"), ("font-size", "8"), ("fill", ink)], &shortened(name, NAME - 2));
            canvas.close("g");
        }
    }
}

/// At the foot of a switch's box: a bar for each host port, in the order of the ports; those that wait have a mark above.
fn strip(canvas: &mut Canvas, switch: &Switch) {
    let bar = BOX.0 / switch.hosts.len() as f64;
    for (number, link) in by_port(switch).into_iter().enumerate() {
        let used = most_used([link]);
        let (x, width, fill) = (format!("{:.1}", number as f64 * bar), format!("{:.1}", bar.min(12.0)), color(used));
        canvas.open("g", &[("class", "bar")]);
        canvas.text("title", &[], &told(link));
        canvas.empty("rect", &[("x", &x), ("y", "33"), ("width", &width), ("height", "10.5"), ("fill", &fill)]);
        if waits(link) {
            canvas.empty("rect", &[("x", &x), ("y", "29"), ("width", &width), ("height", "3"), ("fill", RED)]);
        }
        canvas.close("g");
    }
}

fn by_port(switch: &Switch) -> Vec<&Link> {
    let mut links: Vec<&Link> = switch.hosts.iter().collect();
    links.sort_by_key(|link| link.ends[0].key);
    links
}

/// Whether either end of a link waits.
fn waits(link: &Link) -> bool {
    link.ways.iter().any(|way| way.blocked.is_some_and(|blocked| blocked > WAITS))
}

/// The hosts of a switch, summed up.
fn folded(switch: &Switch) -> String {
    let sum = |from: usize| switch.hosts.iter().filter_map(|link| link.ways[from].gbps).sum::<f64>();
    let waiting = switch.hosts.iter().filter(|link| waits(link)).count();
    format!("{} host ports: {:.1} Gb/s to them, {:.1} Gb/s from them, {waiting} wait", switch.hosts.len(), sum(0), sum(1))
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
    canvas.text(
        "text",
        &[("x", &x), ("y", &px(top + 12.0)), ("font-size", "11")],
        "of what the link carries, the mean of the greater direction",
    );
    let key = [
        "Between two switches: the fullest of the cables. Strip at a box's foot: its hosts' links by port, likewise coloured; grey: nothing is known.",
        "Red: an end of that link waited for more than 10 % of the time; \"root\" and a port: there congestion begins. Pointing at anything tells more.",
    ];
    for (text, y) in key.iter().zip([top + 46.0, top + 62.0]) {
        canvas.text("text", &[("x", &px(MARGIN)), ("y", &px(y)), ("font-size", "11"), ("fill", "#444444")], text);
    }
}

#[cfg(test)]
mod tests {
    use quick_xml::Reader;
    use quick_xml::events::Event;

    use super::super::tests::map;
    use super::*;

    /// How often an element occurs, as a reader of XML sees it.
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
    fn every_link_is_drawn_and_no_name_is_markup() {
        for with_hosts in [false, true] {
            let svg = map().to_svg(with_hosts);
            assert_eq!((count(&svg, "path"), count(&svg, "script")), (2 + 2, 0), "both trunks wait");
            // The page, two trunks, three switches, four hosts.
            assert_eq!(count(&svg, "title"), 1 + 2 + 3 + 4);
            assert!(svg.contains("&lt;/text&gt;&lt;script&gt;\\u{1b}"));
            assert!(!svg.contains(|c: char| c.is_control() && c != '\n'));
        }
    }

    #[test]
    fn colour_and_width_follow_what_is_used() {
        assert_eq!(
            (color(None), color(Some(0.0)), color(Some(1.0)), color(Some(1.7))),
            (UNKNOWN.into(), "#fee391".into(), "#662506".into(), "#662506".into())
        );
        assert_eq!([None, Some(0.0), Some(0.5), Some(2.0)].map(width), [1.0, 1.0, 4.5, 8.0]);
        let svg = map().to_svg(false);
        let stroke = format!("stroke=\"{}\" stroke-width=\"6.6\" stroke-opacity", color(Some(0.8)));
        assert_eq!(svg.matches(&stroke).count(), 2, "both trunks are used to 80 %");
        assert_eq!(svg.matches("stroke-dasharray").count(), 2, "and wait");
        let mut marked = map();
        marked.roots.push(marked.switches[0].hosts[1].ends[0].key);
        assert!(marked.to_svg(false).contains(">root: 2<") && !svg.contains(">root: 2<"));
        assert_eq!(svg.matches("height=\"3\" fill=\"#cc0000\"").count(), 4, "all hosts' links wait");
    }
}
