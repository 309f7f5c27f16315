//! A number with what it counts, in a text.

use std::fmt::Display;

/// Returns `1 port`, `2 ports` or `2 switches`.
pub fn count<N: Display + PartialEq + From<u8>>(number: N, one: &str) -> String {
    let ending = match number == N::from(1) {
        true => "",
        false if one.ends_with("ch") => "es",
        false => "s",
    };
    format!("{number} {one}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_singular() {
        let found = [
            count(0_u64, "port"),
            count(1_u32, "port"),
            count(2_usize, "leaf switch"),
        ];
        assert_eq!(found, ["0 ports", "1 port", "2 leaf switches"]);
    }
}
