//! Parses and formats points in time, in a named time zone.

use std::time::Duration;

use jiff::civil;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::error::AnalysisError;

/// A time zone.
#[derive(Clone, PartialEq, Debug)]
pub struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Self {
        Self::utc()
    }
}

impl Zone {
    /// Returns the time zone of this machine: `TZ`, or else the system setting, or else UTC.
    pub fn local() -> Self {
        Self(TimeZone::try_system().unwrap_or(TimeZone::UTC))
    }

    /// Returns UTC.
    pub const fn utc() -> Self {
        Self(TimeZone::UTC)
    }

    /// Parses a point in time and returns nanoseconds since 1970. `now` is the current time in
    /// nanoseconds.
    ///
    /// Accepts RFC 3339, `2026-11-21 12:00` and `12:00` in this zone, `-10m` and `+1h` relative
    /// to now, `now`, and a number since 1970. Its number of digits determines its unit: seconds,
    /// milliseconds, microseconds or nanoseconds.
    ///
    /// # Errors
    /// Returns an error if the text has none of these forms.
    pub fn parse(&self, text: &str, now: u64) -> Result<u64, AnalysisError> {
        let text = text.trim();
        self.instant(text, now).ok_or_else(|| AnalysisError::Time {
            text: text.to_owned(),
        })
    }

    fn instant(&self, text: &str, now: u64) -> Option<u64> {
        if text.eq_ignore_ascii_case("now") {
            return Some(now);
        }
        if !text.is_empty()
            && text
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
        {
            return epoch(text);
        }
        if let Some(before) = text.strip_prefix('-') {
            return now.checked_sub(nanos(before)?);
        }
        if let Some(after) = text.strip_prefix('+') {
            return now.checked_add(nanos(after)?);
        }
        if let Ok(instant) = text.parse::<Timestamp>() {
            return u64::try_from(instant.as_nanosecond()).ok();
        }
        let civil = text.parse::<civil::DateTime>().or_else(|error| {
            let today = self.zoned(now).ok_or(error)?.date();
            Ok::<_, jiff::Error>(today.to_datetime(text.parse::<civil::Time>()?))
        });
        let instant = self.0.to_timestamp(civil.ok()?).ok()?;
        u64::try_from(instant.as_nanosecond()).ok()
    }

    /// Converts a point in time to this zone. Returns `None` after the year 9999.
    pub fn zoned(&self, ns: u64) -> Option<Zoned> {
        Some(
            Timestamp::from_nanosecond(i128::from(ns))
                .ok()?
                .to_zoned(self.0.clone()),
        )
    }

    /// Returns the start of the next hour, or `None` after the year 9999.
    pub fn next_hour(&self, ns: u64) -> Option<u64> {
        let hour = self.zoned(ns)?.with().minute(0).second(0);
        let start = hour.subsec_nanosecond(0).build().ok()?;
        to_nanos(&start.checked_add(jiff::Span::new().hours(1)).ok()?)
    }

    /// Returns the start of the day, or `None` before 1970 and after the year 9999.
    pub fn start_of_day(&self, ns: u64) -> Option<u64> {
        to_nanos(&self.zoned(ns)?.start_of_day().ok()?)
    }

    /// Returns the start of the next day, or `None` after the year 9999.
    pub fn next_day(&self, ns: u64) -> Option<u64> {
        let tomorrow = self.zoned(ns)?.tomorrow().ok()?;
        to_nanos(&tomorrow.start_of_day().ok()?)
    }

    /// Returns the hour of the week at a point in time, from 0 (Monday at 0:00) to 167.
    pub fn hour_of_week(&self, ns: u64) -> usize {
        let hour = |zoned: Zoned| {
            24 * i32::from(zoned.weekday().to_monday_zero_offset()) + i32::from(zoned.hour())
        };
        self.zoned(ns)
            .and_then(|zoned| usize::try_from(hour(zoned)).ok())
            .unwrap_or(0)
    }

    /// Returns the quarter of its hour at a point in time, minus that of UTC: 0 to 3. Only few
    /// zones differ from 0.
    pub fn quarter_of_hour(&self, ns: u64) -> u64 {
        let quarters = |zoned: Zoned| zoned.offset().seconds().div_euclid(900).rem_euclid(4);
        self.zoned(ns)
            .and_then(|zoned| u64::try_from(quarters(zoned)).ok())
            .unwrap_or(0)
    }

    /// Formats a point in time by a format of strftime.
    pub fn format(&self, ns: u64, format: &str) -> String {
        let zoned = self.zoned(ns);
        zoned
            .and_then(|zoned| jiff::fmt::strtime::format(format, &zoned).ok())
            .unwrap_or_else(|| format!("{ns} ns"))
    }

    /// Returns the name of the zone, if it has one, and its offset from UTC at this point in time.
    pub fn name(&self, ns: u64) -> String {
        let offset = self.format(ns, "UTC%:z").replace("UTC+00:00", "UTC");
        match self.0.iana_name() {
            Some(name) if name != "UTC" && name != "Etc/UTC" => format!("{name}, {offset}"),
            _ => offset,
        }
    }
}

fn to_nanos(zoned: &Zoned) -> Option<u64> {
    u64::try_from(zoned.timestamp().as_nanosecond()).ok()
}

/// Parses a duration such as `10m` or `1h 30m`. Returns nanoseconds, or `None` if the text has
/// another form or means more than 580 years.
pub fn nanos(text: &str) -> Option<u64> {
    let length: Duration = humantime::parse_duration(text.trim()).ok()?;
    u64::try_from(length.as_nanos()).ok()
}

/// Parses a number that counts from 1970. Up to eleven digits before the point are seconds (until
/// the year 5138), up to fourteen are milliseconds, and so on.
fn epoch(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let unit = match whole.len() {
        1..=11 => 9,
        12..=14 => 6,
        15..=17 => 3,
        18..=20 => 0,
        _ => return None,
    };
    let fraction: String = fraction
        .chars()
        .chain("000000000".chars())
        .take(unit)
        .collect();
    format!("{whole}{fraction}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-21 12:00:00 UTC.
    const NOON: u64 = 1_795_262_400_000_000_000;

    fn berlin() -> Zone {
        Zone(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap())
    }

    #[test]
    fn common_time_formats_are_accepted() {
        for text in [
            "now",
            "2026-11-21T12:00:00Z",
            "2026-11-21 12:00:00Z",
            "2026-11-21T13:00:00+01:00",
            "2026-11-21 13:00",
            "2026-11-21T13:00:00",
            "13:00",
            "1795262400",
            "1795262400.0",
            "1795262400000",
            "1795262400000000000",
            "-0s",
        ] {
            assert_eq!(berlin().parse(text, NOON).ok(), Some(NOON), "{text}");
        }
        assert_eq!(
            berlin().parse("2026-11-21", NOON).unwrap(),
            NOON - 13 * 3_600_000_000_000
        );
        assert_eq!(
            berlin().parse("-1h30m", NOON).unwrap(),
            NOON - 5_400_000_000_000
        );
        assert_eq!(
            berlin().parse("+10m", NOON).unwrap(),
            NOON + 600_000_000_000
        );
        assert_eq!(
            Zone::utc().parse("2026-11-21 12:00:00.25", NOON).unwrap(),
            NOON + 250_000_000
        );
        assert_eq!(
            Zone::utc().parse("1795262400.25", NOON).unwrap(),
            NOON + 250_000_000
        );
    }

    #[test]
    fn malformed_time_is_rejected() {
        for text in [
            "",
            "noon",
            "2026-13-01",
            "25:00",
            "-",
            "-10",
            "1.2.3",
            "999999999999999999999",
            "1969-12-31",
            "-9999y",
        ] {
            assert!(berlin().parse(text, NOON).is_err(), "{text}");
        }
    }

    #[test]
    fn hours_of_the_week_are_local() {
        // A Saturday.
        assert_eq!(Zone::utc().hour_of_week(NOON), 5 * 24 + 12);
        assert_eq!(berlin().hour_of_week(NOON), 5 * 24 + 13);
        let sunday = NOON + 36 * 3_600_000_000_000 - 1;
        assert_eq!(Zone::utc().hour_of_week(sunday), 167);
        assert_eq!(berlin().hour_of_week(sunday), 0);
    }

    #[test]
    fn next_hour_and_day_follow_the_clock_of_the_zone() {
        const HOUR: u64 = 3_600_000_000_000;
        assert_eq!(berlin().next_hour(NOON), Some(NOON + HOUR));
        assert_eq!(berlin().next_hour(NOON + HOUR - 1), Some(NOON + HOUR));
        assert_eq!(berlin().next_day(NOON), Some(NOON + 11 * HOUR));
        assert_eq!(Zone::utc().next_day(NOON), Some(NOON + 12 * HOUR));
        // In Berlin, 2026-10-25 has 25 hours: the one at 2:00 comes twice.
        let sunday = berlin().parse("2026-10-25", NOON).unwrap();
        assert_eq!(berlin().next_day(sunday), Some(sunday + 25 * HOUR));
        let mut hours = vec![sunday];
        hours.extend((0..4).scan(sunday, |hour, _| {
            *hour = berlin().next_hour(*hour)?;
            Some(*hour)
        }));
        let names: Vec<_> = hours
            .iter()
            .map(|ns| berlin().format(*ns, "%H%z"))
            .collect();
        assert_eq!(
            names,
            ["00+0200", "01+0200", "02+0200", "02+0100", "03+0100"]
        );
    }

    #[test]
    fn zone_has_a_name_and_an_offset() {
        assert_eq!(
            (berlin().name(NOON), Zone::utc().name(NOON)),
            ("UTC+01:00".to_owned(), "UTC".to_owned())
        );
        assert_eq!(berlin().format(NOON, "%H:%M:%S"), "13:00:00");
        assert_eq!(berlin().format(u64::MAX, "%Y"), "2554");
    }
}
