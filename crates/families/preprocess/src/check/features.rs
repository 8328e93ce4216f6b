//! Reader of `feature_spec.yaml`: types and cardinalities of the features.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use storlab_base::Result;

use super::{CATEGORIES, NUMERICAL, failed, wrong};

/// Types and cardinalities of the features, as given in `feature_spec.yaml`.
pub struct Features {
    /// Type of numerical features: `float16` or `float32`.
    pub numerical: String,
    /// Width of a numerical feature in bytes.
    pub numerical_width: usize,
    /// Cardinalities of cat_0 to cat_25: one more than the largest possible id.
    pub cardinalities: Vec<u64>,
    /// Width of the ids of each category column in bytes.
    pub id_widths: Vec<usize>,
    /// Size of `feature_spec.yaml` in bytes.
    pub bytes: u64,
}

/// Fields of the features: for each feature name, the values by field name.
type Fields<'t> = BTreeMap<&'t str, BTreeMap<&'t str, &'t str>>;

impl Features {
    /// Parse and check `feature_spec.yaml`.
    ///
    /// # Errors
    /// [`storlab_base::Error::Io`] if it cannot be read, [`storlab_base::Error::Spec`] if a field
    /// is missing or invalid, or a type is too small for its ids.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).map_err(failed("read", path))?;
        let fields = fields(&text);
        let field = |feature: &str, name: &str| {
            let value = fields.get(feature).and_then(|fields| fields.get(name)).copied();
            value.ok_or_else(|| wrong(path, format!("has no {name} of {feature}")))
        };
        let label = field("label", "dtype")?;
        if label != "bool" {
            return Err(wrong(path, format!("gives label the dtype {label} instead of bool")));
        }
        let numerical = field("num_0", "dtype")?;
        for index in 1..NUMERICAL {
            let dtype = field(&format!("num_{index}"), "dtype")?;
            if dtype != numerical {
                let what = format!("gives num_0 the dtype {numerical}, but num_{index} {dtype}");
                return Err(wrong(path, what));
            }
        }
        let numerical_width = match numerical {
            "float16" => 2,
            "float32" => 4,
            _ => return Err(wrong(path, format!("gives num_0 the unknown dtype {numerical}"))),
        };
        let mut cardinalities = Vec::new();
        let mut id_widths = Vec::new();
        for index in 0..CATEGORIES {
            let name = format!("cat_{index}.bin");
            let text = field(&name, "cardinality")?;
            let cardinality = text.parse().ok().filter(|&cardinality| cardinality > 0);
            cardinalities.push(cardinality.ok_or_else(|| {
                wrong(path, format!("gives {name} the impossible cardinality {text}"))
            })?);
            let dtype = field(&name, "dtype")?;
            let width = match dtype {
                "int8" => 1,
                "int16" => 2,
                "int32" => 4,
                _ => return Err(wrong(path, format!("gives {name} the unknown dtype {dtype}"))),
            };
            if cardinalities[index] > 1 << (8 * width - 1) {
                let what = format!("gives {name} the dtype {dtype}, too small for {text} ids");
                return Err(wrong(path, what));
            }
            id_widths.push(width);
        }
        let bytes = text.len() as u64;
        let numerical = numerical.to_owned();
        Ok(Features { numerical, numerical_width, cardinalities, id_widths, bytes })
    }
}

fn fields(text: &str) -> Fields<'_> {
    let mut fields = Fields::new();
    let (mut section, mut feature) = ("", "");
    for line in text.lines() {
        let Some((key, value)) = line.split_once(':') else { continue };
        let name = key.trim_start();
        match key.len() - name.len() {
            0 => section = name,
            2 => feature = name,
            4 if section == "feature_spec" => {
                fields.entry(feature).or_default().insert(name, value.trim());
            }
            _ => {}
        }
    }
    fields
}
