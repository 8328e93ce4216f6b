//! `feature_spec.yaml`, which describes the split binary to a trainer.
//!
//! The format is NVIDIA's dataset feature specification (`DeepLearningExamples`, recommenders).

use std::fmt::Write as _;

use super::columns::{CATEGORIES, INTEGERS};
use super::spec::Numerical;

/// Return the width in bytes of the ids of a column with this cardinality.
pub fn id_bytes(cardinality: u64) -> usize {
    match cardinality {
        0..127 => 1,
        127..32_767 => 2,
        _ => 4,
    }
}

fn id_type(cardinality: u64) -> &'static str {
    match id_bytes(cardinality) {
        1 => "int8",
        2 => "int16",
        _ => "int32",
    }
}

impl Numerical {
    /// Return the name of the type in results.
    pub fn word(self) -> &'static str {
        match self {
            Numerical::Float16 => "float16",
            Numerical::Float32 => "float32",
        }
    }
}

/// Return the content of `feature_spec.yaml`. `cardinalities` are those of `C1` to `C26`.
pub fn text(cardinalities: &[u64], numerical: Numerical) -> String {
    let list = |text: &mut String, indent: &str, prefix: &str, count: usize, suffix: &str| {
        for number in 0..count {
            let _ = writeln!(text, "{indent}- {prefix}{number}{suffix}");
        }
    };
    let mut text = String::from("channel_spec:\n  categorical:\n");
    list(&mut text, "  ", "cat_", CATEGORIES, ".bin");
    text.push_str("  label:\n  - label\n  numerical:\n");
    list(&mut text, "  ", "num_", INTEGERS, "");
    text.push_str("feature_spec:\n");
    for (number, &cardinality) in cardinalities.iter().enumerate() {
        let _ = writeln!(text, "  cat_{number}.bin:\n    cardinality: {cardinality}");
        let _ = writeln!(text, "    dtype: {}", id_type(cardinality));
    }
    text.push_str("  label:\n    dtype: bool\n");
    for number in 0..INTEGERS {
        let _ = writeln!(text, "  num_{number}:\n    dtype: {}", numerical.word());
    }
    text.push_str("metadata: {}\nsource_spec:\n  train:\n  - features:\n");
    list(&mut text, "    ", "num_", INTEGERS, "");
    let files = |text: &mut String, name: &str| {
        let _ = writeln!(text, "    files:\n    - train/{name}\n    type: split_binary");
    };
    files(&mut text, "numerical.bin");
    text.push_str("  - features:\n    - label\n");
    files(&mut text, "label.bin");
    for number in 0..CATEGORIES {
        let _ = writeln!(text, "  - features:\n    - cat_{number}.bin");
        files(&mut text, &format!("cat_{number}.bin"));
    }
    text
}
