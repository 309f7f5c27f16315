//! Writes the picture as SVG for any browser, without scripts, embedded fonts and external links.
//!
//! XML cannot contain control characters, so [`Printable`](ibnet_record::types::Printable) replaces
//! them. All texts are escaped.

use ibnet_record::count::count;

use super::{DrawnSwitch, MAX_COUNTS, Picture, fill, stroke};
use crate::drawing::canvas::{Canvas, FONT, px, shortened};
use crate::drawing::sheet::{BOX, MARGIN, NAME, Sheet};

/// Width and height of a legend entry.
const ENTRY: (f64, f64) = (250.0, 20.0);

impl Picture {
    /// Returns the content of a `.svg` file.
    pub fn to_svg(&self) -> String {
        Drawing {
            picture: self,
            sheet: Sheet::new(&self.net()),
        }
        .draw()
    }
}

struct Drawing<'a> {
    picture: &'a Picture,
    sheet: Sheet,
}

impl Drawing<'_> {
    fn draw(&self) -> String {
        let mut canvas = Canvas::new();
        let bottom = self.sheet.bottom() + 36.0;
        let width = self.sheet.width(980.0);
        let across = ((width - 2.0 * MARGIN) / ENTRY.0).floor().max(1.0) as usize;
        let height =
            bottom + 44.0 + self.picture.samplers.len().div_ceil(across) as f64 * ENTRY.1 + MARGIN;
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
        canvas.text(
            "style",
            &[],
            ".link:hover path{stroke:#000;stroke-opacity:1}.switch:hover rect{stroke-width:2.5}",
        );
        canvas.empty(
            "rect",
            &[("width", "100%"), ("height", "100%"), ("fill", "#ffffff")],
        );
        self.heading(&mut canvas);
        self.sheet.rows(&mut canvas, width);
        self.links(&mut canvas);
        for (number, switch) in self.picture.switches.iter().enumerate() {
            self.switch(
                &mut canvas,
                switch,
                &self.sheet.labels[number],
                self.sheet.places[number],
            );
        }
        self.legend(&mut canvas, bottom, across);
        canvas.close("svg");
        canvas.finish()
    }

    fn heading(&self, canvas: &mut Canvas) {
        let at = |y: &'static str, size: &'static str| [("x", "24"), ("y", y), ("font-size", size)];
        canvas.text(
            "text",
            &[&at("30", "18")[..], &[("font-weight", "bold")]].concat(),
            "Sampling plan",
        );
        canvas.text("text", &at("50", "12"), &self.picture.summary());
    }

    fn links(&self, canvas: &mut Canvas) {
        let with_counts = self.picture.links.len() <= MAX_COUNTS;
        // With many links, the lines are fainter, so that crossing lines stay visible.
        let opacity = format!(
            "{:.2}",
            (30.0 / self.picture.links.len().max(1) as f64)
                .sqrt()
                .clamp(0.25, 0.8)
        );
        // Links between two switches of the same sampler are drawn last, on top of the others.
        let within = |ends: &(usize, usize)| {
            self.picture.switches[ends.0]
                .sampler
                .filter(|own| self.picture.switches[ends.1].sampler == Some(*own))
        };
        let (own, others): (Vec<_>, Vec<_>) = self
            .picture
            .links
            .iter()
            .partition(|(ends, _)| within(ends).is_some());
        for (ends, cables) in others.into_iter().chain(own) {
            let (one, other) = (
                &self.picture.switches[ends.0],
                &self.picture.switches[ends.1],
            );
            let color = within(ends).map_or_else(|| "#888888".to_owned(), stroke);
            let opacity = if within(ends).is_some() {
                "0.9"
            } else {
                &opacity
            };
            let width = format!("{:.1}", (*cables as f64).sqrt());
            let (path, middle) = self.sheet.path(*ends);
            canvas.open("g", &[("class", "link")]);
            let cable_count = count(*cables, "cable");
            canvas.text(
                "title",
                &[],
                &format!("{} \u{2013} {}: {cable_count}", one.name, other.name),
            );
            canvas.empty(
                "path",
                &[
                    ("d", &path),
                    ("fill", "none"),
                    ("stroke", &color),
                    ("stroke-width", &width),
                    ("stroke-opacity", opacity),
                ],
            );
            if with_counts && *cables > 1 {
                let at = [
                    ("x", &*px(middle.0)),
                    ("y", &*px(middle.1)),
                    ("font-size", "10"),
                    ("text-anchor", "middle"),
                ];
                let halo = [
                    ("fill", "#333333"),
                    ("stroke", "#ffffff"),
                    ("stroke-width", "3"),
                    ("paint-order", "stroke"),
                ];
                canvas.text("text", &[&at[..], &halo[..]].concat(), &cables.to_string());
            }
            canvas.close("g");
        }
    }

    fn switch(&self, canvas: &mut Canvas, switch: &DrawnSwitch, label: &str, (x, y): (f64, f64)) {
        canvas.open(
            "g",
            &[
                ("class", "switch"),
                ("transform", &format!("translate({x:.0} {y:.0})")),
            ],
        );
        canvas.text("title", &[], &self.picture.description(switch));
        let (width, height, color) = (px(BOX.0), px(BOX.1), fill(switch.sampler));
        let dashes = if switch.sampler.is_some() {
            "none"
        } else {
            "4 3"
        };
        let size = [("width", &*width), ("height", &*height), ("rx", "4")];
        canvas.empty(
            "rect",
            &[
                &size[..],
                &[
                    ("fill", &*color),
                    ("stroke", "#333333"),
                    ("stroke-dasharray", dashes),
                ],
            ]
            .concat(),
        );
        canvas.text(
            "text",
            &[
                ("x", "5"),
                ("y", "14"),
                ("font-size", "11"),
                ("font-weight", "bold"),
            ],
            label,
        );
        if let Some(sampler) = switch.sampler {
            let x = px(BOX.0 - 5.0);
            canvas.text(
                "text",
                &[
                    ("x", &x),
                    ("y", "14"),
                    ("font-size", "11"),
                    ("text-anchor", "end"),
                ],
                &(sampler + 1).to_string(),
            );
        }
        let ports = match switch.hca_ports() {
            0 => count(switch.ports, "port"),
            hcas => format!(
                "{}, {}",
                count(switch.ports, "port"),
                count(hcas, "HCA port")
            ),
        };
        canvas.text(
            "text",
            &[("x", "5"), ("y", "26"), ("font-size", "9")],
            &ports,
        );
        if let [first, others @ ..] = &switch.attached[..] {
            let label = match others.len() {
                0 => shortened(&self.picture.samplers[*first].host, NAME + 3),
                more => format!(
                    "{} +{more}",
                    shortened(&self.picture.samplers[*first].host, NAME)
                ),
            };
            canvas.text(
                "text",
                &[
                    ("x", "5"),
                    ("y", "37"),
                    ("font-size", "9"),
                    ("font-style", "italic"),
                ],
                &format!("\u{25b2} {label}"),
            );
        }
        self.strip(canvas, switch);
        canvas.close("g");
    }

    /// Draws a strip at the bottom of a box if some HCA ports of the switch have another sampler
    /// than the switch. The strip shows the share of each sampler.
    fn strip(&self, canvas: &mut Canvas, switch: &DrawnSwitch) {
        if switch.hcas.keys().all(|sampler| *sampler == switch.sampler) {
            return;
        }
        let (mut x, all) = (0.0, switch.hca_ports() as f64);
        for (sampler, ports) in &switch.hcas {
            let width = BOX.0 * *ports as f64 / all;
            let place = [
                ("x", &*px(x)),
                ("y", "39"),
                ("width", &*px(width)),
                ("height", "5"),
            ];
            canvas.empty(
                "rect",
                &[
                    &place[..],
                    &[
                        ("fill", &*fill(*sampler)),
                        ("stroke", "#333333"),
                        ("stroke-width", "0.7"),
                    ],
                ]
                .concat(),
            );
            x += width;
        }
    }

    fn legend(&self, canvas: &mut Canvas, top: f64, across: usize) {
        const BAR: f64 = 50.0;
        let key = [
            "Number and colour: sampler. \u{25b2}: a sampler is attached to this switch. Strip at the bottom of a box: samplers of its HCA ports, if they differ from the sampler of the switch.",
            "Coloured line: both ends have the same sampler. Line width: number of cables. Point at a switch or a line for details.",
        ];
        for (text, y) in key.iter().zip([top, top + 15.0]) {
            canvas.text(
                "text",
                &[
                    ("x", &px(MARGIN)),
                    ("y", &px(y)),
                    ("font-size", "11"),
                    ("fill", "#444444"),
                ],
                text,
            );
        }
        // Entries fill one column after another.
        let down = self.picture.samplers.len().div_ceil(across).max(1);
        for (place, sampler) in self.picture.samplers.iter().enumerate() {
            let (x, y) = (
                MARGIN + (place / down) as f64 * ENTRY.0,
                top + 32.0 + (place % down) as f64 * ENTRY.1,
            );
            canvas.open("g", &[("transform", &format!("translate({x:.0} {y:.0})"))]);
            let color = fill(Some(place));
            canvas.empty(
                "rect",
                &[
                    ("width", "30"),
                    ("height", "15"),
                    ("rx", "3"),
                    ("fill", &color),
                    ("stroke", "#333333"),
                ],
            );
            canvas.text(
                "text",
                &[
                    ("x", "15"),
                    ("y", "11.5"),
                    ("font-size", "10"),
                    ("text-anchor", "middle"),
                ],
                &(place + 1).to_string(),
            );
            let share = f64::from(sampler.ports) / f64::from(self.picture.cap);
            canvas.empty(
                "rect",
                &[
                    ("x", "36"),
                    ("y", "2"),
                    ("width", &px(BAR)),
                    ("height", "11"),
                    ("fill", "none"),
                    ("stroke", "#999999"),
                ],
            );
            let bar = px(BAR * share.min(1.0));
            canvas.empty(
                "rect",
                &[
                    ("x", "36"),
                    ("y", "2"),
                    ("width", &bar),
                    ("height", "11"),
                    ("fill", "#777777"),
                ],
            );
            let text = format!(
                "{}: {} ports, {:.0} %",
                shortened(&sampler.host, 18),
                sampler.ports,
                100.0 * share
            );
            canvas.text(
                "text",
                &[("x", "92"), ("y", "11.5"), ("font-size", "10")],
                &text,
            );
            canvas.text("title", &[], &self.picture.sampler_name(place));
            canvas.close("g");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use ibnet_record::types::Printable;
    use quick_xml::Reader;
    use quick_xml::events::Event;

    use super::super::tests::{picture, picture_of};
    use crate::topology::synthetic;

    const EIGHT: &str = "node[00001,00025,00049,00073,00097,00121],admin1,oss1";

    /// Returns how often each element occurs, and all texts, as an XML parser finds them.
    fn read(svg: &str) -> (BTreeMap<String, usize>, Vec<String>) {
        let mut reader = Reader::from_str(svg);
        let (mut elements, mut texts) = (BTreeMap::new(), vec![String::new()]);
        loop {
            match reader.read_event().expect("well-formed") {
                Event::Start(start) | Event::Empty(start) => {
                    start
                        .attributes()
                        .for_each(|attribute| drop(attribute.expect("well-formed")));
                    *elements
                        .entry(start.name().as_ref().to_owned())
                        .or_default() += 1;
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
        // Groups are switches, links and legend entries. Titles also include the picture itself.
        assert_eq!(
            (elements["g"], elements["title"]),
            (22 + 96 + 8, 1 + 22 + 96 + 8)
        );
        for text in [
            "core06",
            "36 ports, 24 HCA ports",
            "\u{25b2} node00001",
            "tier 2",
            "admin1: 128 ports, 85 %",
        ] {
            assert!(texts.iter().any(|found| found == text), "{text} is nowhere");
        }
    }

    #[test]
    fn hostile_name_stays_a_text() {
        let hostile = "</text><script>a&b</script>\u{1b}[2J\" x=\"]]>";
        let text = synthetic::stria()
            .ports_report()
            .replace("'leaf12'", &format!("'{hostile}'"))
            .replace("node00001 mlx5_0", "<&\"' mlx5_0");
        let svg = picture_of(&text, "node00025", 968).to_svg();
        let (elements, texts) = read(&svg);
        let plain = picture(&synthetic::stria(), "node00025", 968).to_svg();
        assert_eq!(
            elements,
            read(&plain).0,
            "the same elements as with a plain name"
        );
        let shown = Printable(hostile).to_string();
        assert!(texts.iter().any(|text| text.starts_with(&shown)));
        assert!(!svg.contains(|c: char| c.is_control() && c != '\n'));
    }

    #[test]
    fn equal_input_gives_equal_octets() {
        assert_eq!(
            picture(&synthetic::stria(), EIGHT, 150).to_svg(),
            picture(&synthetic::stria(), EIGHT, 150).to_svg()
        );
    }
}
