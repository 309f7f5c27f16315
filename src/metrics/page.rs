//! The formats in which the metrics are served, and their choice by the headers of a request.
//!
//! A metric has the same name and value in both formats. Prometheus requests OpenMetrics. A client
//! that requests no format gets the older text format, which every consumer of metrics supports.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderName};

/// Format of the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// OpenMetrics 1.0.
    OpenMetrics,
    /// Prometheus text format 0.0.4.
    Text,
}

/// Format and content coding of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Variant {
    /// Format of the text.
    pub format: Format,
    /// Whether the text is compressed with gzip.
    pub gzip: bool,
}

impl Variant {
    /// Number of variants.
    pub(super) const COUNT: usize = 4;

    /// Chooses the variant for a request by its headers `Accept` and `Accept-Encoding` (RFC 9110,
    /// 12.5.1 and 12.5.3).
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let open_metrics = quality(headers, &header::ACCEPT, &["application/openmetrics-text"]);
        let text = quality(headers, &header::ACCEPT, &["text/plain", "text/*", "*/*"]);
        let gzip = quality(headers, &header::ACCEPT_ENCODING, &["gzip", "x-gzip", "*"]);
        let format = match (open_metrics, text) {
            (Some(open), text) if open > 0 && text.is_none_or(|text| open >= text) => {
                Format::OpenMetrics
            }
            _ => Format::Text,
        };
        Self {
            format,
            gzip: gzip.is_some_and(|quality| quality > 0),
        }
    }

    /// Returns a different number below [`COUNT`](Self::COUNT) for each variant.
    pub(super) fn index(self) -> usize {
        usize::from(self.format == Format::Text) * 2 + usize::from(self.gzip)
    }

    /// Formats the response from OpenMetrics text.
    pub(super) fn of_open_metrics(self, open_metrics: Bytes) -> Bytes {
        let text = match self.format {
            Format::OpenMetrics => open_metrics,
            Format::Text => text_format(&String::from_utf8_lossy(&open_metrics)).into(),
        };
        if self.gzip { compress(&text) } else { text }
    }
}

impl Format {
    /// Returns the value of the header `Content-Type`.
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// Returns the quality, in thousandths, that a header gives to the first of the names that it
/// contains. If that name occurs several times, its max quality counts. Returns `None` if the
/// header contains none of the names.
fn quality(headers: &HeaderMap, header: &HeaderName, names: &[&str]) -> Option<u32> {
    let entries = || {
        let values = headers
            .get_all(header)
            .into_iter()
            .filter_map(|value| value.to_str().ok());
        values
            .flat_map(|value| value.split(','))
            .map(|entry| entry.split(';').map(str::trim))
    };
    let of = |name: &&str| {
        let named = entries().filter_map(|mut entry| {
            entry
                .next()?
                .eq_ignore_ascii_case(name)
                .then(|| thousandths(entry))
        });
        named.max()
    };
    names.iter().find_map(of)
}

/// Returns the weight (`q=`) among the parameters of an entry, in thousandths. A weight that is
/// not a number counts as 0.
fn thousandths<'a>(mut parameters: impl Iterator<Item = &'a str>) -> u32 {
    let weight = parameters.find_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        key.trim()
            .eq_ignore_ascii_case("q")
            .then(|| value.trim().parse::<f32>().unwrap_or(0.0))
    });
    (weight.unwrap_or(1.0).clamp(0.0, 1.0) * 1000.0) as u32
}

/// Converts OpenMetrics text to the Prometheus text format 0.0.4.
///
/// There are two differences: in the text format, the family name of a counter has the suffix
/// `_total`, and there is no `# EOF`. The metrics of ibnet have neither exemplars nor time
/// stamps, and no type that the text format lacks.
fn text_format(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + open_metrics.len() / 64);
    // The `HELP` line of a family precedes its `TYPE` line.
    let mut help: Option<(&str, &str)> = None;
    for line in open_metrics.lines().filter(|line| *line != "# EOF") {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            help = rest.split_once(' ');
            continue;
        }
        let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|rest| rest.split_once(' '))
        else {
            text.extend([line, "\n"]);
            continue;
        };
        let suffix = if kind == "counter" { "_total" } else { "" };
        if let Some((_, help)) = help.take().filter(|(of, _)| *of == name) {
            text.extend(["# HELP ", name, suffix, " ", help, "\n"]);
        }
        text.extend(["# TYPE ", name, suffix, " ", kind, "\n"]);
    }
    text
}

/// Compresses with gzip, at its default level.
fn compress(text: &[u8]) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 8), Compression::default());
    let _ = encoder.write_all(text);
    encoder.finish().unwrap_or_default().into()
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;
    use hyper::header::HeaderValue;

    use super::*;

    fn variant(accept: &[&str], coding: &str) -> Variant {
        let mut headers = HeaderMap::new();
        for value in accept {
            headers.append(
                header::ACCEPT,
                HeaderValue::from_str(value).expect("a header value"),
            );
        }
        if !coding.is_empty() {
            headers.insert(
                header::ACCEPT_ENCODING,
                HeaderValue::from_str(coding).expect("a header value"),
            );
        }
        Variant::of(&headers)
    }

    #[test]
    fn format_follows_the_header_accept() {
        // The headers of Prometheus 2.53 and 3.5, of VictoriaMetrics, of a browser and of curl.
        let prometheus_2 = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
                            text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                            text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.3";
        for accept in [
            prometheus_2,
            prometheus_3,
            "application/openmetrics-text",
            "text/plain;q=0.4, Application/OpenMetrics-Text; Q=0.5",
        ] {
            assert_eq!(
                variant(&[accept], "").format,
                Format::OpenMetrics,
                "{accept}"
            );
        }
        assert_eq!(
            variant(&["text/plain;q=0.1", "application/openmetrics-text"], "").format,
            Format::OpenMetrics
        );
        for accept in [
            "",
            "*/*",
            "text/plain;version=0.0.4;q=1,*/*;q=0.1",
            "text/html,application/xhtml+xml,*/*;q=0.8",
            "text/plain,application/openmetrics-text;q=0.9",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;q=x",
            "application/json",
            ",;,q=1;=",
        ] {
            assert_eq!(variant(&[accept], "").format, Format::Text, "{accept}");
        }
        assert_eq!(variant(&[], "").format, Format::Text);
    }

    #[test]
    fn gzip_is_used_only_if_the_client_accepts_it() {
        for coding in [
            "gzip",
            "deflate, gzip;q=0.5",
            "*",
            "br;q=1.0, GZIP; q=0.001",
            "gzip, identity;q=0",
        ] {
            assert!(variant(&[], coding).gzip, "{coding}");
        }
        for coding in [
            "",
            "identity",
            "gzip;q=0",
            "*;q=0",
            "gzip;q=0, *",
            "deflate",
            "zstd, br",
        ] {
            assert!(!variant(&[], coding).gzip, "{coding}");
        }
    }

    #[test]
    fn variants_have_different_numbers() {
        let of = |format| [false, true].map(|gzip| Variant { format, gzip }.index());
        assert_eq!(
            [of(Format::OpenMetrics), of(Format::Text)],
            [[0, 1], [2, 3]]
        );
        assert_eq!(Variant::COUNT, 4);
    }

    #[test]
    fn text_format_has_the_suffix_in_the_family_of_a_counter() {
        let open_metrics = "# HELP a_b Text with # TYPE x counter.\n# TYPE a_b counter\na_b_total{of=\"# EOF\"} 1\n\
                            # HELP c Other.\n# TYPE c gauge\nc 0.5\n# EOF\n";
        let expected = "# HELP a_b_total Text with # TYPE x counter.\n# TYPE a_b_total counter\na_b_total{of=\"# EOF\"} 1\n\
                        # HELP c Other.\n# TYPE c gauge\nc 0.5\n";
        assert_eq!(text_format(open_metrics), expected);
        let variant = Variant {
            format: Format::Text,
            gzip: true,
        };
        let mut unpacked = String::new();
        GzDecoder::new(&*variant.of_open_metrics(open_metrics.into()))
            .read_to_string(&mut unpacked)
            .expect("gzip");
        assert_eq!(unpacked, expected);
    }
}
