//! The picture as SVG: read by any browser, no script, no font of its own, nothing fetched.
//!
//! All texts go through the writer's escaping, and through [`Printable`] before it: XML has no room for control characters.

use quick_xml::Writer;
use quick_xml::events::{BytesEnd, BytesStart, BytesText, Event};

use super::layout::Layout;
use super::{MOST_COUNTS, Picture, Switch, fill, stroke};
use crate::types::Printable;

/// Width and height of a switch's box, in pixels as all here.
const BOX: (f64, f64) = (120.0, 44.0);
/// Between boxes of a line.
const GAP: f64 = 10.0;
/// Between lines of a row; the second if there are links within the row.
const LINE_GAP: (f64, f64) = (14.0, 50.0);
/// Between rows, by the columns of the widest line: room for the links, so that they do not lie too flat.
const ROW_GAP: (f64, f64) = (80.0, 5.0);
const MARGIN: f64 = 24.0;
/// Room for the rows' titles.
const TITLES: f64 = 96.0;
/// From the top to the first row.
const HEAD: f64 = 78.0;
/// How far a line between two boxes side by side rises above them at most.
const HIGHEST_BOW: f64 = 60.0;
/// Characters of a name that find room in a box.
const NAME: usize = 13;
/// Width and height of an entry of the legend.
const ENTRY: (f64, f64) = (250.0, 20.0);
const FONT: &str = "font-family:'DejaVu Sans',Verdana,Arial,sans-serif";

impl Picture {
    /// The text of a `.svg` file.
    pub fn to_svg(&self) -> String {
        let layout = Layout::of(self);
        Drawing { picture: self, places: places(self, &layout), labels: labels(self), layout: &layout }.draw()
    }
}

/// The left upper corner of each switch's box.
fn places(picture: &Picture, layout: &Layout) -> Vec<(f64, f64)> {
    let mut places = vec![(0.0, 0.0); picture.switches.len()];
    let within = |line: &[usize]| picture.links.keys().any(|(one, other)| line.contains(one) && line.contains(other));
    let mut y = HEAD;
    for row in &layout.rows {
        // Links within a row rise above its boxes.
        let bows = row.lines.len() > 1 && within(&row.lines.concat());
        for line in &row.lines {
            y += if within(line) { HIGHEST_BOW } else { 0.0 };
            let indent = (layout.columns - line.len()) as f64 / 2.0;
            for (column, switch) in line.iter().enumerate() {
                places[*switch] = (MARGIN + TITLES + (indent + column as f64) * (BOX.0 + GAP), y);
            }
            y += BOX.1 + if bows { LINE_GAP.1 } else { LINE_GAP.0 };
        }
        y += ROW_GAP.0 + ROW_GAP.1 * layout.columns as f64 - LINE_GAP.0;
    }
    places
}

struct Drawing<'a> {
    picture: &'a Picture,
    layout: &'a Layout,
    places: Vec<(f64, f64)>,
    labels: Vec<String>,
}

impl Drawing<'_> {
    fn draw(&self) -> String {
        let mut canvas = Canvas::new();
        let bottom = self.places.iter().map(|(_, y)| y + BOX.1).fold(HEAD, f64::max) + 36.0;
        let width = (2.0 * MARGIN + TITLES + self.layout.columns as f64 * (BOX.0 + GAP)).max(980.0);
        let across = ((width - 2.0 * MARGIN) / ENTRY.0).floor().max(1.0) as usize;
        let height = bottom + 44.0 + self.picture.samplers.len().div_ceil(across) as f64 * ENTRY.1 + MARGIN;
        canvas.open(
            "svg",
            &[
                ("xmlns", "http://www.w3.org/2000/svg"),
                ("viewBox", &format!("0 0 {width:.0} {height:.0}")),
                ("width", &format!("{width:.0}")),
                ("height", &format!("{height:.0}")),
                ("style", FONT),
            ],
        );
        canvas.text("title", &[], &self.picture.summary());
        canvas.text("style", &[], ".link:hover path{stroke:#000;stroke-opacity:1}.switch:hover rect{stroke-width:2.5}");
        canvas.empty("rect", &[("width", "100%"), ("height", "100%"), ("fill", "#ffffff")]);
        self.heading(&mut canvas);
        self.rows(&mut canvas, width);
        self.links(&mut canvas);
        for (number, switch) in self.picture.switches.iter().enumerate() {
            self.switch(&mut canvas, switch, &self.labels[number], self.places[number]);
        }
        self.legend(&mut canvas, bottom, across);
        canvas.close("svg");
        canvas.finish()
    }

    fn heading(&self, canvas: &mut Canvas) {
        let at = |y: &'static str, size: &'static str| [("x", "24"), ("y", y), ("font-size", size)];
        canvas.text("text", &[&at("30", "18")[..], &[("font-weight", "bold")]].concat(), "Who samples what");
        canvas.text("text", &at("50", "12"), &self.picture.summary());
    }

    /// A band behind each row, with its title.
    fn rows(&self, canvas: &mut Canvas, width: f64) {
        const AROUND: f64 = 12.0;
        for row in &self.layout.rows {
            let ys = row.lines.iter().flatten().map(|switch| self.places[*switch].1);
            let (top, low) = ys.fold((f64::MAX, 0.0_f64), |(top, low), y| (top.min(y), low.max(y)));
            let (y, height) = (px(top - AROUND), px(low - top + BOX.1 + 2.0 * AROUND));
            canvas.empty("rect", &[("x", "0"), ("y", &y), ("width", &px(width)), ("height", &height), ("fill", "#f3f3f3")]);
            let x = px(MARGIN);
            canvas.text("text", &[("x", &x), ("y", &px(top + 18.0)), ("font-size", "13"), ("font-weight", "bold")], &row.title);
            let count = row.lines.iter().map(Vec::len).sum::<usize>();
            let count = if count == 1 { "1 switch".to_owned() } else { format!("{count} switches") };
            canvas.text("text", &[("x", &x), ("y", &px(top + 34.0)), ("font-size", "11"), ("fill", "#444444")], &count);
        }
    }

    fn links(&self, canvas: &mut Canvas) {
        let with_counts = self.picture.links.len() <= MOST_COUNTS;
        // Many lines are faint, so that what lies behind each other still shows.
        let opacity = format!("{:.2}", (30.0 / self.picture.links.len().max(1) as f64).sqrt().clamp(0.25, 0.8));
        // Those within one sampler come last, and so on top.
        let within =
            |ends: &(usize, usize)| self.picture.switches[ends.0].sampler.filter(|own| self.picture.switches[ends.1].sampler == Some(*own));
        let (own, others): (Vec<_>, Vec<_>) = self.picture.links.iter().partition(|(ends, _)| within(ends).is_some());
        for (ends, cables) in others.into_iter().chain(own) {
            let (one, other) = (&self.picture.switches[ends.0], &self.picture.switches[ends.1]);
            let color = within(ends).map_or_else(|| "#888888".to_owned(), stroke);
            let opacity = if within(ends).is_some() { "0.9" } else { &opacity };
            let width = format!("{:.1}", (*cables as f64).sqrt());
            let (path, middle) = self.path(*ends);
            canvas.open("g", &[("class", "link")]);
            let cables_told = if *cables == 1 { "1 cable".to_owned() } else { format!("{cables} cables") };
            canvas.text("title", &[], &format!("{} \u{2013} {}: {cables_told}", one.name, other.name));
            canvas.empty(
                "path",
                &[("d", &path), ("fill", "none"), ("stroke", &color), ("stroke-width", &width), ("stroke-opacity", opacity)],
            );
            if with_counts && *cables > 1 {
                let at = [("x", &*px(middle.0)), ("y", &*px(middle.1)), ("font-size", "10"), ("text-anchor", "middle")];
                let halo = [("fill", "#333333"), ("stroke", "#ffffff"), ("stroke-width", "3"), ("paint-order", "stroke")];
                canvas.text("text", &[&at[..], &halo[..]].concat(), &cables.to_string());
            }
            canvas.close("g");
        }
    }

    /// The line between two switches, and where its count stands: a curve from row to row, a bow within a line.
    fn path(&self, (one, other): (usize, usize)) -> (String, (f64, f64)) {
        let ((ax, ay), (bx, by)) = (self.places[one], self.places[other]);
        let (a, b) = (ax + BOX.0 / 2.0, bx + BOX.0 / 2.0);
        if ay == by {
            let rise = (12.0 + (a - b).abs() * 0.12).min(HIGHEST_BOW);
            let path = format!("M{a:.0} {ay:.0}C{a:.0} {y:.0} {b:.0} {y:.0} {b:.0} {by:.0}", y = ay - rise);
            return (path, ((a + b) / 2.0, ay - rise * 0.75));
        }
        let ((top_x, top_y), (low_x, low_y)) = if ay < by { ((a, ay + BOX.1), (b, by)) } else { ((b, by + BOX.1), (a, ay)) };
        let (upper, lower) = (top_y + (low_y - top_y) * 0.3, top_y + (low_y - top_y) * 0.7);
        let path = format!("M{top_x:.0} {top_y:.0}C{top_x:.0} {upper:.0} {low_x:.0} {lower:.0} {low_x:.0} {low_y:.0}");
        (path, (0.4 * top_x + 0.6 * low_x, 0.4 * top_y + 0.6 * low_y))
    }

    fn switch(&self, canvas: &mut Canvas, switch: &Switch, label: &str, (x, y): (f64, f64)) {
        canvas.open("g", &[("class", "switch"), ("transform", &format!("translate({x:.0} {y:.0})"))]);
        canvas.text("title", &[], &self.picture.told(switch));
        let (width, height, color) = (px(BOX.0), px(BOX.1), fill(switch.sampler));
        let dashes = if switch.sampler.is_some() { "none" } else { "4 3" };
        let size = [("width", &*width), ("height", &*height), ("rx", "4")];
        canvas.empty("rect", &[&size[..], &[("fill", &*color), ("stroke", "#333333"), ("stroke-dasharray", dashes)]].concat());
        canvas.text("text", &[("x", "5"), ("y", "14"), ("font-size", "11"), ("font-weight", "bold")], label);
        if let Some(sampler) = switch.sampler {
            let x = px(BOX.0 - 5.0);
            canvas.text("text", &[("x", &x), ("y", "14"), ("font-size", "11"), ("text-anchor", "end")], &(sampler + 1).to_string());
        }
        let counted = |ports: usize, what: &str| format!("{ports} {what}{}", if ports == 1 { "" } else { "s" });
        let ports = match switch.adapter_ports() {
            0 => counted(switch.ports, "port"),
            adapters => format!("{}, {}", counted(switch.ports, "port"), counted(adapters, "HCA port")),
        };
        canvas.text("text", &[("x", "5"), ("y", "26"), ("font-size", "9")], &ports);
        if let [first, others @ ..] = &switch.seats[..] {
            let sits = match others.len() {
                0 => shortened(&self.picture.samplers[*first].host, NAME + 3),
                more => format!("{} +{more}", shortened(&self.picture.samplers[*first].host, NAME)),
            };
            canvas.text("text", &[("x", "5"), ("y", "37"), ("font-size", "9"), ("font-style", "italic")], &format!("\u{25b2} {sits}"));
        }
        self.strip(canvas, switch);
        canvas.close("g");
    }

    /// At the foot of a box whose adapters are not all with the switch's sampler: who has how many of them.
    fn strip(&self, canvas: &mut Canvas, switch: &Switch) {
        if switch.adapters.keys().all(|sampler| *sampler == switch.sampler) {
            return;
        }
        let (mut x, all) = (0.0, switch.adapter_ports() as f64);
        for (sampler, ports) in &switch.adapters {
            let width = BOX.0 * *ports as f64 / all;
            let place = [("x", &*px(x)), ("y", "39"), ("width", &*px(width)), ("height", "5")];
            canvas.empty("rect", &[&place[..], &[("fill", &*fill(*sampler)), ("stroke", "#333333"), ("stroke-width", "0.7")]].concat());
            x += width;
        }
    }

    fn legend(&self, canvas: &mut Canvas, top: f64, across: usize) {
        const BAR: f64 = 50.0;
        let key = [
            "Number and colour: the sampler. \u{25b2} a sampler hangs on this switch. Strip at a box's foot: who samples its hosts, where it is not the switch's sampler alone.",
            "Coloured line: both ends have the same sampler; thicker: more cables. Pointing at a switch or a line tells more.",
        ];
        for (text, y) in key.iter().zip([top, top + 15.0]) {
            canvas.text("text", &[("x", &px(MARGIN)), ("y", &px(y)), ("font-size", "11"), ("fill", "#444444")], text);
        }
        // Down the columns, as lists are read.
        let down = self.picture.samplers.len().div_ceil(across).max(1);
        for (place, sampler) in self.picture.samplers.iter().enumerate() {
            let (x, y) = (MARGIN + (place / down) as f64 * ENTRY.0, top + 32.0 + (place % down) as f64 * ENTRY.1);
            canvas.open("g", &[("transform", &format!("translate({x:.0} {y:.0})"))]);
            let color = fill(Some(place));
            canvas.empty("rect", &[("width", "30"), ("height", "15"), ("rx", "3"), ("fill", &color), ("stroke", "#333333")]);
            canvas.text("text", &[("x", "15"), ("y", "11.5"), ("font-size", "10"), ("text-anchor", "middle")], &(place + 1).to_string());
            let share = f64::from(sampler.ports) / f64::from(self.picture.cap);
            canvas
                .empty("rect", &[("x", "36"), ("y", "2"), ("width", &px(BAR)), ("height", "11"), ("fill", "none"), ("stroke", "#999999")]);
            let bar = px(BAR * share.min(1.0));
            canvas.empty("rect", &[("x", "36"), ("y", "2"), ("width", &bar), ("height", "11"), ("fill", "#777777")]);
            let told = format!("{}: {} ports, {:.0} %", shortened(&sampler.host, 18), sampler.ports, 100.0 * share);
            canvas.text("text", &[("x", "92"), ("y", "11.5"), ("font-size", "10")], &told);
            canvas.text("title", &[], &self.picture.sampler_name(place));
            canvas.close("g");
        }
    }
}

/// What is written into the boxes: the names, or where they are long what tells them apart.
fn labels(picture: &Picture) -> Vec<String> {
    let names: Vec<Vec<char>> = picture.switches.iter().map(|switch| Printable(switch.name.trim()).to_string().chars().collect()).collect();
    let whole = |name: &Vec<char>| name.iter().collect::<String>();
    let long: Vec<_> = names.iter().filter(|name| name.len() > NAME).collect();
    let all_same =
        |at: &dyn Fn(&Vec<char>) -> Option<char>| long.windows(2).all(|pair| at(pair[0]).is_some() && at(pair[0]) == at(pair[1]));
    if long.len() < 2 {
        return names.iter().map(|name| shortened(&whole(name), NAME)).collect();
    }
    let shortest = long.iter().map(|name| name.len()).min().unwrap_or(0);
    let head = (0..shortest).take_while(|at| all_same(&|name| name.get(*at).copied())).count();
    let tail = (0..shortest - head).take_while(|at| all_same(&|name| name.get(name.len() - 1 - at).copied())).count();
    // What room is left shows the end of what is alike before the difference: `rack1` tells more than `1`.
    let widest = long.iter().map(|name| name.len() - head - tail).max().unwrap_or(0);
    let head = head.saturating_sub(NAME.saturating_sub(widest + 2));
    let apart = |name: &Vec<char>| {
        // An ellipsis that saves nothing is left out.
        let cut = |length: usize| if length > 1 { (length, "\u{2026}") } else { (0, "") };
        let ((head, before), (tail, after)) = (cut(head), cut(tail));
        format!("{before}{}{after}", name[head..name.len() - tail].iter().collect::<String>())
    };
    names.iter().map(|name| if name.len() <= NAME { whole(name) } else { shortened(&apart(name), NAME) }).collect()
}

/// A length as SVG has it.
fn px(length: f64) -> String {
    format!("{length:.0}")
}

/// A name of at most so many characters; what is left out is in the middle, since names differ at their ends.
fn shortened(name: &str, most: usize) -> String {
    let shown: Vec<_> = Printable(name.trim()).to_string().chars().collect();
    if shown.len() <= most {
        return shown.into_iter().collect();
    }
    let head = (most - 1) / 2;
    let tail = most - 1 - head;
    shown[..head].iter().chain(&['\u{2026}']).chain(&shown[shown.len() - tail..]).collect()
}

/// Writes elements; whatever it is given is escaped.
struct Canvas(Writer<Vec<u8>>);

impl Canvas {
    fn new() -> Self {
        Self(Writer::new_with_indent(Vec::new(), b' ', 1))
    }

    fn open(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.write(Event::Start(element(name, attributes)));
    }

    fn close(&mut self, name: &str) {
        self.write(Event::End(BytesEnd::new(name)));
    }

    fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.write(Event::Empty(element(name, attributes)));
    }

    fn text(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) {
        let lines: Vec<_> = text.split('\n').map(|line| Printable(line).to_string()).collect();
        self.open(name, attributes);
        self.write(Event::Text(BytesText::new(&lines.join("\n"))));
        self.close(name);
    }

    fn write(&mut self, event: Event<'_>) {
        // Writing to memory does not fail.
        let _ = self.0.write_event(event);
    }

    fn finish(self) -> String {
        String::from_utf8_lossy(&self.0.into_inner()).into_owned() + "\n"
    }
}

fn element<'a>(name: &'a str, attributes: &[(&'a str, &'a str)]) -> BytesStart<'a> {
    BytesStart::new(name).with_attributes(attributes.iter().copied())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use quick_xml::Reader;

    use super::super::tests::{picture, picture_of};
    use super::*;
    use crate::topology::synthetic::{self, Blueprint};

    const EIGHT: &str = "node[00001,00025,00049,00073,00097,00121],admin1,oss1";

    /// How often each element occurs, and all texts, as a reader of XML sees them.
    fn read(svg: &str) -> (BTreeMap<String, usize>, Vec<String>) {
        let mut reader = Reader::from_str(svg);
        let (mut elements, mut texts) = (BTreeMap::new(), vec![String::new()]);
        loop {
            match reader.read_event().expect("well-formed") {
                Event::Start(start) | Event::Empty(start) => {
                    start.attributes().for_each(|attribute| drop(attribute.expect("well-formed")));
                    *elements.entry(start.name().as_ref().to_owned()).or_default() += 1;
                    texts.push(String::new());
                }
                Event::Text(text) => texts.last_mut().unwrap().push_str(&text),
                Event::GeneralRef(name) => texts.last_mut().unwrap().push_str(match &*name {
                    "lt" => "<",
                    "gt" => ">",
                    "amp" => "&",
                    "quot" => "\"",
                    "apos" => "'",
                    other => panic!("{other}"),
                }),
                Event::End(_) => {}
                Event::Eof => {
                    let trimmed = texts.iter().map(|text| text.trim().to_owned()).collect();
                    return (elements, trimmed);
                }
                other => panic!("{other:?} in a picture"),
            }
        }
    }

    #[test]
    fn every_switch_link_and_sampler_is_drawn() {
        let (elements, texts) = read(&picture(&synthetic::stria(), EIGHT, 150).to_svg());
        assert_eq!(elements["path"], 96);
        // Switches, links and entries of the legend, and the picture itself.
        assert_eq!((elements["g"], elements["title"]), (22 + 96 + 8, 1 + 22 + 96 + 8));
        for text in ["core06", "36 ports, 24 HCA ports", "\u{25b2} node00001", "tier 2", "admin1: 128 ports, 85 %"] {
            assert!(texts.iter().any(|found| found == text), "{text} is nowhere");
        }
    }

    #[test]
    fn a_stranger_s_name_is_a_text_and_nothing_else() {
        let nasty = "</text><script>a&b</script>\u{1b}[2J\" x=\"]]>";
        let text = synthetic::stria().ports_report().replace("'leaf12'", &format!("'{nasty}'")).replace("node00001 mlx5_0", "<&\"' mlx5_0");
        let svg = picture_of(&text, "node00025", 968).to_svg();
        let (elements, texts) = read(&svg);
        let plain = picture(&synthetic::stria(), "node00025", 968).to_svg();
        assert_eq!(elements, read(&plain).0, "the same elements as with a plain name");
        let shown = Printable(nasty).to_string();
        assert!(texts.iter().any(|text| text.starts_with(&shown)));
        assert!(!svg.contains(|c: char| c.is_control() && c != '\n'));
    }

    #[test]
    fn same_input_same_bytes() {
        assert_eq!(picture(&synthetic::stria(), EIGHT, 150).to_svg(), picture(&synthetic::stria(), EIGHT, 150).to_svg());
    }

    #[test]
    fn no_two_boxes_overlap_and_all_are_on_the_page() {
        for (net, sampler) in [(synthetic::stria(), "node00001"), (synthetic::large(), "node00001")] {
            let picture = picture(&net, sampler, 100_000);
            let layout = Layout::of(&picture);
            let mut places = places(&picture, &layout);
            places.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.total_cmp(&b.0)));
            assert!(places.windows(2).all(|pair| pair[1].0 - pair[0].0 >= BOX.0 || pair[1].1 - pair[0].1 >= BOX.1));
            let right = places.iter().map(|place| place.0 + BOX.0).fold(0.0, f64::max);
            let width = picture.to_svg().split_once("viewBox=\"0 0 ").unwrap().1.split(' ').next().unwrap().parse::<f64>().unwrap();
            assert!(places.iter().all(|place| place.0 >= MARGIN + TITLES && place.1 >= HEAD) && right < width);
        }
    }

    #[test]
    fn long_names_are_cut_where_they_are_alike() {
        let mut net = Blueprint::new("EDR");
        let names = ["MF0;ib-rack1:SX6036/U1", "MF0;ib-rack2:SX6036/U1", "MF0;ib-rack10:SX6036/U1", "top"];
        let switches: Vec<_> = names.iter().map(|name| net.switch(name, 8)).collect();
        for (port, switch) in switches[..3].iter().enumerate() {
            net.cable((*switch, 8), (switches[3], port + 1));
        }
        let host = net.adapter("n mlx5_0", 1);
        net.cable((host, 1), (switches[0], 1));
        let mut labels = labels(&picture(&net, "n", 100));
        labels.sort();
        assert_eq!(labels, ["top", "\u{2026}0;ib-rack10\u{2026}", "\u{2026}0;ib-rack1\u{2026}", "\u{2026}0;ib-rack2\u{2026}"]);
        assert_eq!(shortened("0123456789abcdef", 13), "012345\u{2026}abcdef");
    }
}
