//! The positions of all fields of registers, compared with the register database of mstflint.
//!
//! Debian's package `mstflint` has the database; `make test-all` installs it. It is read here and
//! is not a part of this repository. `IBNET_REGISTER_DATABASE=SWITCH:HCA` compares with the two
//! files of another edition, which must have the fields that Debian's lacks too.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::BTreeMap;
use std::ops::Range;

use ibnet_record::attributes::Field;
use ibnet_record::registers::{Page, Register};

/// The database of Debian's package.
const INSTALLED: &str = "/usr/share/mstflint/prm_dbs/switch/ext/register_access_table.adb";

/// Names that are different in mstflint 4.21: ours, which is that of newer editions, and theirs.
const RENAMED: [(&str, &str); 5] = [
    ("symbol_ber_coef", "symbol_fec_ber_coef"),
    (
        "plr_xmit_retry_events_within_t_sec_max",
        "plr_xmit_retry_codes_within_t_sec_max",
    ),
    ("last_raw_ber_coef", "last_ber_mantissa"),
    ("last_raw_ber_magnitude", "last_ber_exp"),
    ("num_of_raw_ber_alarms", "num_of_ber_alarams"),
];

/// The only fields of requests that the database does not call an index. They choose the contents
/// of the reply.
const OPERATIONS: [&str; 2] = ["module_info_ext", "num_rec"];

/// A field of the database, or an array.
#[derive(Clone, Debug)]
struct Leaf {
    name: String,
    bits: Range<usize>,
    access: String,
}

/// The nodes of a database, by name: the lines of their fields.
struct Database(BTreeMap<String, (bool, Vec<String>)>);

/// Returns an attribute of a line. Quotes within values are escaped.
fn attribute<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, value) = line.split_once(&format!(" {name}=\"")).or_else(|| {
        // A tab can stand before it.
        line.split_once(&format!("\t{name}=\""))
    })?;
    value.split('"').next()
}

/// Parses a position or a size: octets in hexadecimal, a dot, and bits.
fn parse(text: &str) -> (usize, usize) {
    let (octets, bits) = text.split_once('.').unwrap_or((text, "0"));
    let octets = usize::from_str_radix(octets.trim_start_matches("0x"), 16).unwrap();
    (octets, bits.parse().unwrap())
}

impl Database {
    fn new(text: &str) -> Self {
        let mut nodes = BTreeMap::new();
        let mut current = String::new();
        for line in text.lines() {
            let line = line.trim_start();
            if line.starts_with("<node ") {
                current = attribute(line, "name").unwrap().to_owned();
                let is_union = attribute(line, "attr_is_union") == Some("1");
                nodes.insert(current.clone(), (is_union, Vec::new()));
            } else if line.starts_with("<field ") && !current.is_empty() {
                nodes.get_mut(&current).unwrap().1.push(line.to_owned());
            }
        }
        Self(nodes)
    }

    /// Returns the fields of a node that begins at an octet, with those of nodes within it.
    fn leaves(&self, node: &str, begin: usize) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        for line in &self.0[node].1 {
            let text = |name| attribute(line, name);
            let ((octet, low), (octets, bits)) =
                (parse(text("offset").unwrap()), parse(text("size").unwrap()));
            let len = 1 + text("high_bound").map_or(0, |last| last.parse().unwrap());
            let total = 8 * octets + bits;
            let width = total / len;
            // A value of less than a dword counts its lowest bit from the right.
            let skipped = if width < 32 { 32 - low - width } else { 0 };
            let first = 8 * (begin + octet) + skipped;
            // `uint64` is a type, and a union has several layouts of the same octets.
            let within = text("subnode").filter(|node| {
                *node != "uint64" && self.0.get(*node).is_some_and(|(is_union, _)| !is_union)
            });
            if let Some(node) = within {
                for index in 0..len {
                    leaves.extend(self.leaves(node, begin + octet + index * width / 8));
                }
                continue;
            }
            leaves.push(Leaf {
                name: text("name").unwrap().to_owned(),
                bits: first..first + total,
                access: text("access").unwrap_or_default().to_owned(),
            });
        }
        leaves
    }

    /// Returns the node of a register or of a page, which have different endings.
    fn node(&self, name: &str) -> Option<String> {
        let names = [format!("{name}_ext"), format!("{name}_reg_ext")];
        let same = |name: &String| self.0.keys().find(|key| key.eq_ignore_ascii_case(name));
        names.iter().find_map(same).cloned()
    }

    /// Returns the fields of a register, and those of its page. What the database lacks is empty.
    fn register(&self, register: &Register) -> (Vec<Leaf>, Vec<Leaf>) {
        let of = |name, begin| {
            let node = self.node(name);
            node.map_or_else(Vec::new, |node| self.leaves(&node, begin))
        };
        let own = of(register.name, 0);
        // A register with pages has a union where the page is.
        let union = own
            .iter()
            .find(|leaf| ["counter_set", "page_data"].contains(&&*leaf.name));
        let page = union.map_or_else(
            || own.clone(),
            |union| {
                let before = own.iter().filter(|leaf| leaf.bits.end <= union.bits.start);
                let page = of(register.layout, union.bits.start / 8).into_iter();
                page.chain(before.cloned()).collect()
            },
        );
        (own, page)
    }
}

/// Returns whether the fields of the database tile the field, and have its name.
fn agrees(field: &Field, leaves: &[Leaf]) -> bool {
    // Values without gaps are compared as a whole: a text of 16 characters can be 4 dwords.
    let is_whole = field.stride == field.width;
    let mut runs = (0..if is_whole { 1 } else { field.len }).map(|index| {
        let first = usize::from(field.first_bit) + usize::from(index) * usize::from(field.stride);
        let end = if is_whole {
            field.end_bit().into()
        } else {
            first + usize::from(field.width)
        };
        first..end
    });
    // The parts of a value have endings, such as `high` and `low`, and lanes have numbers.
    let stem = |name: &str| str::trim_end_matches(name, char::is_numeric).to_owned();
    let is_named = |leaf: &Leaf, is_part: bool| {
        let (ours, theirs) = (stem(field.name), stem(&leaf.name));
        theirs == ours
            || is_part && theirs.starts_with(&ours)
            || RENAMED.iter().any(|(new, old)| {
                field.name == *new && (leaf.name == *old || is_part && leaf.name.starts_with(old))
            })
    };
    runs.all(|run| {
        let parts: Vec<&Leaf> = leaves
            .iter()
            .filter(|leaf| leaf.bits.start < run.end && run.start < leaf.bits.end)
            .collect();
        let covered: usize = parts.iter().map(|leaf| leaf.bits.len()).sum();
        let is_within = |leaf: &&Leaf| run.start <= leaf.bits.start && leaf.bits.end <= run.end;
        covered == run.len()
            && parts
                .iter()
                .all(|leaf| is_within(leaf) && is_named(leaf, parts.len() > 1))
    })
}

mod with_tools {
    use std::io::Write;

    use super::*;

    /// Reads files, separated by colons. Says so and returns `None` if one is missing.
    fn texts(files: &str) -> Option<Vec<String>> {
        let texts: Result<Vec<String>, _> = files.split(':').map(std::fs::read_to_string).collect();
        if texts.is_err() {
            assert!(
                files == INSTALLED && std::env::var_os("IBNET_REQUIRE_TOOLS").is_none(),
                "the register database of mstflint is missing: run `make deps-all`"
            );
            // The test runner would capture the output of `eprintln!`.
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: {INSTALLED} is missing; `make deps-all` installs it"
            );
        }
        texts.ok()
    }

    #[test]
    fn every_field_has_the_position_in_the_register_database() {
        let other = std::env::var("IBNET_REGISTER_DATABASE").ok();
        let files = other.as_deref().unwrap_or(INSTALLED);
        let Some(texts) = texts(files) else { return };
        let databases: Vec<Database> = texts.iter().map(|text| Database::new(text)).collect();
        let (mut compared, mut left_out, mut faults) = (0, 0, Vec::new());
        for page in Page::ALL {
            let register = page.register();
            let (own, layout): (Vec<_>, Vec<_>) = databases
                .iter()
                .map(|database| database.register(register))
                .unzip();
            let selectors = register.request.iter().map(|(field, _)| (field, &own));
            let fields = register.fields.iter().map(|field| (field, &layout));
            for (field, editions) in selectors.chain(fields) {
                let expected = field.is_compared || other.is_some();
                if editions.iter().any(|leaves| agrees(field, leaves)) == expected {
                    *(if expected {
                        &mut compared
                    } else {
                        &mut left_out
                    }) += 1;
                } else if expected {
                    faults.push(format!("{page}: {} is elsewhere", field.name));
                } else {
                    faults.push(format!("{page}: {} agrees; remove its mark", field.name));
                }
            }
        }
        println!(
            "{compared} fields compared, {} differ, {left_out} not compared",
            faults.len()
        );
        assert!(faults.is_empty(), "{faults:#?}");
        // The numbers of docs/inside/registers.md.
        if other.is_none() {
            assert_eq!((compared, left_out), (212, 101));
        }
    }

    #[test]
    fn no_request_has_a_field_that_acts() {
        let Some(texts) = texts(INSTALLED) else {
            return;
        };
        let database = Database::new(&texts[0]);
        for page in Page::ALL {
            let register = page.register();
            let (own, _) = database.register(register);
            for (field, _) in register.request {
                let bits = usize::from(field.first_bit)..usize::from(field.end_bit());
                let acts = own.iter().filter(|leaf| {
                    leaf.bits.start < bits.end
                        && bits.start < leaf.bits.end
                        && leaf.access != "INDEX"
                });
                for leaf in acts {
                    assert!(OPERATIONS.contains(&&*leaf.name), "{page}: {leaf:?}");
                }
            }
        }
    }
}

#[test]
fn a_wrong_position_or_name_is_found() {
    let database = Database::new(
        r#"<node name="some_reg_ext" descr="" size="0x10.0" >
	<field name="kind" descr="a &quot;b&quot;" access="INDEX" offset="0x0.4" size="0x0.4" />
	<field name="errors_high" descr="" access="RO" offset="0x4.0" size="0x4.0" />
	<field name="errors_low" descr="" access="RO" offset="0x8.0" size="0x4.0" />
	<field name="state" descr="" access="RO" high_bound="7" offset="0xC.28" size="0x4.0" />
</node>"#,
    );
    let leaves = database.leaves("some_reg_ext", 0);
    let agrees = |name, first_bit, width, len| {
        agrees(
            &Field::new(name, name, first_bit, width).array(len),
            &leaves,
        )
    };
    assert!(agrees("kind", 24, 4, 1) && agrees("errors", 32, 64, 1));
    assert!(agrees("state", 96, 4, 8));
    assert!(!agrees("kind", 23, 4, 1) && !agrees("kind", 24, 5, 1));
    assert!(!agrees("errors", 32, 32, 1) && !agrees("errors", 33, 64, 1));
    assert!(!agrees("faults", 32, 64, 1) && !agrees("state", 96, 4, 7));
    assert!(!agrees("absent", 0, 8, 1));
}
