//! The columns of a row group while it is parsed, and as Parquet.

use std::io::Write;
use std::sync::{Arc, OnceLock};

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::Int32Type;
use parquet::errors::Result;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

use super::spec::Codec;

/// Columns of integers, `I1` and so on.
pub const INTEGERS: usize = 13;
/// Columns of categories, `C1` and so on.
pub const CATEGORIES: usize = 26;
/// Of a row while it is parsed and written: its values, a mask, levels, and pages on their way.
pub const ROW_BYTES: usize = 240;

const NULLABLE: usize = INTEGERS + CATEGORIES;
/// Values of a column that are looked at to see whether they repeat.
const SAMPLE: usize = 8192;
/// Places, by hash, in which one was seen.
const SEEN: usize = 1 << 16;

/// The rows of one row group. Values lie one after the other; which rows have one, a mask says.
pub struct Columns {
    labels: Vec<i32>,
    /// Bit `c`: the row has a value in column `c`.
    present: Vec<u64>,
    values: Vec<Vec<u32>>,
    lengths: [usize; NULLABLE],
    levels: Vec<i16>,
    limit: usize,
}

impl Columns {
    /// For so many rows at most.
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

    /// A value of the row that is being parsed, if it is there.
    #[inline]
    pub fn put(&mut self, column: usize, value: u32, there: bool) {
        let length = &mut self.lengths[column];
        self.values[column][*length] = value;
        *length += usize::from(there);
    }

    /// The row is whole.
    #[inline]
    pub fn end_row(&mut self, label: i32, present: u64) {
        self.labels.push(label);
        self.present.push(present);
    }

    /// The row is none: take back its values, which `present` names.
    pub fn undo(&mut self, present: u64) {
        for (column, length) in self.lengths.iter_mut().enumerate() {
            *length -= (present >> column & 1) as usize;
        }
    }

    /// Whole ones.
    pub fn rows(&self) -> usize {
        self.labels.len()
    }

    /// No more rows fit.
    pub fn is_full(&self) -> bool {
        self.labels.len() == self.limit
    }

    /// Of the rows that have one.
    pub fn values(&self, column: usize) -> &[u32] {
        &self.values[column][..self.lengths[column]]
    }

    /// Forget all rows.
    pub fn clear(&mut self) {
        self.labels.clear();
        self.present.clear();
        self.lengths = [0; NULLABLE];
    }

    /// Write all rows as one row group.
    pub fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<()> {
        let mut group = file.next_row_group()?;
        write_column(&mut group, &self.labels, None)?;
        for column in 0..NULLABLE {
            self.levels.clear();
            self.levels.extend(self.present.iter().map(|mask| (mask >> column & 1) as i16));
            // Parquet's 32-bit columns hold `i32`, whatever their sign.
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

/// `label` int8, `I1`.. nullable int32, `C1`.. nullable uint32. Made once: every part and every
/// footer asks for it.
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

/// How pages are written. Columns whose values repeat get a dictionary: it makes files smaller,
/// and reading them faster, by as much time as it takes.
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

/// Whether at most half of the first values are ones that were not there before.
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
