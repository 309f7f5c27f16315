//! Hours in UTC. Each hour is one folder of each table.

use std::fmt;

/// Nanoseconds of an hour.
pub const HOUR_NS: u64 = 3_600_000_000_000;

/// An hour in UTC, as the number of hours since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Hour(pub u32);

impl Hour {
    /// Returns the hour of a time in nanoseconds since 1970.
    pub const fn of(ts: u64) -> Self {
        // 2^64 ns are about 5 million hours, which fit.
        Self((ts / HOUR_NS) as u32)
    }

    /// Returns the start in nanoseconds since 1970.
    pub const fn start(self) -> u64 {
        self.0 as u64 * HOUR_NS
    }

    /// Returns the end in nanoseconds since 1970, exclusive.
    pub const fn end(self) -> u64 {
        self.start().saturating_add(HOUR_NS)
    }

    /// Parses the two folders of an hour, such as `date=2026-11-21` and `hour=13`.
    pub fn parse(date: &str, hour: &str) -> Option<Self> {
        let date: jiff::civil::Date = date.strip_prefix("date=")?.parse().ok()?;
        let hour: u32 = hour
            .strip_prefix("hour=")?
            .parse()
            .ok()
            .filter(|hour| *hour < 24)?;
        let days = (date - jiff::civil::date(1970, 1, 1)).get_days();
        Some(Self(u32::try_from(days).ok()? * 24 + hour))
    }
}

impl fmt::Display for Hour {
    /// Prints the two folders, such as `date=2026-11-21/hour=13`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = i64::from(self.0) * 3600;
        let date = jiff::Timestamp::from_second(second)
            .map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).date());
        let date = date.unwrap_or(jiff::civil::Date::MAX);
        write!(f, "date={date}/hour={:02}", self.0 % 24)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_an_hour_are_parsed_to_the_same_hour() {
        for ts in [0, 1_795_000_000_000_000_000, i64::MAX as u64] {
            let hour = Hour::of(ts);
            let text = hour.to_string();
            let (date, folder) = text.split_once('/').unwrap();
            assert_eq!(Hour::parse(date, folder), Some(hour), "{text}");
            assert!((hour.start()..hour.end()).contains(&ts));
        }
        assert_eq!(
            Hour::of(1_795_000_000_000_000_000).to_string(),
            "date=2026-11-18/hour=11"
        );
        for (date, hour) in [
            ("date=2026-11-31", "hour=00"),
            ("date=2026-11-30", "hour=24"),
            ("2026-11-30", "hour=01"),
            ("", ""),
        ] {
            assert_eq!(Hour::parse(date, hour), None);
        }
    }
}
