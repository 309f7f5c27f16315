//! Generates the bindings of libibumad and libibmad. Does nothing without the feature `umad`.
//!
//! Two files are written to `OUT_DIR`, and only `src/mad/transport/umad/sys.rs` includes them.
//!
//! | file | contents |
//! |---|---|
//! | `rdma_core.rs` | 24 functions, 5 structs, 2 constants, `MAD_FIELDS` (see the allowlists) |
//! | `libibmad_fields.rs` | a table with the names and numbers of about 460 fields of libibmad |

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "umad")]
    umad::bind();
}

#[cfg(feature = "umad")]
mod umad {
    use std::cell::RefCell;
    use std::env;
    use std::fmt::Write as _;
    use std::fs;
    use std::path::PathBuf;
    use std::rc::Rc;

    use bindgen::callbacks::{EnumVariantValue, ParseCallbacks};

    /// Prefixes of the libibmad fields that the library compares with its own decoding.
    ///
    /// They belong to the attributes of performance management, and to NodeInfo, PortInfo,
    /// SwitchInfo, PathRecord, SMInfo and ExtendedPortInfo.
    const FIELD_PREFIXES: [&str; 10] = [
        "IB_PC_",
        "IB_PESC_",
        "IB_PSC_",
        "IB_CPI_",
        "IB_MLNX_EXT_PORT_",
        "IB_NODE_",
        "IB_PORT_",
        "IB_SA_PR_",
        "IB_SMINFO_",
        "IB_SW_",
    ];

    pub(super) fn bind() {
        let mut flags = Vec::new();
        for library in ["libibumad", "libibmad"] {
            match pkg_config::probe_library(library) {
                Ok(found) => flags.extend(
                    found
                        .include_paths
                        .iter()
                        .map(|path| format!("-I{}", path.display())),
                ),
                Err(error) => panic!(
                    "cannot build the feature `umad`: pkg-config does not find {library}\n\n\
                     Install the headers of rdma-core, libclang and pkg-config:\n\
                     \x20 Debian, Ubuntu:    apt-get install libibumad-dev libibmad-dev libclang-dev pkg-config\n\
                     \x20 RHEL, Rocky, Alma: dnf install rdma-core-devel clang-devel pkgconf-pkg-config\n\
                     \x20                    (rdma-core-devel: enable the repository `crb`)\n\
                     Or build without InfiniBand:\n\
                     \x20 cargo build --no-default-features\n\n{error}"
                ),
            }
        }
        let fields = Fields::default();
        let bindings = bindgen::Builder::default()
            .header_contents("rdma_core.h", "#include <infiniband/umad.h>\n#include <infiniband/mad.h>\n")
            .clang_args(flags)
            // Makes Cargo run this script again when a header changes.
            .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
            .parse_callbacks(Box::new(fields.clone()))
            // libibumad sends and receives the MADs.
            .allowlist_function("umad_(init|get_cas_names|get_ca|release_ca|get_port|release_port|open_port|close_port)")
            .allowlist_function("umad_(get_fd|register|send|recv|size|set_addr|set_pkey)")
            .allowlist_type("ib_user_mad|ib_mad_addr|umad_ca|umad_port")
            .allowlist_var("UMAD_CA_NAME_LEN|UMAD_MAX_DEVICES")
            // libibmad decodes attributes a second time, for comparison: `mad::libibmad`.
            .allowlist_function("mad_get_field|mad_get_field64|mad_get_array")
            .allowlist_type("MAD_FIELDS")
            // libibmad reads attributes a second time, for comparison: `umad::rpc`.
            .allowlist_function("mad_rpc_open_port|mad_rpc_close_port|mad_rpc_set_retries")
            .allowlist_function("pma_query_via|smp_query_via|ib_path_query_via")
            .opaque_type("ibmad_port")
            .default_enum_style(bindgen::EnumVariation::ModuleConsts)
            // The structs need neither Debug nor Default. Their layout is checked at compile time.
            .derive_debug(false)
            .formatter(bindgen::Formatter::None)
            .generate_comments(false)
            .generate()
            .unwrap_or_else(|error| panic!("cannot build the feature `umad`: libclang cannot parse the headers of rdma-core: {error}"));
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        bindings
            .write_to_file(out.join("rdma_core.rs"))
            .expect("cargo makes OUT_DIR writable");
        fs::write(out.join("libibmad_fields.rs"), fields.table())
            .expect("cargo makes OUT_DIR writable");
    }

    /// Collects the names and numbers of libibmad's fields while bindgen parses the header.
    #[derive(Clone, Default, Debug)]
    struct Fields(Rc<RefCell<Vec<(String, i64)>>>);

    impl ParseCallbacks for Fields {
        fn enum_variant_name(
            &self,
            enum_name: Option<&str>,
            name: &str,
            value: EnumVariantValue,
        ) -> Option<String> {
            let number = match value {
                EnumVariantValue::Signed(number) => number,
                EnumVariantValue::Unsigned(number) => number.try_into().ok()?,
                EnumVariantValue::Boolean(_) => return None,
            };
            let is_field = enum_name.is_some_and(|name| name.ends_with("MAD_FIELDS"));
            if is_field && FIELD_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
                self.0.borrow_mut().push((name.to_owned(), number));
            }
            // `None` keeps the name.
            None
        }
    }

    impl Fields {
        /// Returns a Rust array of (name, number), sorted by name for a binary search.
        fn table(&self) -> String {
            let mut fields = self.0.borrow().clone();
            fields.sort();
            fields.dedup();
            let mut text =
                "pub(super) static FIELDS: &[(&str, MAD_FIELDS::Type)] = &[\n".to_owned();
            for (name, number) in fields {
                let _ = writeln!(text, "    (\"{name}\", {number}),");
            }
            text + "];\n"
        }
    }
}
