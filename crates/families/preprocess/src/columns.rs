//! Columns of one row group: filled by the parser, then written as Parquet.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::Int32Type;
use parquet::errors::Result;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use super::spec::Codec;

/// Number of integer columns, `I1` to `I13`.
pub const INTEGERS: usize = 13;
/// Number of category columns, `C1` to `C26`.
pub const CATEGORIES: usize = 26;
/// Memory per row while rows are parsed and written, in bytes: values, mask of non-null columns,
/// and definition levels and unfinished pages of Parquet.
pub const ROW_BYTES: usize = 240;

const NULLABLE: usize = INTEGERS + CATEGORIES;
/// Number of values of a column that are examined for repeated values.
const SAMPLE: usize = 8192;
/// Size in bits of the hash set that detects repeated values.
const SEEN: usize = 1 << 16;

/// Rows of one row group, by column. Each column holds its non-null values only; a bit mask per row
/// shows which columns have a value.
pub struct Columns {
    labels: Vec<i32>,
    /// Mask of each row: bit `c` is set if the row has a value in column `c`.
    present: Vec<u64>,
    values: Vec<Vec<u32>>,
    lengths: [usize; NULLABLE],
    levels: Vec<i16>,
    limit: usize,
}

impl Columns {
    /// Create empty columns with space for `limit` rows.
    pub fn new(limit: usize) -> Self {
        Columns {
            labels: Vec::with_capacity(limit),
            present: Vec::with_capacity(limit),
            values: vec![vec![0; limit + 1]; NULLABLE],
            lengths: [0; NULLABLE],
            levels: Vec::with_capacity(limit),
            limit,
        }
    }

    /// Append a value of the current row to a column, if `there`; otherwise the column is null.
    #[inline]
    pub fn put(&mut self, column: usize, value: u32, there: bool) {
        let length = &mut self.lengths[column];
        self.values[column][*length] = value;
        *length += usize::from(there);
    }

    /// Complete the current row with its label and the mask of its non-null columns.
    #[inline]
    pub fn end_row(&mut self, label: i32, present: u64) {
        self.labels.push(label);
        self.present.push(present);
    }

    /// Discard the current row: remove its values from the columns whose bit is set in `present`.
    pub fn undo(&mut self, present: u64) {
        for (column, length) in self.lengths.iter_mut().enumerate() {
            *length -= (present >> column & 1) as usize;
        }
    }

    /// Return the number of complete rows.
    pub fn rows(&self) -> usize {
        self.labels.len()
    }

    /// Return whether the row group has reached its limit of rows.
    pub fn is_full(&self) -> bool {
        self.labels.len() == self.limit
    }

    /// Return the non-null values of a column.
    pub fn values(&self, column: usize) -> &[u32] {
        &self.values[column][..self.lengths[column]]
    }

    /// Remove all rows, but keep the buffers for reuse.
    pub fn clear(&mut self) {
        self.labels.clear();
        self.present.clear();
        self.lengths = [0; NULLABLE];
    }

    /// Write all rows as one row group of a Parquet file.
    pub fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<()> {
        let mut group = file.next_row_group()?;
        write_column(&mut group, &self.labels, None)?;
        for column in 0..NULLABLE {
            self.levels.clear();
            self.levels.extend(self.present.iter().map(|mask| (mask >> column & 1) as i16));
            // Parquet stores signed and unsigned 32-bit columns as `i32`.
            let values = bytemuck::must_cast_slice(&self.values[column][..self.lengths[column]]);
            write_column(&mut group, values, Some(&self.levels))?;
        }
        group.close()?;
        Ok(())
    }
}

fn write_column<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &[i32],
    levels: Option<&[i16]>,
) -> Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    column.typed::<Int32Type>().write_batch(values, levels, None)?;
    column.close()
}

fn name_of(column: usize) -> String {
    match column.checked_sub(INTEGERS) {
        None => format!("I{}", column + 1),
        Some(category) => format!("C{}", category + 1),
    }
}

/// Return the Parquet schema: `label` int8, `I1` to `I13` nullable int32, `C1` to `C26` nullable
/// uint32. It is built once, because it is needed for every part and every footer.
pub fn schema() -> Result<TypePtr> {
    static MADE: OnceLock<TypePtr> = OnceLock::new();
    if let Some(made) = MADE.get() {
        return Ok(made.clone());
    }
    make_schema().map(|made| MADE.get_or_init(|| made).clone())
}

fn make_schema() -> Result<TypePtr> {
    let field = |name: &str, repetition, logical| {
        Type::primitive_type_builder(name, Physical::INT32)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let integer = |bit_width, is_signed| Some(LogicalType::integer(bit_width, is_signed));
    let mut fields = vec![field("label", Repetition::REQUIRED, integer(8, true))?];
    for column in 0..NULLABLE {
        let logical = integer(32, column < INTEGERS);
        fields.push(field(&name_of(column), Repetition::OPTIONAL, logical)?);
    }
    Ok(Arc::new(Type::group_type_builder("clicks").with_fields(fields).build()?))
}

/// Choose codec and encodings of a Parquet file. Columns with repeated values get a dictionary: it
/// makes files smaller, and the time to build it is regained when reading.
pub fn properties(codec: Codec, columns: &Columns) -> WriterPropertiesPtr {
    let compression = match codec {
        Codec::None => Compression::UNCOMPRESSED,
        Codec::Snappy => Compression::SNAPPY,
        Codec::Lz4 => Compression::LZ4_RAW,
        Codec::Zstd => Compression::ZSTD(ZstdLevel::default()),
    };
    let mut properties = WriterProperties::builder()
        .set_compression(compression)
        .set_dictionary_enabled(true)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_offset_index_disabled(true)
        .set_write_batch_size(8192)
        .set_data_page_row_count_limit(1 << 17)
        .set_created_by(format!("storlab {}", env!("CARGO_PKG_VERSION")));
    for column in 0..NULLABLE {
        let path = ColumnPath::from(name_of(column));
        let repeats = repeat(columns.values(column));
        properties = properties.set_column_dictionary_enabled(path, repeats);
    }
    Arc::new(properties.build())
}

/// Return whether at most half of the first 8192 values are distinct.
fn repeat(values: &[u32]) -> bool {
    let first = &values[..values.len().min(SAMPLE)];
    let mut seen = vec![0u64; SEEN / 64];
    let mut distinct = 0;
    for &value in first {
        let place = (value.wrapping_mul(0x9e37_79b9) >> (32 - SEEN.trailing_zeros())) as usize;
        let bit = 1 << (place % 64);
        distinct += usize::from(seen[place / 64] & bit == 0);
        seen[place / 64] |= bit;
    }
    distinct <= first.len() / 2
}
