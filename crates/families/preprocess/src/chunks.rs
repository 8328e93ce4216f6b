//! Reader of single columns of a Parquet file, one row group at a time.

use std::fmt::Display;
use std::fs::File;
use std::io::{self, Cursor, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::Int32Type;
use parquet::errors::{ParquetError, Result as Parquet};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;
use storlab_base::{Error, Result, failed};

use super::columns::schema;

/// Parquet file whose columns are read one row group at a time.
pub struct Group<'p> {
    path: &'p Path,
    file: File,
    metadata: ParquetMetaData,
}

/// Values of one column in one row group. The buffers are reused.
#[derive(Default)]
pub struct Column {
    values: Vec<i32>,
    levels: Vec<i16>,
    /// Number of rows in the row group, including nulls.
    pub rows: usize,
    /// Size of the column chunk in the file, in bytes.
    pub bytes: u64,
}

impl Column {
    /// Return the non-null values as unsigned integers.
    pub fn unsigned(&self) -> &[u32] {
        bytemuck::must_cast_slice(&self.values)
    }

    /// Return the non-null values as signed integers, as they are stored.
    pub fn values(&self) -> &[i32] {
        &self.values
    }

    /// Return the definition level of each row: 1 for a value, 0 for null. Empty if no row is null.
    pub fn levels(&self) -> &[i16] {
        if self.values.len() == self.rows { &[] } else { &self.levels }
    }
}

impl<'p> Group<'p> {
    /// Open the Parquet file at `path`, and read its footer.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Spec`] if its schema is not the one that
    /// the ingest stage writes.
    pub fn open(path: &'p Path) -> Result<Self> {
        let file = File::open(path).map_err(failed("open", path))?;
        let metadata =
            ParquetMetaDataReader::new().parse_and_finish(&file).map_err(|e| damaged(path, e))?;
        let due = schema().map_err(|e| damaged(path, e))?;
        if metadata.file_metadata().schema() != &*due {
            return Err(damaged(path, "its columns differ from those of the plan"));
        }
        Ok(Group { path, file, metadata })
    }

    /// Check that the file has `due` rows. More rows would overwrite those of the next part.
    ///
    /// # Errors
    /// [`Error::Spec`] if the file does not have exactly `due` rows.
    pub fn expect_rows(&self, due: u64) -> Result<()> {
        let rows: u64 = (0..self.len()).map(|group| self.rows(group) as u64).sum();
        if rows == due {
            return Ok(());
        }
        Err(damaged(self.path, format!("it has {rows} rows instead of {due}")))
    }

    /// Return the number of row groups in the file.
    pub fn len(&self) -> usize {
        self.metadata.num_row_groups()
    }

    /// Return the number of rows of a row group.
    pub fn rows(&self, group: usize) -> usize {
        self.metadata.row_group(group).num_rows() as usize
    }

    /// Read column `index` of row group `group` into `column`.
    ///
    /// # Errors
    /// [`Error::Io`] if the file cannot be read, [`Error::Spec`] if it is damaged.
    pub fn read(&self, group: usize, index: usize, column: &mut Column) -> Result<()> {
        let row_group = self.metadata.row_group(group);
        let chunk = row_group.column(index);
        column.rows = self.rows(group);
        column.values.clear();
        column.levels.clear();
        let stored = Stored::read(&self.file, chunk).map_err(|e| match e.kind() {
            ErrorKind::UnexpectedEof => damaged(self.path, "it is too short"),
            _ => failed("read", self.path)(e),
        })?;
        column.bytes = stored.bytes.len() as u64;
        decode(stored, chunk, column).map_err(|e| damaged(self.path, e))
    }
}

fn damaged(path: &Path, why: impl Display) -> Error {
    let fix = "remove it and the .json beside it; both are then written again";
    Error::spec(path.display().to_string(), format!("is damaged: {why}"), fix)
}

fn decode(stored: Stored, chunk: &ColumnChunkMetaData, column: &mut Column) -> Parquet<()> {
    let descriptor = chunk.column_descr_ptr();
    let pages = SerializedPageReader::new(Arc::new(stored), chunk, column.rows, None)?;
    let mut reader = ColumnReaderImpl::<Int32Type>::new(descriptor, Box::new(pages));
    let mut rows = 0;
    while rows < column.rows {
        let levels = Some(&mut column.levels);
        let (more, ..) =
            reader.read_records(column.rows - rows, levels, None, &mut column.values)?;
        if more == 0 {
            return Err(ParquetError::EOF("a column is shorter than its row group".into()));
        }
        rows += more;
    }
    Ok(())
}

/// Bytes of one column chunk, addressed by their offset in the file.
struct Stored {
    start: u64,
    bytes: Bytes,
}

impl Stored {
    fn read(file: &File, chunk: &ColumnChunkMetaData) -> io::Result<Self> {
        let (start, len) = chunk.byte_range();
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len as usize).map_err(|_| ErrorKind::UnexpectedEof)?;
        let mut file = file;
        file.seek(SeekFrom::Start(start))?;
        if file.take(len).read_to_end(&mut bytes)? < len as usize {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        Ok(Stored { start, bytes: bytes.into() })
    }

    fn from(&self, start: u64) -> Parquet<Bytes> {
        let outside = || ParquetError::EOF("a page lies outside of its column".into());
        let at = start.checked_sub(self.start).ok_or_else(outside)? as usize;
        (at <= self.bytes.len()).then(|| self.bytes.slice(at..)).ok_or_else(outside)
    }
}

impl Length for Stored {
    fn len(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

impl ChunkReader for Stored {
    type T = Cursor<Bytes>;

    fn get_read(&self, start: u64) -> Parquet<Self::T> {
        Ok(Cursor::new(self.from(start)?))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Parquet<Bytes> {
        let rest = self.from(start)?;
        if length > rest.len() {
            return Err(ParquetError::EOF("a page is longer than its column".into()));
        }
        Ok(rest.slice(..length))
    }
}
