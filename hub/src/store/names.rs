//! Assigns ids to the strings that many records repeat: names of counters, and statuses.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Max number of strings. Records of this version have fewer than 400. There must be a limit
/// because an input can invent names.
const MAX: usize = 4096;

/// Max length of a string in bytes, which the joined names of all saturated counters of a
/// record need.
const LONGEST: usize = 16 << 10;

/// Strings by id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    texts: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, u16>,
}

impl Names {
    /// Returns the id of a string, or `None` if it is unknown.
    pub(crate) fn find(&self, text: &str) -> Option<u16> {
        self.numbers.get(text).copied()
    }

    /// Returns the string of an id.
    pub(crate) fn text(&self, number: u16) -> &str {
        self.texts.get(usize::from(number)).map_or("", |text| text)
    }

    /// Returns the id of a string, and adds the string if it is new. Returns `None` if there are
    /// too many strings.
    pub(crate) fn number(this: &mut Arc<Self>, text: &str) -> Option<u16> {
        if let Some(number) = this.find(text) {
            return Some(number);
        }
        // Counter names are shorter. A string that joins too many of them is left out.
        if text.len() > LONGEST {
            return None;
        }
        let number = u16::try_from(this.texts.len())
            .ok()
            .filter(|number| usize::from(*number) < MAX)?;
        let names = Arc::make_mut(this);
        let text: Arc<str> = text.into();
        names.texts.push(Arc::clone(&text));
        names.numbers.insert(text, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_texts_is_limited() {
        let mut names = Arc::default();
        let numbers: Vec<_> = (0..=MAX)
            .map(|number| Names::number(&mut names, &number.to_string()))
            .collect();
        assert_eq!(
            (numbers[0], numbers[MAX - 1], numbers[MAX]),
            (Some(0), Some(4095), None)
        );
        assert_eq!(
            (
                Names::number(&mut names, "7"),
                names.text(7),
                names.find("x")
            ),
            (Some(7), "7", None)
        );
    }
}
