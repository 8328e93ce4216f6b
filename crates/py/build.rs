//! Tells the library which instructions it was compiled for, so that Python can look before it
//! loads it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    println!("cargo:rustc-env=STORLAB_TARGET_FEATURES={features}");
}
