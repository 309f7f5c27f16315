//! Makes the bindings of libibumad and libibmad; nothing without the feature `umad`.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "umad")]
    umad::bind();
}

#[cfg(feature = "umad")]
mod umad {
    use std::env;
    use std::path::PathBuf;

    /// Both sets of bindings go into one file, `rdma_core.rs`, which `src/mad/transport/umad/sys.rs` includes.
    pub(super) fn bind() {
        let mut flags = Vec::new();
        for library in ["libibumad", "libibmad"] {
            match pkg_config::probe_library(library) {
                Ok(found) => flags.extend(found.include_paths.iter().map(|path| format!("-I{}", path.display()))),
                Err(error) => panic!(
                    "{library} was not found by pkg-config.\n\
                     Run `make deps`, or install libibumad-dev, libibmad-dev, libclang-dev and pkg-config,\n\
                     or build without InfiniBand: cargo build --no-default-features\n\n{error}"
                ),
            }
        }
        let bindings = bindgen::Builder::default()
            .header_contents("rdma_core.h", "#include <infiniband/umad.h>\n#include <infiniband/mad.h>\n")
            .clang_args(flags)
            // Built anew when the headers change.
            .parse_callbacks(Box::new(bindgen::CargoCallbacks::new()))
            // libibumad carries the MADs.
            .allowlist_function("umad_(init|done|get_cas_names|get_ca|release_ca|get_port|release_port|open_port|close_port)")
            .allowlist_function("umad_(get_fd|register|unregister|send|recv|size|status|get_mad|set_addr|set_pkey)")
            .allowlist_type("ib_user_mad|ib_mad_addr|umad_ca|umad_port")
            .allowlist_var("UMAD_.*")
            // libibmad is the oracle of the codec's tests.
            .allowlist_function("mad_get_field|mad_get_field64|mad_get_array")
            .allowlist_type("MAD_FIELDS")
            .default_enum_style(bindgen::EnumVariation::ModuleConsts)
            // The layout is asserted by bindgen at compile time; Debug and Default would only lengthen the build.
            .derive_debug(false)
            .formatter(bindgen::Formatter::None)
            .generate_comments(false)
            .generate()
            .expect("rdma-core's headers are readable by libclang");
        let path = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("rdma_core.rs");
        bindings.write_to_file(path).expect("OUT_DIR is writable");
    }
}
