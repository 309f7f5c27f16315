//! Suggests the name that a user probably meant: a metric, a counter, a key of the configuration, a
//! counter group. [`hostlist::nearest`](crate::hostlist::nearest) suggests host names.

/// Pairs of words with the same meaning: a word of other tools, and the word in our names.
const SYNONYMS: [(&str, &str); 37] = [
    ("address", "listen"),
    ("bandwidth", "gbps"),
    ("bind", "listen"),
    ("compression", "compress"),
    ("congestion", "blocked"),
    ("crc", "symbol"),
    ("creds", "credentials"),
    ("dropped", "discards"),
    ("drops", "discards"),
    ("err", "errors"),
    ("errs", "errors"),
    ("flap", "downed"),
    ("flaps", "downed"),
    ("frequency", "interval"),
    ("hca", "ca"),
    ("host", "sampler"),
    ("latency", "rtt"),
    ("lost", "discards"),
    ("octets", "bytes"),
    ("p_key", "pkey"),
    ("packets", "pkts"),
    ("partition", "pkey"),
    ("period", "interval"),
    ("plan", "assignments"),
    ("receive", "rcv"),
    ("retain", "keep"),
    ("retention", "keep"),
    ("rx", "rcv"),
    ("service_level", "sl"),
    ("simulation", "simulate"),
    ("size", "mib"),
    ("throughput", "gbps"),
    ("token", "password"),
    ("topology", "net"),
    ("transmit", "xmit"),
    ("tx", "xmit"),
    ("url", "server"),
];

/// Returns the candidate that `name` most probably means. If several candidates are equally
/// similar, returns the first one. Returns `None` if no candidate is similar.
///
/// A candidate that differs only in a few wrong, missing or transposed letters is preferred. After
/// these come candidates with the same words: `rcv_errors` means `port_rcv_errors`.
pub fn nearest<'a>(name: &str, candidates: &[&'a str]) -> Option<&'a str> {
    let limit = (name.len() / 5).max(1);
    let by_letters = candidates
        .iter()
        .map(|candidate| (strsim::osa_distance(name, candidate), *candidate));
    if let Some((_, candidate)) = by_letters
        .filter(|(distance, _)| *distance <= limit)
        .min_by_key(|(distance, _)| *distance)
    {
        return Some(candidate);
    }
    let synonym = SYNONYMS.iter().find(|(other, _)| *other == name);
    if let Some(candidate) =
        synonym.and_then(|(_, own)| candidates.iter().find(|candidate| *candidate == own))
    {
        return Some(candidate);
    }
    let wanted = words(name);
    let by_words = candidates.iter().filter_map(|candidate| {
        let words = words(candidate);
        let common = wanted.iter().filter(|word| words.contains(word)).count();
        // Most words of the name must be in the candidate.
        (2 * common > wanted.len())
            .then(|| ((wanted.len() - common, words.len() - common), *candidate))
    });
    by_words
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns the words of a name in the singular. Synonyms are replaced.
fn words(name: &str) -> Vec<&str> {
    let word = |word| {
        let word = SYNONYMS
            .iter()
            .find(|(other, _)| *other == word)
            .map_or(word, |(_, own)| *own);
        word.strip_suffix('s')
            .filter(|singular| singular.len() > 3)
            .unwrap_or(word)
    };
    name.split('_')
        .filter(|word| !word.is_empty())
        .map(word)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_letters_come_before_similar_words() {
        let names = [
            "xmit_gbps",
            "rcv_gbps",
            "xmit_utilization",
            "rtt_ns",
            "port_xmit_pkts",
            "port_rcv_errors",
            "symbol_error_counter",
        ];
        for (wrong, right) in [
            ("xmit_gbsp", Some("xmit_gbps")),
            ("xmit_gpbs", Some("xmit_gbps")),
            ("port_xmit_pkt", Some("port_xmit_pkts")),
            ("utilization", Some("xmit_utilization")),
            ("rcv_errors", Some("port_rcv_errors")),
            ("symbol_errors", Some("symbol_error_counter")),
            ("tx_bandwidth", Some("xmit_gbps")),
            ("latency_ns", Some("rtt_ns")),
            ("port_tx_packets", Some("port_xmit_pkts")),
            ("bogus", None),
            ("", None),
        ] {
            assert_eq!(nearest(wrong, &names), right, "{wrong}");
        }
    }

    #[test]
    fn synonym_of_a_whole_name_is_found() {
        let names = [
            "net",
            "interval",
            "sl",
            "pkey",
            "rotate_mib",
            "password_file",
            "port_xmit_pkts",
        ];
        for (wrong, right) in [
            ("service_level", "sl"),
            ("p_key", "pkey"),
            ("period", "interval"),
            ("rotate_size", "rotate_mib"),
            ("token", "password_file"),
            ("intreval", "interval"),
        ] {
            assert_eq!(nearest(wrong, &names), Some(right), "{wrong}");
        }
    }

    #[test]
    fn synonyms_are_sorted() {
        assert!(SYNONYMS.is_sorted());
    }
}
