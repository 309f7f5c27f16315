//! Numbers for the texts that many records repeat: names of counters, and statuses.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Largest number of texts. The records of this version have fewer than 400. A limit is needed,
/// because an input can invent names.
const MOST: usize = 4096;

/// Longest text in octets: the names of all saturated counters of a record.
const LONGEST: usize = 16 << 10;

/// Texts by number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Names {
    texts: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, u16>,
}

impl Names {
    /// Returns the number of a text. Returns `None` if the text is not known.
    pub(crate) fn find(&self, text: &str) -> Option<u16> {
        self.numbers.get(text).copied()
    }

    /// Returns the text of a number.
    pub(crate) fn text(&self, number: u16) -> &str {
        self.texts.get(usize::from(number)).map_or("", |text| text)
    }

    /// Returns the number of a text, and adds the text if it is new. Returns `None` if there are
    /// too many texts.
    pub(crate) fn number(this: &mut Arc<Self>, text: &str) -> Option<u16> {
        if let Some(number) = this.find(text) {
            return Some(number);
        }
        // Names of counters are shorter. A text that joins many of them is left out.
        if text.len() > LONGEST {
            return None;
        }
        let number = u16::try_from(this.texts.len())
            .ok()
            .filter(|number| usize::from(*number) < MOST)?;
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
        let numbers: Vec<_> = (0..=MOST)
            .map(|number| Names::number(&mut names, &number.to_string()))
            .collect();
        assert_eq!(
            (numbers[0], numbers[MOST - 1], numbers[MOST]),
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
