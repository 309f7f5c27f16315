//! A job over time as SVG: injected and ejected traffic, and the blocked share of its ports.

use ibnet::drawing::canvas::{Canvas, FONT, px};
use ibnet_analysis::job::{Job, Step};
use ibnet_analysis::when::Zone;

const PAGE: (f64, f64) = (960.0, 470.0);
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const PANEL: f64 = 150.0;
/// Upper ends of the panels in pixels.
const TOPS: [f64; 2] = [84.0, 284.0];
/// Colours for all kinds of colour vision: P. Tol, *Colour Schemes* (SRON/EPS/TN/09-002), "bright".
const COLORS: [&str; 2] = ["#4477aa", "#ee6677"];

/// A curve of a panel: its name, and its value in each step.
type Curve<'a> = (&'a str, Vec<Option<f64>>);

/// Draws the job and returns the SVG.
pub fn to_svg(job: &Job, title: &str, zone: &Zone) -> String {
    Drawing { job }.draw(title, zone)
}

struct Drawing<'a> {
    job: &'a Job,
}

impl Drawing<'_> {
    fn draw(&self, title: &str, zone: &Zone) -> String {
        let mut canvas = Canvas::new();
        let (w, h) = (px(PAGE.0), px(PAGE.1));
        let view = format!("0 0 {w} {h}");
        canvas.open("svg", &[("xmlns", "http://www.w3.org/2000/svg"), ("viewBox", &view), ("width", &w), ("height", &h), ("style", FONT)]);
        canvas.text("title", &[], title);
        canvas.empty("rect", &[("width", "100%"), ("height", "100%"), ("fill", "#ffffff")]);
        canvas.text("text", &[("x", "24"), ("y", "30"), ("font-size", "18"), ("font-weight", "bold")], title);
        let all = |value: fn(&Step) -> Option<f64>| self.job.steps.iter().map(value).collect::<Vec<_>>();
        let traffic = [("injected", all(|step| Some(step.injected_gbps))), ("ejected", all(|step| Some(step.ejected_gbps)))];
        let blocked = [("mean of the ports", all(|step| step.blocked)), ("most blocked port", all(|step| step.blocked_most))];
        let most = traffic.iter().flat_map(|(_, values)| values).flatten().fold(0.0, |most: f64, value| most.max(*value));
        self.panel(&mut canvas, TOPS[0], "Traffic of all nodes, Gb/s", rounded_up(most), &traffic);
        self.panel(&mut canvas, TOPS[1], "Blocked time of the ports, %", 1.0, &blocked);
        self.times(&mut canvas, zone);
        canvas.close("svg");
        canvas.finish()
    }

    fn x(&self, step: usize) -> f64 {
        let (first, last) =
            (self.job.steps.first().map_or(0, |step| step.ts), self.job.steps.last().map_or(0, |step| step.ts) + self.job.step_ns);
        let at = (self.job.steps[step].ts - first) as f64 + self.job.step_ns as f64 / 2.0;
        LEFT + (PAGE.0 - LEFT - RIGHT) * at / (last - first).max(1) as f64
    }

    fn panel(&self, canvas: &mut Canvas, top: f64, title: &str, most: f64, curves: &[Curve<'_>; 2]) {
        canvas.text("text", &[("x", &px(LEFT)), ("y", &px(top - 10.0)), ("font-size", "12")], title);
        let (width, height) = (px(PAGE.0 - LEFT - RIGHT), px(PANEL));
        let at = [("x", &*px(LEFT)), ("y", &*px(top)), ("width", &*width), ("height", &*height)];
        canvas.empty("rect", &[&at[..], &[("fill", "#f7f7f7"), ("stroke", "#cccccc")]].concat());
        for quarter in 0..=4 {
            let share = f64::from(quarter) / 4.0;
            let y = top + PANEL * (1.0 - share);
            let (from, to, line) = (px(LEFT), px(PAGE.0 - RIGHT), px(y));
            canvas.empty("line", &[("x1", &from), ("x2", &to), ("y1", &line), ("y2", &line), ("stroke", "#dddddd")]);
            let text = if most <= 1.0 { format!("{:.0}", 100.0 * share * most) } else { format!("{:.0}", share * most) };
            canvas.text("text", &[("x", &px(LEFT - 6.0)), ("y", &px(y + 4.0)), ("font-size", "10"), ("text-anchor", "end")], &text);
        }
        for (number, (name, values)) in curves.iter().enumerate() {
            let color = COLORS[number];
            let (x, y) = (px(PAGE.0 - RIGHT - 150.0 * (2 - number) as f64), px(top - 10.0));
            canvas.text("text", &[("x", &x), ("y", &y), ("font-size", "12"), ("font-weight", "bold"), ("fill", color)], name);
            for part in self.parts(values, top, most) {
                canvas.empty("polyline", &[("points", &part), ("fill", "none"), ("stroke", color), ("stroke-width", "1.8")]);
            }
        }
    }

    /// Returns the points of a curve, as one part for each run of steps with values.
    fn parts(&self, values: &[Option<f64>], top: f64, most: f64) -> Vec<String> {
        let mut parts = vec![String::new()];
        for (step, value) in values.iter().enumerate() {
            let follows = step > 0 && self.job.steps[step].ts - self.job.steps[step - 1].ts <= self.job.step_ns;
            if !follows || value.is_none() {
                parts.push(String::new());
            }
            if let (Some(value), Some(part)) = (value, parts.last_mut()) {
                let y = top + PANEL * (1.0 - (value / most.max(f64::MIN_POSITIVE)).clamp(0.0, 1.0));
                // A step is a horizontal line of its length.
                let half = (PAGE.0 - LEFT - RIGHT) / 2.0 * self.job.step_ns as f64 / self.span_ns();
                part.push_str(&format!("{:.1},{y:.1} {:.1},{y:.1} ", self.x(step) - half, self.x(step) + half));
            }
        }
        parts.retain(|part| !part.is_empty());
        parts
    }

    fn span_ns(&self) -> f64 {
        let (first, last) =
            (self.job.steps.first().map_or(0, |step| step.ts), self.job.steps.last().map_or(0, |step| step.ts) + self.job.step_ns);
        (last - first).max(1) as f64
    }

    fn times(&self, canvas: &mut Canvas, zone: &Zone) {
        const TICKS: u64 = 6;
        let Some(first) = self.job.steps.first().map(|step| step.ts) else { return };
        for tick in 0..=TICKS {
            let share = tick as f64 / TICKS as f64;
            let x = px(LEFT + (PAGE.0 - LEFT - RIGHT) * share);
            let text = zone.format(first + (self.span_ns() * share) as u64, "%H:%M:%S");
            let y = px(TOPS[1] + PANEL + 16.0);
            canvas.text("text", &[("x", &x), ("y", &y), ("font-size", "10"), ("text-anchor", "middle")], &text);
        }
        let (date, name) = (zone.format(first, "%Y-%m-%d"), zone.name(first));
        canvas.text("text", &[("x", &px(LEFT)), ("y", &px(TOPS[1] + PANEL + 32.0)), ("font-size", "10")], &format!("{date}, {name}"));
    }
}

/// Rounds up to 2, 4, 5 or 10 times a power of ten.
fn rounded_up(most: f64) -> f64 {
    let ten = 10_f64.powf(most.max(1.0).log10().floor());
    [1.0, 2.0, 4.0, 5.0, 10.0].into_iter().map(|times| times * ten).find(|round| *round >= most).unwrap_or(most).max(2.0)
}

#[cfg(test)]
mod tests {
    use ibnet_analysis::ports::Ports;

    use super::*;
    use crate::fixtures::{fold, job_lines};

    #[test]
    fn curves_are_drawn_to_scale() {
        let job = Job::of(&fold(Ports::with_bins(8), &job_lines(true)).finish(), &["n1".to_owned(), "n2".to_owned()]);
        let svg = to_svg(&job, "a <job>\u{1b}", &Zone::utc());
        assert!(svg.contains("a &lt;job&gt;\\u{1b}") && !svg.contains('\u{1b}'));
        // Two steps: 12 and 24 Gb/s of 40 in a panel of 150 pixels height from 84 on.
        assert!(svg.contains("points=\"70.0,189.0 503.0,189.0 503.0,144.0 936.0,144.0 \""), "{svg}");
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert!(svg.contains("1970-01-01, UTC"));
    }

    #[test]
    fn scales_end_at_round_numbers() {
        assert_eq!([0.0, 3.0, 10.0, 24.0, 410.0].map(rounded_up), [2.0, 4.0, 10.0, 40.0, 500.0]);
    }
}
