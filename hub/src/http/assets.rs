//! The files of the web page, which are embedded in the program.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use flate2::Compression;

use super::answer::{accepts_gzip, gzip};

/// URL, content type and content of each file.
const FILES: &[(&str, &str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/page.rs"));

struct Asset {
    content_type: HeaderValue,
    plain: Bytes,
    compressed: Bytes,
    etag: HeaderValue,
}

/// The files with their compressed forms.
static ASSETS: LazyLock<BTreeMap<&str, Asset>> = LazyLock::new(|| {
    let asset = |(url, content_type, content): &(&'static str, &'static str, &'static [u8])| {
        // Files change only with the program, so a CRC of the content is a sufficient ETag.
        let mut checksum = flate2::Crc::new();
        checksum.update(content);
        let etag = format!("\"{:08x}-{}\"", checksum.sum(), content.len());
        let asset = Asset {
            content_type: HeaderValue::from_static(content_type),
            plain: Bytes::from_static(content),
            compressed: gzip(content, Compression::best()).into(),
            etag: HeaderValue::from_str(&etag).unwrap_or(HeaderValue::from_static("\"\"")),
        };
        (*url, asset)
    };
    FILES.iter().map(asset).collect()
});

/// Returns a file of the web page, or `None` if there is no such file.
pub(crate) fn find(url: &str, headers: &HeaderMap) -> Option<Response> {
    let asset = ASSETS.get(url)?;
    let is_known = headers.get(IF_NONE_MATCH) == Some(&asset.etag);
    let is_compressed = accepts_gzip(headers);
    let body = match (is_known, is_compressed) {
        (true, _) => Bytes::new(),
        (false, true) => asset.compressed.clone(),
        (false, false) => asset.plain.clone(),
    };
    let mut response = Response::new(Body::from(body));
    let to = response.headers_mut();
    to.insert(CONTENT_TYPE, asset.content_type.clone());
    to.insert(ETAG, asset.etag.clone());
    // The browser asks each time whether the file has changed.
    to.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    to.insert(VARY, HeaderValue::from_static("accept-encoding"));
    if is_compressed && !is_known {
        to.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    if is_known {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
    }
    Some(response)
}
