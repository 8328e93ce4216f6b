//! The columns of a row group while it is parsed, and as Parquet.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::Int32Type;
use parquet::errors::Result;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};

use super::spec::Codec;

/// Columns of integers, `I1` and so on.
pub const INTEGERS: usize = 13;
/// Columns of categories, `C1` and so on.
pub const CATEGORIES: usize = 26;
/// Of a row while it is parsed and written: its values, a mask, levels, and pages on their way.
pub const ROW_BYTES: usize = 240;

const NULLABLE: usize = INTEGERS + CATEGORIES;

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
    #[cfg(test)]
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
    ///
    /// # Errors
    /// Those of `file`.
    pub fn write<W: Write + Send>(&mut self, file: &mut SerializedFileWriter<W>) -> Result<()> {
        let mut group = file.next_row_group()?;
        write_column(&mut group, &self.labels, None)?;
        for column in 0..NULLABLE {
            self.levels.clear();
            self.levels.extend(self.present.iter().map(|mask| (mask >> column & 1) as i16));
            let values = signed(&self.values[column][..self.lengths[column]]);
            write_column(&mut group, values, Some(&self.levels))?;
        }
        group.close()?;
        Ok(())
    }
}

/// Parquet's 32-bit columns hold `i32`, whatever their sign.
#[allow(unsafe_code)]
fn signed(values: &[u32]) -> &[i32] {
    // SAFETY: the two have the same size and alignment, and any bits are a value of both.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), values.len()) }
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

/// `label` int8, `I1`.. nullable int32, `C1`.. nullable uint32.
///
/// # Errors
/// None: the names and types are fixed.
pub fn schema() -> Result<TypePtr> {
    let field = |name: String, repetition, logical| {
        Type::primitive_type_builder(&name, Physical::INT32)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let integer = |bit_width, is_signed| Some(LogicalType::integer(bit_width, is_signed));
    let mut fields = vec![field("label".into(), Repetition::REQUIRED, integer(8, true))?];
    for number in 1..=INTEGERS {
        fields.push(field(format!("I{number}"), Repetition::OPTIONAL, integer(32, true))?);
    }
    for number in 1..=CATEGORIES {
        fields.push(field(format!("C{number}"), Repetition::OPTIONAL, integer(32, false))?);
    }
    Ok(Arc::new(Type::group_type_builder("clicks").with_fields(fields).build()?))
}

/// How pages are written. Values are stored plainly: building dictionaries of what are mostly
/// distinct numbers costs more time than all the rest.
pub fn properties(codec: Codec) -> WriterPropertiesPtr {
    let compression = match codec {
        Codec::None => Compression::UNCOMPRESSED,
        Codec::Snappy => Compression::SNAPPY,
        Codec::Lz4 => Compression::LZ4_RAW,
        Codec::Zstd => Compression::ZSTD(ZstdLevel::default()),
    };
    Arc::new(
        WriterProperties::builder()
            .set_compression(compression)
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .set_created_by(format!("storlab {}", env!("CARGO_PKG_VERSION")))
            .build(),
    )
}
