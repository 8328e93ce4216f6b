//! Reading formats as they stream by: nothing is collected but headers.

/// A stored zip of NPY arrays: the members' headers are parsed and, where asked, their checksums
/// compared. Sizes come from the local headers, as this generator and NumPy write them; members
/// that tell theirs only behind their data are refused.
pub struct Npz {
    crc: bool,
    /// Of the header that is being collected.
    head: Vec<u8>,
    state: State,
    /// Arrays seen: name and bytes of the member.
    pub members: Vec<(String, u64)>,
}

enum State {
    /// Collecting a local header, up to the NPY header's end.
    Head,
    /// In a member's data.
    Data { left: u64, hasher: Option<crc32fast::Hasher>, wanted: u32 },
    /// The central directory and what follows.
    Rest,
}

const LOCAL: usize = 30;

fn u16_at(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A local header, as far as it is needed.
struct Local {
    name: String,
    size: u64,
    crc: u32,
    /// Bytes of the header itself.
    bytes: usize,
}

impl Npz {
    /// `crc`: compare the members' checksums.
    pub fn new(crc: bool) -> Self {
        Npz { crc, head: Vec::new(), state: State::Head, members: Vec::new() }
    }

    /// The next part of the file.
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
                            return Err("the CRC-32 of a member differs".to_owned());
                        }
                        self.state = State::Head;
                    }
                }
            }
        }
        Ok(())
    }

    fn collect<'p>(&mut self, part: &'p [u8]) -> Result<&'p [u8], String> {
        // Headers are small: a few turns of 256 bytes see the end of one.
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
            return Err(format!("{} is shorter than its header", local.name));
        }
        // What was taken beyond the local header is data of the member.
        let inside = (body.len() as u64).min(local.size) as usize;
        let beyond = body.len() - inside;
        let hasher = self.crc.then(|| {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&body[..inside]);
            hasher
        });
        let left = local.size - inside as u64;
        if left == 0 && hasher.clone().is_some_and(|hasher| hasher.finalize() != local.crc) {
            return Err("the CRC-32 of a member differs".to_owned());
        }
        self.members.push((local.name, local.size));
        self.state = match left {
            0 => State::Head,
            _ => State::Data { left, hasher, wanted: local.crc },
        };
        self.head.clear();
        Ok(&part[taken - beyond..])
    }

    /// The file of `len` bytes has ended.
    pub fn finish(&self, len: u64) -> Result<(), String> {
        match self.state {
            State::Rest if self.members.iter().any(|(name, _)| name == "x.npy") => Ok(()),
            State::Rest => Err("there is no array x in it".to_owned()),
            _ => Err(format!("its {len} bytes end before its directory")),
        }
    }
}

fn local_header(head: &[u8]) -> Result<Option<Local>, String> {
    if !head.starts_with(b"PK\x03\x04") {
        return Err("it is no zip".to_owned());
    }
    if head.len() < LOCAL {
        return Ok(None);
    }
    let (flags, method) = (u16_at(head, 6), u16_at(head, 8));
    if method != 0 {
        return Err("a member is compressed".to_owned());
    }
    if flags & 8 != 0 {
        return Err("a member tells its size only behind its data".to_owned());
    }
    let (name_len, extra_len) = (u16_at(head, 26), u16_at(head, 28));
    let bytes = LOCAL + name_len + extra_len;
    if head.len() < bytes {
        return Ok(None);
    }
    let name = String::from_utf8_lossy(&head[LOCAL..LOCAL + name_len]).into_owned();
    let extra = &head[LOCAL + name_len..bytes];
    let size = match u32_at(head, 22) {
        u32::MAX => zip64_size(extra).ok_or("a member of 4 GiB or more tells no size")?,
        size => u64::from(size),
    };
    Ok(Some(Local { name, size, crc: u32_at(head, 14), bytes }))
}

/// The uncompressed size in the zip64 extra field, which NumPy writes always.
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

/// Length of the NPY header at the start of `body`; `None` until it can be told.
fn npy_header_bytes(body: &[u8]) -> Result<Option<usize>, String> {
    if body.len() < 12 {
        return Ok(None);
    }
    if !body.starts_with(b"\x93NUMPY") {
        return Err("a member is no array".to_owned());
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
        Err("an array's header says neither type nor shape".to_owned())
    }
}

/// TFRecord framing.
pub struct Records {
    crc: bool,
    mask: fn(u32) -> u32,
    frame: Vec<u8>,
    left: u64,
    sum: u32,
    /// Whole records so far.
    pub count: u64,
}

const FRAME: usize = 12;

impl Records {
    /// `crc`: compare checksums, masked by `mask`.
    pub fn new(crc: bool, mask: fn(u32) -> u32) -> Self {
        Records { crc, mask, frame: Vec::with_capacity(FRAME), left: 0, sum: 0, count: 0 }
    }

    /// The next part.
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
            // The payload, then its 4 bytes of checksum.
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
            return Err("the checksum of a record's length differs".to_owned());
        }
        if length > 1 << 40 {
            return Err(format!("a record claims {length} bytes"));
        }
        self.left = length + 4;
        self.sum = 0;
        self.frame.clear();
        Ok(())
    }

    fn close(&mut self) -> Result<(), String> {
        if self.crc && u32_at(&self.frame, 0) != (self.mask)(self.sum) {
            return Err("the checksum of a record differs".to_owned());
        }
        self.frame.clear();
        self.count += 1;
        Ok(())
    }

    /// All parts were given.
    ///
    /// # Errors
    /// When they end within a record.
    pub fn finish(&self) -> Result<(), String> {
        if self.left == 0 && self.frame.is_empty() {
            Ok(())
        } else {
            Err("it ends within a record".to_owned())
        }
    }
}
