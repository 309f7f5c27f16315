//! Parses the parameters of a request.

use std::str::FromStr;

use ibnet_analysis::ports::PortKey;
use ibnet_record::types::{Guid, PortNum, Printable};

use crate::query::error::{ApiError, wrong};

/// Max length of a query string in bytes.
const LONGEST: usize = 8192;

/// The parameters of a request in their order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Parses a query string. Only the names in `known` are accepted.
    pub(crate) fn parse(query: Option<&str>, known: &[&str]) -> Result<Self, ApiError> {
        let query = query.unwrap_or_default();
        if query.len() > LONGEST {
            return Err(ApiError::wrong(format!(
                "the query is longer than {LONGEST} bytes (found {})",
                query.len()
            )));
        }
        let all: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        let Some((name, _)) = all.iter().find(|(name, _)| !known.contains(&name.as_str())) else {
            return Ok(Self(all));
        };
        let remedy = if known.is_empty() {
            "this address has no parameters".to_owned()
        } else {
            format!("use {}", known.join(", "))
        };
        Err(ApiError::wrong(format!(
            "there is no parameter {}; {remedy}",
            Printable(name)
        )))
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(found, _)| found == name)
            .map(|(_, value)| value.as_str())
    }

    /// Returns the value of a parameter, which can be given only once. An empty value means
    /// "not given".
    pub(crate) fn one(&self, name: &str) -> Result<Option<&str>, ApiError> {
        let mut values = self
            .0
            .iter()
            .filter(|(found, _)| found == name)
            .map(|(_, value)| value.as_str());
        let value = values.next().filter(|value| !value.is_empty());
        if values.next().is_some() {
            Err(ApiError::wrong(format!(
                "the parameter {name} is given twice"
            )))
        } else {
            Ok(value)
        }
    }

    /// Returns the parsed value of a parameter. `expected` describes it.
    pub(crate) fn parsed<T: FromStr>(
        &self,
        name: &str,
        expected: &str,
    ) -> Result<Option<T>, ApiError> {
        self.one(name)?
            .map(|text| text.parse().map_err(|_| wrong(name, text, expected)))
            .transpose()
    }

    /// Returns the time range: `from` and `to` in nanoseconds since 1970. A missing value becomes
    /// the default.
    pub(crate) fn range(&self, default: (u64, u64)) -> Result<(u64, u64), ApiError> {
        let time = |name| self.parsed::<u64>(name, "a time in nanoseconds since 1970");
        let (from, to) = (time("from")?, time("to")?.unwrap_or(default.1));
        let from = from.unwrap_or_else(|| default.0.min(to));
        if from > to {
            return Err(ApiError::wrong(format!(
                "the time range is empty: from is after to (found {from} and {to})"
            )));
        }
        Ok((from, to))
    }
}

/// Parses a port: `0xGUID/NUM`.
pub(crate) fn port_key(text: &str) -> Result<PortKey, ApiError> {
    let parsed = text
        .split_once('/')
        .and_then(|(guid, port)| Some((guid.parse::<Guid>().ok()?, PortNum(port.parse().ok()?))));
    parsed.ok_or_else(|| {
        wrong(
            "port",
            text,
            "a GUID of 16 hexadecimal digits and a port number, such as 0x0000000000201360/7",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_repeated_parameters_are_errors() {
        let parse = |query| Params::parse(Some(query), &["a", "from", "to"]);
        assert_eq!(
            parse("a=1&a=2").map(|params| params.all("a").map(str::to_owned).collect::<Vec<_>>()),
            Ok(vec!["1".to_owned(), "2".to_owned()])
        );
        assert!(parse("a=1&a=2").expect("parsed").one("a").is_err());
        let error = parse("b%1b=1").expect_err("refused");
        assert_eq!(
            error.reason,
            "there is no parameter b\\u{1b}; use a, from, to"
        );
        assert!(parse(&"a".repeat(LONGEST + 1)).is_err());
        let error = Params::parse(Some("from=1"), &[]).expect_err("refused");
        assert_eq!(
            error.reason,
            "there is no parameter from; this address has no parameters"
        );
    }

    #[test]
    fn time_ranges_have_defaults() {
        let range = |query| {
            Params::parse(Some(query), &["from", "to"])
                .expect("parsed")
                .range((5, 9))
        };
        assert_eq!(
            (
                range(""),
                range("from=7"),
                range("to=3"),
                range("from=1&to=2")
            ),
            (Ok((5, 9)), Ok((7, 9)), Ok((3, 3)), Ok((1, 2)))
        );
        assert!(
            range("from=9&to=8").is_err() && range("from=-1").is_err() && range("to=now").is_err()
        );
    }

    #[test]
    fn ports_have_a_guid_and_a_number() {
        assert_eq!(
            port_key("0x00000000000000ab/7"),
            Ok((Guid(0xab), PortNum(7)))
        );
        for text in [
            "",
            "0xab/7",
            "0x00000000000000ab",
            "0x00000000000000ab/300",
            "0x00000000000000ab/-1",
        ] {
            assert!(port_key(text).is_err(), "{text}");
        }
    }
}
