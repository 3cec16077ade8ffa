//! How the shipped program is linked.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let of = |name| env::var(name).unwrap_or_default();
    // Rust's own linker, which is the usual one for this target, keeps one of functions that are alike to the last byte: for
    // each type and each unit of code there is one, and together they were a fifth of the program.
    // <https://doc.rust-lang.org/rustc/codegen-options/index.html#linker-features>
    if of("PROFILE") == "release" && of("TARGET") == "x86_64-unknown-linux-gnu" {
        println!("cargo:rustc-link-arg-bins=-Wl,--icf=all");
        println!("cargo:rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
        // The kernel maps 64 KiB around each page that is touched. With what an operator runs in one place, it takes a quarter less
        // memory. The demo's program, which is optimized less, does without: it is linked sooner.
        println!("cargo:rerun-if-changed=link/order.ld");
        if of("OPT_LEVEL") == "z" {
            println!("cargo:rustc-link-arg-bins=-T{}/link/order.ld", of("CARGO_MANIFEST_DIR"));
        }
    }
}
