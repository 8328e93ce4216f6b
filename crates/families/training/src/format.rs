//! File formats of a data set: incompressible data with the headers of the format written over it.
//!
//! Sources: APPNOTE.TXT of the zip format, §4.3 (local header, central directory, end record);
//! numpy.lib.format for NPY 1.0; TensorFlow's "TFRecord and tf.train.Example" guide for the framing
//! and its masked CRC-32C; the Protocol Buffers encoding guide.

use storlab_base::{Error, Result, normal, stream};

use super::spec::{Format, Records};

const MASK_DELTA: u32 = 0xa282_ead8;
/// Smallest sample size, as a fraction of the mean.
const LEAST_SHARE: f64 = 0.05;
/// Largest deviation of a sample's size from the mean, in standard deviations.
const MOST_STDEVS: f64 = 3.0;

/// Number, path and sample size of one file of the data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileFacts {
    /// Number of the file, from 0.
    pub number: u64,
    /// Path relative to the directory or prefix of the data set.
    pub path: String,
    /// Size of one sample in bytes.
    pub sample_bytes: u64,
}

impl Records {
    /// Return number, path and sample size of file `number`. The size depends on the seed and the
    /// number only.
    pub fn file(&self, number: u64) -> FileFacts {
        let digits = self.files.to_string().len();
        let (folder, prefix, files) = (&self.folder, &self.prefix, self.files);
        let extension = self.format.extension();
        let path = format!("{folder}/{prefix}_{number:0digits$}_of_{files}.{extension}");
        FileFacts { number, path, sample_bytes: self.sample_bytes(number) }
    }

    /// Draw the sample size of file `number` from a normal distribution. Sizes outside symmetric
    /// bounds are drawn again, so that no sample is tiny or huge and the mean is preserved.
    fn sample_bytes(&self, number: u64) -> u64 {
        if self.record_stdev_bytes == 0 {
            return self.record_bytes;
        }
        let (mean, stdev) = (self.record_bytes as f64, self.record_stdev_bytes as f64);
        let most = self.most_deviations();
        let mut rng = stream(self.seed, "sample-size", number);
        loop {
            let deviations = normal(&mut rng);
            if deviations.abs() <= most {
                return (mean + stdev * deviations).round() as u64;
            }
        }
    }
}

impl Records {
    /// Return the largest deviation of a sample's size from the mean, in standard deviations.
    fn most_deviations(&self) -> f64 {
        let (mean, stdev) = (self.record_bytes as f64, self.record_stdev_bytes as f64);
        (mean * (1.0 - LEAST_SHARE) / stdev).min(MOST_STDEVS)
    }

    /// Return an upper bound of the size of a file in bytes, including headers.
    pub fn most_file_bytes(&self) -> u64 {
        let over = match self.record_stdev_bytes {
            0 => 0,
            stdev => (stdev as f64 * self.most_deviations()).ceil() as u64,
        };
        // TFRecord has the longest headers per sample. The 8 bytes are for the label that npz
        // stores per sample, the 1 KiB for the headers of an npz file.
        let sample = tfrecord_stride(self.record_bytes + over) + 8;
        sample.saturating_mul(self.samples_per_file).saturating_add(1 << 10)
    }
}

/// Layout of a file: its length, and the headers that are written over its data.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Length of the file in bytes.
    pub len: u64,
    /// Offset and bytes of each header, in order and without overlap.
    pub overlays: Vec<(u64, Vec<u8>)>,
    sums: Vec<Sum>,
}

/// Checksum of a part of the file, and where the headers store it.
#[derive(Clone, Debug)]
struct Sum {
    start: u64,
    end: u64,
    kind: SumKind,
    /// Places that store the checksum: index of the header in `overlays`, and offset in that
    /// header.
    places: Vec<(usize, usize)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SumKind {
    Crc32,
    MaskedCrc32c,
}

impl Layout {
    /// Create the layout of a file of the data set.
    ///
    /// # Errors
    /// [`Error::Spec`] if the file is too large for its format.
    pub fn new(records: &Records, file: &FileFacts) -> Result<Self> {
        match records.format {
            Format::Npz => npz(file, records.samples_per_file),
            Format::Tfrecord => Ok(tfrecord(file, records.samples_per_file)),
            Format::Jpeg => {
                Ok(Layout { len: file.sample_bytes, overlays: Vec::new(), sums: Vec::new() })
            }
        }
    }

    /// Write the headers over `part`, the file's data from `offset` on.
    pub fn overlay(&self, offset: u64, part: &mut [u8]) {
        let end = offset + part.len() as u64;
        let first = self.overlays.partition_point(|(at, bytes)| at + bytes.len() as u64 <= offset);
        for (at, bytes) in self.overlays[first..].iter().take_while(|(at, _)| *at < end) {
            let from = offset.max(*at);
            let to = end.min(at + bytes.len() as u64);
            part[(from - offset) as usize..(to - offset) as usize]
                .copy_from_slice(&bytes[(from - at) as usize..(to - at) as usize]);
        }
    }

    /// Compute the checksums and store them in the headers. `read` must fill a buffer with the
    /// file's bytes from the given offset on, including headers.
    pub fn seal(&mut self, mut read: impl FnMut(&Layout, u64, &mut [u8])) {
        let mut buffer = vec![0; 1 << 20];
        for index in 0..self.sums.len() {
            let Sum { start, end, kind, .. } = self.sums[index];
            let (mut at, mut sum) = (start, Running::new(kind));
            while at < end {
                let part = ((end - at) as usize).min(buffer.len());
                read(self, at, &mut buffer[..part]);
                sum.add(&buffer[..part]);
                at += part as u64;
            }
            let value = sum.finish().to_le_bytes();
            for place in 0..self.sums[index].places.len() {
                let (overlay, from) = self.sums[index].places[place];
                self.overlays[overlay].1[from..from + 4].copy_from_slice(&value);
            }
        }
    }
}

enum Running {
    Crc32(crc32fast::Hasher),
    Masked(u32),
}

impl Running {
    fn new(kind: SumKind) -> Self {
        match kind {
            SumKind::Crc32 => Running::Crc32(crc32fast::Hasher::new()),
            SumKind::MaskedCrc32c => Running::Masked(0),
        }
    }

    fn add(&mut self, part: &[u8]) {
        match self {
            Running::Crc32(hasher) => hasher.update(part),
            Running::Masked(sum) => *sum = crc32c::crc32c_append(*sum, part),
        }
    }

    fn finish(self) -> u32 {
        match self {
            Running::Crc32(hasher) => hasher.finalize(),
            Running::Masked(sum) => masked(sum),
        }
    }
}

/// Mask a CRC-32C in the way TFRecord stores it.
pub fn masked(crc32c: u32) -> u32 {
    crc32c.rotate_right(15).wrapping_add(MASK_DELTA)
}

/// Build the header of an NPY file, version 1.0.
fn npy_header(dtype: &str, shape: &str) -> Vec<u8> {
    let mut text = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}");
    let whole = (10 + text.len() + 1).next_multiple_of(64);
    while 10 + text.len() + 1 < whole {
        text.push(' ');
    }
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((text.len() as u16).to_le_bytes());
    header.extend(text.into_bytes());
    header
}

/// Build the header fields that a zip's local header and central directory have in common.
fn zip_fields(size: u32) -> Vec<u8> {
    let mut fields = Vec::new();
    fields.extend(20u16.to_le_bytes()); // version needed
    fields.extend(0u16.to_le_bytes()); // flags
    fields.extend(0u16.to_le_bytes()); // method: stored
    fields.extend(0u16.to_le_bytes()); // no time, so that data sets are reproducible
    fields.extend(0x21u16.to_le_bytes()); // 1 January 1980
    fields.extend(0u32.to_le_bytes()); // CRC-32, filled in later
    fields.extend(size.to_le_bytes());
    fields.extend(size.to_le_bytes());
    fields
}

fn local_header(name: &str, size: u32) -> Vec<u8> {
    let mut header = b"PK\x03\x04".to_vec();
    header.extend(zip_fields(size));
    header.extend((name.len() as u16).to_le_bytes());
    header.extend(0u16.to_le_bytes());
    header.extend(name.as_bytes());
    header
}

fn central_header(name: &str, size: u32, local: u32) -> Vec<u8> {
    let mut header = b"PK\x01\x02".to_vec();
    header.extend(20u16.to_le_bytes()); // made by
    header.extend(zip_fields(size));
    header.extend((name.len() as u16).to_le_bytes());
    header.extend([0; 8]); // extra, comment, disk, internal attributes
    header.extend([0; 4]); // external attributes
    header.extend(local.to_le_bytes());
    header.extend(name.as_bytes());
    header
}

/// Create the layout of an npz file: `x.npy` with shape (bytes, 1, samples), and `y.npy` with a
/// label of 0 per sample.
fn npz(file: &FileFacts, samples: u64) -> Result<Layout> {
    let data = file.sample_bytes.saturating_mul(samples);
    let x_head = npy_header("|u1", &format!("({}, 1, {samples})", file.sample_bytes));
    let mut y_part = npy_header("<i8", &format!("({samples},)"));
    let x_size = data.saturating_add(x_head.len() as u64);
    let y_size = samples.saturating_mul(8).saturating_add(y_part.len() as u64);
    let mut head = local_header("x.npy", x_size as u32);
    let mut tail = local_header("y.npy", y_size as u32);
    let x_start = head.len() as u64;
    let y_local = x_start.saturating_add(x_size);
    let y_start = y_local.saturating_add(tail.len() as u64);
    let directory = y_start.saturating_add(y_size);
    // The offset of the central directory is the largest number in the headers. The value u32::MAX
    // itself is reserved for zip64 extensions.
    if directory >= u64::from(u32::MAX) {
        let what =
            format!("would need a file of {directory} bytes, which is more than a zip file allows");
        return Err(Error::spec("records.samples_per_file", what, "use fewer samples per file"));
    }
    head.extend(x_head);
    y_part.resize(y_size as usize, 0);
    tail.extend(y_part);
    let (x_crc, y_crc) = (tail.len() + 16, tail.len() + central_header("x.npy", 0, 0).len() + 16);
    tail.extend(central_header("x.npy", x_size as u32, 0));
    tail.extend(central_header("y.npy", y_size as u32, y_local as u32));
    let directory_len = y_local + tail.len() as u64 - directory;
    tail.extend(b"PK\x05\x06");
    tail.extend([0; 4]);
    tail.extend([2, 0, 2, 0]);
    tail.extend((directory_len as u32).to_le_bytes());
    tail.extend((directory as u32).to_le_bytes());
    tail.extend(0u16.to_le_bytes());
    let len = y_local + tail.len() as u64;
    let crc32 = |start, end, places| Sum { start, end, kind: SumKind::Crc32, places };
    Ok(Layout {
        len,
        overlays: vec![(0, head), (y_local, tail)],
        sums: vec![
            crc32(x_start, y_local, vec![(0, 14), (1, x_crc)]),
            crc32(y_start, y_start + y_size, vec![(1, 14), (1, y_crc)]),
        ],
    })
}

fn varint(mut value: u64, into: &mut Vec<u8>) {
    while value >= 0x80 {
        into.push(value as u8 | 0x80);
        value >>= 7;
    }
    into.push(value as u8);
}

fn varint_len(value: u64) -> u64 {
    let mut bytes = Vec::new();
    varint(value, &mut bytes);
    bytes.len() as u64
}

/// Return the bytes of a `tf.train.Example` before and after its image. The example has the
/// features `image` (bytes) and `size` (an integer); the argument is the length of the image in
/// bytes.
fn example_frame(image: u64) -> (Vec<u8>, Vec<u8>) {
    // Every level of the message is a length-delimited field (wire type 2): tag, length, content.
    let entry = |key: &str, feature_len: u64| {
        let mut head = vec![0x0a];
        varint(key.len() as u64, &mut head);
        head.extend(key.as_bytes());
        head.push(0x12);
        varint(feature_len, &mut head);
        head
    };
    let value_len = 1 + varint_len(image) + image; // bytes_list.value
    let list_len = 1 + varint_len(value_len) + value_len; // feature.bytes_list
    let image_entry = entry("image", list_len);
    let mut size_value = vec![0x0a];
    let mut number = Vec::new();
    varint(image, &mut number);
    varint(number.len() as u64, &mut size_value);
    size_value.extend(number);
    let mut size_feature = vec![0x1a]; // feature.int64_list
    varint(size_value.len() as u64, &mut size_feature);
    size_feature.extend(size_value);
    let mut size_entry = entry("size", size_feature.len() as u64);
    size_entry.extend(size_feature);
    let image_len = image_entry.len() as u64 + list_len;
    let mut tail = vec![0x0a];
    varint(size_entry.len() as u64, &mut tail);
    tail.extend(size_entry);
    let features = 1 + varint_len(image_len) + image_len + tail.len() as u64;
    let mut head = vec![0x0a]; // example.features
    varint(features, &mut head);
    head.push(0x0a); // features.feature
    varint(image_len, &mut head);
    head.extend(image_entry);
    head.push(0x0a);
    varint(value_len, &mut head);
    head.push(0x0a);
    varint(image, &mut head);
    (head, tail)
}

/// Return the length in bytes of one TFRecord record, including its framing.
pub fn tfrecord_stride(sample_bytes: u64) -> u64 {
    let (head, tail) = example_frame(sample_bytes);
    16 + head.len() as u64 + sample_bytes + tail.len() as u64
}

/// Create the layout of a TFRecord file. It has per sample: length, masked CRC-32C of the length,
/// an example, masked CRC-32C of the example.
fn tfrecord(file: &FileFacts, samples: u64) -> Layout {
    let (head, tail) = example_frame(file.sample_bytes);
    let record = tfrecord_stride(file.sample_bytes);
    let payload = record - 16;
    let mut framed = payload.to_le_bytes().to_vec();
    framed.extend(masked(crc32c::crc32c(&payload.to_le_bytes())).to_le_bytes());
    framed.extend(head);
    let mut behind = tail;
    let crc_at = behind.len();
    behind.extend([0; 4]);
    let (mut overlays, mut sums) = (Vec::new(), Vec::new());
    for sample in 0..samples {
        let start = sample * record;
        overlays.push((start, framed.clone()));
        let end = start + 12 + payload;
        sums.push(Sum {
            start: start + 12,
            end,
            kind: SumKind::MaskedCrc32c,
            places: vec![(overlays.len(), crc_at)],
        });
        overlays.push((end - crc_at as u64, behind.clone()));
    }
    Layout { len: record * samples, overlays, sums }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn records(format: Format, samples: u64) -> Records {
        Records {
            format,
            files: 12,
            samples_per_file: samples,
            record_bytes: 100_000,
            record_stdev_bytes: 20_000,
            folder: "train".into(),
            prefix: "img".into(),
            seed: 3,
        }
    }

    fn whole(layout: &Layout) -> Vec<u8> {
        let mut bytes = vec![0xab; layout.len as usize];
        layout.overlay(0, &mut bytes);
        bytes
    }

    fn sealed(records: &Records) -> (FileFacts, Layout) {
        let file = records.file(5);
        let mut layout = Layout::new(records, &file).unwrap();
        layout.seal(|layout, at, part| {
            part.fill(0xab);
            layout.overlay(at, part);
        });
        (file, layout)
    }

    #[test]
    fn names_are_those_of_dlio() {
        assert_eq!(records(Format::Npz, 1).file(5).path, "train/img_05_of_12.npz");
    }

    #[test]
    fn no_file_is_larger_than_the_most() {
        for format in [Format::Npz, Format::Tfrecord, Format::Jpeg] {
            // A JPEG file has exactly one sample.
            let many = if format == Format::Jpeg { 1 } else { 700 };
            for (samples, mean, stdev) in [(1, 1, 0), (1, 100_000, 0), (many, 900, 300)] {
                let mut records = records(format, samples);
                (records.record_bytes, records.record_stdev_bytes) = (mean, stdev);
                let len = |n| Layout::new(&records, &records.file(n)).unwrap().len;
                let largest = (0..200).map(len).max().unwrap();
                assert!(largest <= records.most_file_bytes());
                assert!(records.most_file_bytes() < 2 * largest + 2048);
            }
        }
    }

    #[test]
    fn sizes_have_the_mean_and_spread_asked_for() {
        let records = records(Format::Npz, 1);
        let sizes: Vec<f64> = (0..20_000).map(|n| records.file(n).sample_bytes as f64).collect();
        let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
        let var = sizes.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / sizes.len() as f64;
        assert!((mean - 100_000.0).abs() < 1_000.0, "{mean}");
        assert!((var.sqrt() - 20_000.0).abs() < 600.0, "{}", var.sqrt());
        assert_eq!(records.file(7), records.file(7));
    }

    #[test]
    fn parts_laid_over_are_the_whole_laid_over() {
        for format in [Format::Npz, Format::Tfrecord, Format::Jpeg] {
            let samples = if format == Format::Jpeg { 1 } else { 3 };
            let (_, layout) = sealed(&records(format, samples));
            let whole = whole(&layout);
            let mut parts = Vec::new();
            for at in (0..layout.len).step_by(4096) {
                let mut part = vec![0xab; (layout.len - at).min(4096) as usize];
                layout.overlay(at, &mut part);
                parts.extend(part);
            }
            assert!(whole == parts, "{format:?}");
        }
    }

    #[test]
    fn tfrecords_carry_their_lengths_and_checksums() {
        let (file, layout) = sealed(&records(Format::Tfrecord, 3));
        let bytes = whole(&layout);
        let mut at = 0;
        let mut samples = 0;
        while at < bytes.len() {
            let length = u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize;
            let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            assert_eq!(word(at + 8), masked(crc32c::crc32c(&bytes[at..at + 8])));
            let payload = &bytes[at + 12..at + 12 + length];
            assert_eq!(word(at + 12 + length), masked(crc32c::crc32c(payload)));
            assert!(length as u64 > file.sample_bytes);
            at += 16 + length;
            samples += 1;
        }
        assert_eq!(samples, 3);
    }

    #[test]
    fn a_file_too_large_for_a_zip_is_refused() {
        let records = records(Format::Npz, 60_000);
        let error = Layout::new(&records, &records.file(0)).unwrap_err().to_string();
        assert!(error.contains("samples_per_file"), "{error}");
    }

    #[test]
    fn a_zip_ends_where_the_place_of_its_directory_does() {
        let layout = |bytes: u64, samples| {
            let mut records = records(Format::Npz, samples);
            (records.record_bytes, records.record_stdev_bytes) = (bytes, 0);
            Layout::new(&records, &records.file(0))
        };
        let (most, close) = (u64::from(u32::MAX), (1 << 32) - 1000);
        // Check the directory's offset in the end record.
        let end = |layout: &Layout| {
            let (at, tail) = layout.overlays.last().unwrap();
            let end = &tail[tail.len() - 22..];
            let number = |at: usize| u32::from_le_bytes(end[at..at + 4].try_into().unwrap());
            let directory = u64::from(number(16));
            assert!(tail[(directory - at) as usize..].starts_with(b"PK\x01\x02"));
            directory
        };
        let before = end(&layout(close, 1).unwrap()) - close;
        assert_eq!(end(&layout(most - 1 - before, 1).unwrap()), most - 1);
        // The samples alone would fit into a zip.
        for (bytes, samples) in [(most - before, 1), (most - 200, 1), (1, 1 << 62)] {
            let error = layout(bytes, samples).unwrap_err().to_string();
            assert!(error.contains("more than a zip"), "{error}");
        }
    }
}
