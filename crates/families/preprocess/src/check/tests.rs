//! Tests of the check with hand-made outputs, intact and damaged.

use std::sync::atomic::AtomicUsize;

use super::*;

/// Content of a hand-made output of preprocessing.
#[derive(Clone)]
struct Output {
    labels: Vec<u8>,
    numbers: Vec<[u16; NUMERICAL]>,
    ids: Vec<Vec<i32>>,
    widths: [usize; CATEGORIES],
    cardinalities: [u32; CATEGORIES],
}

impl Output {
    fn new(rows: usize) -> Self {
        let mut cardinalities: [u32; CATEGORIES] = std::array::from_fn(|column| column as u32 + 2);
        let mut widths = [1; CATEGORIES];
        (cardinalities[7], widths[7]) = (300, 2);
        (cardinalities[20], widths[20]) = (70_000, 4);
        let id = |row: usize, cardinality: u32| (row * 7919 % cardinality as usize) as i32;
        Output {
            labels: (0..rows).map(|row| u8::from(row % 5 == 0)).collect(),
            numbers: (0..rows)
                .map(|row| std::array::from_fn(|column| (row * 31 + column) as u16))
                .collect(),
            ids: cardinalities.map(|c| (0..rows).map(|row| id(row, c)).collect()).into(),
            widths,
            cardinalities,
        }
    }

    fn write(&self) -> tempfile::TempDir {
        let home = tempfile::tempdir_in(".").unwrap();
        let put = |name: &str, bytes: &[u8]| fs::write(home.path().join(name), bytes).unwrap();
        fs::create_dir_all(home.path().join("binary/train")).unwrap();
        fs::create_dir(home.path().join("vocabulary")).unwrap();
        put("binary/feature_spec.yaml", self.spec().as_bytes());
        put("binary/train/label.bin", &self.labels);
        let numbers = self.numbers.as_flattened().iter().flat_map(|x| x.to_le_bytes());
        put("binary/train/numerical.bin", &numbers.collect::<Vec<u8>>());
        for (column, ids) in self.ids.iter().enumerate() {
            let width = self.widths[column];
            let stored: Vec<u8> =
                ids.iter().flat_map(|id| id.to_le_bytes().into_iter().take(width)).collect();
            put(&format!("binary/train/cat_{column}.bin"), &stored);
            let kept = self.cardinalities[column] - 1;
            let values: Vec<u8> = (0..kept).flat_map(|i| (i * 3).to_le_bytes()).collect();
            let counts: Vec<u8> =
                (0..kept).flat_map(|i| u64::from(1 + (kept - i) / 2).to_le_bytes()).collect();
            put(&format!("vocabulary/C{}.values", column + 1), &values);
            put(&format!("vocabulary/C{}.counts", column + 1), &counts);
        }
        home
    }

    fn spec(&self) -> String {
        let mut text = "channel_spec:\n  label:\n  - label\nfeature_spec:\n".to_owned();
        for (column, cardinality) in self.cardinalities.into_iter().enumerate() {
            let bits = 8 * self.widths[column];
            let fields = format!("    cardinality: {cardinality}\n    dtype: int{bits}\n");
            text.extend([format!("  cat_{column}.bin:\n"), fields]);
        }
        text += "  label:\n    dtype: bool\n";
        text.extend((0..NUMERICAL).map(|index| format!("  num_{index}:\n    dtype: float16\n")));
        text + "metadata: {}\nsource_spec:\n  train:\n  - features:\n    - label\n"
    }

    fn checked(&self) -> Value {
        check(self.write().path()).unwrap()
    }

    /// Compute the digests of columns and rows in the simplest way.
    fn digests(&self) -> (serde_json::Map<String, Value>, String) {
        let hex = |bytes: &[u8]| Value::from(format!("{:016x}", xxh3_64(bytes)));
        let mut columns = serde_json::Map::new();
        columns.insert("label".into(), hex(&self.labels));
        for column in 0..NUMERICAL {
            let values = self.numbers.iter().flat_map(|row| row[column].to_le_bytes());
            columns.insert(format!("num_{column}"), hex(&values.collect::<Vec<u8>>()));
        }
        for (column, ids) in self.ids.iter().enumerate() {
            let ids: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            columns.insert(format!("cat_{column}"), hex(&ids));
        }
        let mut sum = 0u64;
        for (row, label) in self.labels.iter().enumerate() {
            let mut bytes = vec![*label];
            bytes.extend(self.numbers[row].iter().flat_map(|x| x.to_le_bytes()));
            bytes.extend(self.ids.iter().flat_map(|ids| ids[row].to_le_bytes()));
            sum = sum.wrapping_add(xxh3_64(&bytes));
        }
        (columns, format!("{sum:016x}"))
    }
}

#[test]
fn an_output_is_digested_as_it_would_be_by_hand() {
    let output = Output::new(1000);
    let checked = output.checked();
    let (columns, rows) = output.digests();
    assert_eq!(checked["columns"].as_object().unwrap(), &columns);
    assert_eq!(columns.len(), 40);
    assert_eq!(checked["rows_digest"], rows);
    assert_eq!(checked["rows"], 1000);
    assert_eq!(checked["cardinalities"], json!(output.cardinalities));
    assert_eq!(checked["dtypes"], json!({"numerical": "float16"}));
    let bytes = 1000 * (1 + 26 + 24 + 2 + 4) + output.spec().len();
    assert_eq!(checked["bytes"], bytes);
    // Digests of existing results: they must not change.
    assert_eq!(checked["rows_digest"], "8fd99ea27ee5e36f");
}

#[test]
fn vocabularies_are_digested_one_after_the_other() {
    let home = Output::new(10).write();
    let all: Vec<u8> = (1..=CATEGORIES)
        .flat_map(|column| ["values", "counts"].map(|kind| format!("vocabulary/C{column}.{kind}")))
        .flat_map(|name| fs::read(home.path().join(name)).unwrap())
        .collect();
    assert_eq!(check(home.path()).unwrap()["dictionary_digest"], digits(xxh3_64(&all)));
}

#[test]
fn blocks_and_threads_leave_no_trace() {
    let output = Output::new(2 * STRETCH_ROWS + 3);
    let home = output.write();
    let features = Features::read(&home.path().join("binary/feature_spec.yaml")).unwrap();
    let (columns, rows) = output.digests();
    for (threads, block_rows) in [(1, BLOCK_ROWS), (1, 5_000), (3, STRETCH_ROWS + 1)] {
        let mut table = Table::open(&home.path().join("binary/train"), &features).unwrap();
        assert_eq!(digits(table.digest(threads, block_rows, &|| false).unwrap().unwrap()), rows);
        for (name, digest) in table.digests() {
            assert_eq!(columns[&name], digits(digest), "{name}");
        }
    }
}

#[test]
fn the_order_of_rows_changes_columns_only() {
    let output = Output::new(100);
    let mut turned = output.clone();
    turned.labels.rotate_left(1);
    turned.numbers.rotate_left(1);
    turned.ids.iter_mut().for_each(|ids| ids.rotate_left(1));
    let (checked, other) = (output.checked(), turned.checked());
    assert_eq!(checked["rows_digest"], other["rows_digest"]);
    for (name, digest) in checked["columns"].as_object().unwrap() {
        assert_ne!(&other["columns"][name], digest, "{name}");
    }
    turned.ids[3].swap(0, 1);
    assert_ne!(turned.checked()["rows_digest"], other["rows_digest"]);
}

#[test]
fn the_type_of_ids_changes_no_digest() {
    let output = Output::new(100);
    let mut wider = output.clone();
    wider.widths = [4; CATEGORIES];
    wider.widths[3] = 2;
    let (mut checked, mut other) = (output.checked(), wider.checked());
    assert_ne!(checked["bytes"], other["bytes"]);
    for checked in [&mut checked, &mut other] {
        checked["bytes"] = Value::Null;
    }
    assert_eq!(checked, other);
}

/// Assert that the check fails with a message that contains the file name and these words.
fn refused(home: &Path, file: &str, words: &str) {
    let error = check(home).unwrap_err().to_string();
    assert!(error.contains(file) && error.contains(words), "{file}: {error}");
}

#[test]
fn rows_that_cannot_be_are_refused() {
    type Damage = (fn(&mut Output), &'static str, &'static str);
    let damages: [Damage; 6] = [
        (|output| output.labels[7] = 2, "label.bin", "label 2 in row 8"),
        (|output| output.ids[1][99] = 3, "cat_1.bin", "id 3 in row 100, and the cardinality is 3"),
        (|output| output.ids[7][5] = -1, "cat_7.bin", "id -1 in row 6"),
        (|output| output.ids[20][5] = 70_000, "cat_20.bin", "id 70000 in row 6"),
        (|output| output.ids[4].truncate(99), "cat_4.bin", "99 bytes; 1 for each of 100"),
        (|output| output.numbers.truncate(99), "numerical.bin", "26 for each of 100"),
    ];
    for (damage, file, words) in damages {
        let mut output = Output::new(100);
        damage(&mut output);
        refused(output.write().path(), file, words);
    }
    refused(Output::new(0).write().path(), "train", "the output has no rows");
}

#[test]
fn a_missing_file_is_named() {
    for file in [
        "binary/feature_spec.yaml",
        "binary/train/label.bin",
        "binary/train/numerical.bin",
        "binary/train/cat_25.bin",
        "vocabulary/C1.values",
        "vocabulary/C26.counts",
    ] {
        let home = Output::new(10).write();
        fs::remove_file(home.path().join(file)).unwrap();
        refused(home.path(), file, "No such file");
    }
}

#[test]
fn a_specification_that_cannot_be_is_refused() {
    for (line, instead, words) in [
        ("    cardinality: 300\n", "", "no cardinality of cat_7.bin"),
        ("cardinality: 300", "cardinality: 0", "gives cat_7.bin the impossible cardinality 0"),
        ("cardinality: 300", "cardinality: 32769", "int16, too small"),
        ("dtype: int32", "dtype: int64", "gives cat_20.bin the unknown dtype int64"),
        ("dtype: bool", "dtype: int8", "gives label the dtype int8"),
        ("num_7:\n    dtype: float16", "num_7:\n    dtype: float32", "num_7 float32"),
        ("dtype: float16", "dtype: bfloat16", "num_0 the unknown dtype bfloat16"),
    ] {
        let output = Output::new(10);
        let home = output.write();
        let text = output.spec();
        assert!(text.contains(line));
        let path = home.path().join("binary/feature_spec.yaml");
        fs::write(path, text.replace(line, instead)).unwrap();
        refused(home.path(), "feature_spec.yaml", words);
    }
}

#[test]
fn a_vocabulary_that_is_not_in_order_is_refused() {
    let numbers = |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect();
    let values = |values: &[u32]| values.iter().flat_map(|v| v.to_le_bytes()).collect();
    // C3 has three entries: values 0, 3, 6 with counts 2, 2, 1.
    let damages: [(&str, Vec<u8>, &str); 6] = [
        ("C3.counts", numbers(&[3, 2]), "16 bytes instead of 3 entries"),
        ("C3.values", values(&[0, 3, 6, 9]), "16 bytes instead of 3 entries"),
        ("C3.counts", numbers(&[2, 3, 1]), "not in order at id 2"),
        ("C3.counts", numbers(&[2, 1, 0]), "id 3 a count of 0"),
        ("C3.values", values(&[3, 0, 6]), "not in order at id 2"),
        ("C3.values", values(&[3, 3, 6]), "not in order at id 2"),
    ];
    for (file, bytes, words) in damages {
        let home = Output::new(10).write();
        fs::write(home.path().join("vocabulary").join(file), bytes).unwrap();
        refused(home.path(), file, words);
    }
}

#[test]
fn a_check_looks_no_further_than_the_run_goes() {
    let mut output = Output::new(100);
    output.ids[1][99] = 3; // equal to its cardinality
    let home = output.write();
    let features = Features::read(&home.path().join("binary/feature_spec.yaml")).unwrap();
    let digest = |blocks: usize| {
        let mut table = Table::open(&home.path().join("binary/train"), &features).unwrap();
        let looks = AtomicUsize::new(0);
        table.digest(1, 10, &|| looks.fetch_add(1, Ordering::Relaxed) == blocks)
    };
    assert_eq!(digest(9).unwrap(), None);
    assert!(digest(10).unwrap_err().to_string().contains("cat_1.bin"));
    assert_eq!(check_while(home.path(), &|| true).unwrap(), None);
}

#[test]
fn vocabularies_are_looked_at_as_long_as_the_run_goes() {
    let home = Output::new(10).write();
    let place = home.path().join("vocabulary");
    let counts: Vec<u8> = [2u64, 3, 1].iter().flat_map(|count| count.to_le_bytes()).collect();
    fs::write(place.join("C3.counts"), counts).unwrap(); // not in order
    let cardinalities: Vec<u64> = Output::new(10).cardinalities.map(u64::from).into();
    let digest = |over| dictionary::digest(&place, &cardinalities, 1, &|| over);
    assert_eq!(digest(true).unwrap(), None);
    assert!(digest(false).unwrap_err().to_string().contains("C3.counts"));
}
