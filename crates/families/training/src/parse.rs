//! Streaming parsers of the data set's file formats. Only headers are buffered.

/// Parser of an uncompressed zip of NPY arrays (npz). It parses the arrays' headers and, if `crc`
/// is set, compares their checksums.
///
/// Sizes are taken from the local headers, where this generator and NumPy write them. A zip member
/// whose size follows its data (in a data descriptor) is refused.
pub struct Npz {
    crc: bool,
    /// Bytes of the header collected so far.
    head: Vec<u8>,
    state: State,
    /// Name and size of each array found.
    pub members: Vec<(String, u64)>,
}

enum State {
    /// The parser collects the local header of a zip member and the NPY header after it.
    Head,
    /// The parser is inside the data of a zip member.
    Data { left: u64, hasher: Option<crc32fast::Hasher>, wanted: u32 },
    /// The parser is in the central directory or after it.
    Rest,
}

const LOCAL: usize = 30;

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Fields of a zip member's local header.
struct Local {
    name: String,
    size: u64,
    crc: u32,
    /// Length of the header in bytes.
    bytes: usize,
}

impl Npz {
    /// Create a parser. With `crc`, it compares the checksums of the arrays.
    pub fn new(crc: bool) -> Self {
        Npz { crc, head: Vec::new(), state: State::Head, members: Vec::new() }
    }

    /// Parse the next part of the file.
    pub fn add(&mut self, mut part: &[u8]) -> Result<(), String> {
        while !part.is_empty() {
            match &mut self.state {
                State::Rest => return Ok(()),
                State::Head => part = self.collect(part)?,
                State::Data { left, hasher, wanted } => {
                    let taken = (*left).min(part.len() as u64) as usize;
                    if let Some(hasher) = hasher {
                        hasher.update(&part[..taken]);
                    }
                    *left -= taken as u64;
                    part = &part[taken..];
                    if *left == 0 {
                        let wanted = *wanted;
                        if hasher.take().is_some_and(|hasher| hasher.finalize() != wanted) {
                            return Err("the CRC-32 of an array is wrong".to_owned());
                        }
                        self.state = State::Head;
                    }
                }
            }
        }
        Ok(())
    }

    fn collect<'p>(&mut self, part: &'p [u8]) -> Result<&'p [u8], String> {
        // Headers are small: a few rounds of 256 bytes are enough.
        let taken = part.len().min(256);
        self.head.extend_from_slice(&part[..taken]);
        if self.head.len() < 4 {
            return Ok(&part[taken..]);
        }
        if self.head.starts_with(b"PK\x01\x02") || self.head.starts_with(b"PK\x05\x06") {
            self.state = State::Rest;
            return Ok(&part[taken..]);
        }
        let Some(local) = local_header(&self.head)? else { return Ok(&part[taken..]) };
        let body = &self.head[local.bytes..];
        let Some(npy) = npy_header_bytes(body)? else { return Ok(&part[taken..]) };
        if (npy as u64) > local.size {
            return Err(format!("array {} is shorter than its header", local.name));
        }
        // Bytes after the local header belong to the member's data.
        let inside = (body.len() as u64).min(local.size) as usize;
        let beyond = body.len() - inside;
        let hasher = self.crc.then(|| {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&body[..inside]);
            hasher
        });
        let left = local.size - inside as u64;
        if left == 0 && hasher.clone().is_some_and(|hasher| hasher.finalize() != local.crc) {
            return Err("the CRC-32 of an array is wrong".to_owned());
        }
        self.members.push((local.name, local.size));
        self.state = match left {
            0 => State::Head,
            _ => State::Data { left, hasher, wanted: local.crc },
        };
        self.head.clear();
        Ok(&part[taken - beyond..])
    }

    /// End parsing, after `len` bytes.
    ///
    /// # Errors
    /// If the file was incomplete or has no array `x`.
    pub fn finish(&self, len: u64) -> Result<(), String> {
        match self.state {
            State::Rest if self.members.iter().any(|(name, _)| name == "x.npy") => Ok(()),
            State::Rest => Err("the file has no array named x".to_owned()),
            _ => Err(format!("the file ends after {len} bytes, before its zip directory")),
        }
    }
}

fn local_header(head: &[u8]) -> Result<Option<Local>, String> {
    if !head.starts_with(b"PK\x03\x04") {
        return Err("the file is not a zip file".to_owned());
    }
    if head.len() < LOCAL {
        return Ok(None);
    }
    let (flags, method) = (u16_at(head, 6), u16_at(head, 8));
    if method != 0 {
        return Err("an array is compressed, which is not supported".to_owned());
    }
    if flags & 8 != 0 {
        return Err("an array's size follows its data, which is not supported".to_owned());
    }
    let (name_len, extra_len) = (u16_at(head, 26), u16_at(head, 28));
    let bytes = LOCAL + name_len + extra_len;
    if head.len() < bytes {
        return Ok(None);
    }
    let name = String::from_utf8_lossy(&head[LOCAL..LOCAL + name_len]).into_owned();
    let extra = &head[LOCAL + name_len..bytes];
    let size = match u32_at(head, 22) {
        u32::MAX => zip64_size(extra).ok_or("an array of 4 GiB or more has no zip64 size")?,
        size => u64::from(size),
    };
    Ok(Some(Local { name, size, crc: u32_at(head, 14), bytes }))
}

/// Return the uncompressed size from the zip64 extra field, which NumPy always writes.
fn zip64_size(mut extra: &[u8]) -> Option<u64> {
    while extra.len() >= 4 {
        let (id, len) = (u16_at(extra, 0), u16_at(extra, 2));
        let field = extra.get(4..4 + len)?;
        if id == 1 {
            return Some(u64::from_le_bytes(field.get(..8)?.try_into().ok()?));
        }
        extra = &extra[4 + len..];
    }
    None
}

/// Return the length of the NPY header at the start of `body`; `None` if more bytes are needed.
fn npy_header_bytes(body: &[u8]) -> Result<Option<usize>, String> {
    if body.len() < 12 {
        return Ok(None);
    }
    if !body.starts_with(b"\x93NUMPY") {
        return Err("a file in the zip is not an array".to_owned());
    }
    let whole = match body[6] {
        1 => 10 + u16_at(body, 8),
        _ => 12 + u32_at(body, 8) as usize,
    };
    if body.len() < whole.min(200) {
        return Ok(None);
    }
    let text = &body[10..whole.min(body.len())];
    let has = |key: &str| text.windows(key.len()).any(|window| window == key.as_bytes());
    if has("'descr'") && has("'shape'") {
        Ok(Some(whole))
    } else {
        Err("an array's header has no type or no shape".to_owned())
    }
}

/// Streaming parser of TFRecord files.
pub struct Records {
    crc: bool,
    mask: fn(u32) -> u32,
    frame: Vec<u8>,
    left: u64,
    sum: u32,
    /// Number of complete records so far.
    pub count: u64,
}

const FRAME: usize = 12;

impl Records {
    /// Create a parser. With `crc`, it compares checksums, after masking them by `mask`.
    pub fn new(crc: bool, mask: fn(u32) -> u32) -> Self {
        Records { crc, mask, frame: Vec::with_capacity(FRAME), left: 0, sum: 0, count: 0 }
    }

    /// Parse the next part of the file.
    pub fn add(&mut self, mut part: &[u8]) -> Result<(), String> {
        while !part.is_empty() {
            if self.left == 0 {
                let taken = part.len().min(FRAME - self.frame.len());
                self.frame.extend_from_slice(&part[..taken]);
                part = &part[taken..];
                if self.frame.len() == FRAME {
                    self.open()?;
                }
                continue;
            }
            // The payload comes first, then its checksum of 4 bytes.
            let payload = self.left.saturating_sub(4).min(part.len() as u64) as usize;
            if payload > 0 {
                if self.crc {
                    self.sum = crc32c::crc32c_append(self.sum, &part[..payload]);
                }
                self.left -= payload as u64;
                part = &part[payload..];
                continue;
            }
            let taken = (self.left as usize).min(part.len());
            self.frame.extend_from_slice(&part[..taken]);
            self.left -= taken as u64;
            part = &part[taken..];
            if self.left == 0 {
                self.close()?;
            }
        }
        Ok(())
    }

    fn open(&mut self) -> Result<(), String> {
        let length = u64::from_le_bytes(self.frame[..8].try_into().unwrap_or_default());
        if self.crc && u32_at(&self.frame, 8) != (self.mask)(crc32c::crc32c(&self.frame[..8])) {
            return Err("the checksum of a record's length is wrong".to_owned());
        }
        if length > 1 << 40 {
            return Err(format!("a record has the implausible length of {length} bytes"));
        }
        self.left = length + 4;
        self.sum = 0;
        self.frame.clear();
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        if self.crc && u32_at(&self.frame, 0) != (self.mask)(self.sum) {
            return Err("the checksum of a record is wrong".to_owned());
        }
        self.frame.clear();
        self.count += 1;
        Ok(())
    }

    /// End parsing.
    ///
    /// # Errors
    /// If the data ends within a record.
    pub fn finish(&self) -> Result<(), String> {
        if self.left == 0 && self.frame.is_empty() {
            Ok(())
        } else {
            Err("the file ends within a record".to_owned())
        }
    }
}
