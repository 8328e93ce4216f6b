//! Build script that passes the compiler's target features to the library. Python compares them
//! with the processor's features before it loads the library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    println!("cargo:rustc-env=STORLAB_TARGET_FEATURES={features}");
}
