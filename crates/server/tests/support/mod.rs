//! Small blocking S3 client for tests. It has its own signer, so that server and client cannot
//! share a bug.

#![allow(dead_code)] // each test file uses only some items

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use ring::{digest, hmac};

/// Access key of the servers under test.
pub const ACCESS: &str = "test-access-key";
pub const SECRET: &str = "test-secret-key";
pub const BUCKET: &str = "bucket";

pub struct Running {
    pub server: storlab_server::Server,
    pub directory: tempfile::TempDir,
}

impl Running {
    pub fn new() -> Self {
        Self::over(tempfile::tempdir().expect("a directory"), false)
    }

    pub fn over(directory: tempfile::TempDir, durable: bool) -> Self {
        let config = storlab_server::Config {
            directory: directory.path().join("store"),
            bucket: BUCKET.to_owned(),
            durable,
        };
        let server = storlab_server::Server::start(&config, credentials()).expect("it starts");
        Self { server, directory }
    }

    /// Stop the server, and start another one on the same directory.
    pub fn restart(self) -> Self {
        drop(self.server);
        Self::over(self.directory, false)
    }

    pub fn client(&self) -> Client {
        Client::new(self.server.port())
    }

    /// Return every file below the bucket's directory.
    pub fn files(&self) -> Vec<std::path::PathBuf> {
        let mut paths = Vec::new();
        let mut left = vec![self.directory.path().join("store").join(BUCKET)];
        while let Some(directory) = left.pop() {
            for entry in std::fs::read_dir(directory).expect("readable") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    left.push(path);
                } else {
                    paths.push(path);
                }
            }
        }
        paths
    }
}

pub fn credentials() -> storlab_server::Credentials {
    storlab_server::Credentials { access_key: ACCESS.to_owned(), secret_key: SECRET.to_owned() }
}

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }

    /// Return the text of each element with this name.
    pub fn texts_of(&self, element: &str) -> Vec<String> {
        let (open, close) = (format!("<{element}>"), format!("</{element}>"));
        let text = self.text();
        let parts = text.split(&open).skip(1);
        parts.filter_map(|part| part.split(&close).next().map(unescape)).collect()
    }

    pub fn text_of(&self, element: &str) -> String {
        self.texts_of(element).into_iter().next().unwrap_or_default()
    }

    pub fn etag(&self) -> String {
        self.header("etag").expect("an ETag").to_owned()
    }

    /// Assert that the answer is an S3 error with this status and code.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) {
        let answered = (self.status, self.text_of("Code"));
        assert_eq!(answered, (status, code.to_owned()), "{}", self.text());
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        let text = String::from_utf8_lossy(&self.body);
        assert!((200..300).contains(&self.status), "{}: {text}", self.status);
        self
    }
}

fn unescape(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
    text.replace("&#39;", "'").replace("&apos;", "'").replace("&amp;", "&")
}

/// Way in which the signature covers the payload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Payload {
    Unsigned,
    Signed,
    /// `aws-chunked`, with each chunk signed.
    Streaming,
    /// `aws-chunked`, unsigned, with a CRC32 trailer.
    TrailerCrc,
}

pub struct Client {
    port: u16,
    stream: Option<BufReader<TcpStream>>,
    pub access: String,
    pub secret: String,
    /// Offset of the client's clock in seconds.
    pub skew: i64,
    pub payload: Payload,
    pub chunk: usize,
    /// Function that alters the request after it has been signed.
    pub tamper: fn(&mut Vec<u8>),
}

impl Client {
    pub fn new(port: u16) -> Self {
        Self {
            port,
            stream: None,
            access: ACCESS.to_owned(),
            secret: SECRET.to_owned(),
            skew: 0,
            payload: Payload::Unsigned,
            chunk: 64 * 1024,
            tamper: |_| {},
        }
    }

    pub fn get(&mut self, key: &str) -> Answer {
        self.call("GET", key, &[], &[], b"")
    }

    pub fn head(&mut self, key: &str) -> Answer {
        self.call("HEAD", key, &[], &[], b"")
    }

    pub fn put(&mut self, key: &str, body: &[u8]) -> Answer {
        self.call("PUT", key, &[], &[], body)
    }

    pub fn delete(&mut self, key: &str) -> Answer {
        self.call("DELETE", key, &[], &[], b"")
    }

    pub fn range(&mut self, key: &str, range: &str) -> Answer {
        self.call("GET", key, &[], &[("range", range)], b"")
    }

    pub fn list(&mut self, query: &[(&str, &str)]) -> Answer {
        let query: Vec<_> = [&[("list-type", "2")], query].concat();
        self.bucket("GET", &query, b"")
    }

    /// Send a request on the bucket itself.
    pub fn bucket(&mut self, method: &str, query: &[(&str, &str)], body: &[u8]) -> Answer {
        self.raw(method, &format!("/{BUCKET}"), query, &[], body)
    }

    pub fn call(
        &mut self,
        method: &str,
        key: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let path = format!("/{BUCKET}/{}", encode(key, true));
        self.raw(method, &path, query, headers, body)
    }

    pub fn raw(
        &mut self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Answer {
        let message = self.message(method, path, query, headers, body);
        let mut stream = self.stream.take().unwrap_or_else(|| {
            let stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
            stream.set_nodelay(true).expect("nodelay");
            BufReader::with_capacity(1 << 18, stream)
        });
        stream.get_mut().write_all(&message).expect("sent");
        let answer = read_answer(&mut stream, method == "HEAD");
        if answer.header("connection") != Some("close") {
            self.stream = Some(stream);
        }
        answer
    }

    /// Return the bytes of a whole signed request.
    pub fn message(
        &self,
        method: &str,
        path: &str,
        query: &[(&str, &str)],
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Vec<u8> {
        let now = storlab_base::wall_clock_ns() / 1_000_000_000;
        let now = now.saturating_add_signed(self.skew);
        let (day, time) = stamp(now);
        let amz_date = format!("{day}T{time}Z");
        let scope = format!("{day}/us-east-1/s3/aws4_request");
        let mut query: Vec<String> = query
            .iter()
            .map(|(k, v)| format!("{}={}", encode(k, false), encode(v, false)))
            .collect();
        query.sort();
        let query = query.join("&");
        let hash = self.payload_hash(body);
        let all = self.headers(&hash, &amz_date, headers, body.len());
        let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
        let names = names.join(";");
        let mut canonical = format!("{method}\n{path}\n{query}\n");
        for (name, value) in &all {
            let _ = writeln!(canonical, "{name}:{value}");
        }
        let _ = write!(canonical, "\n{names}\n{hash}");
        let key = self.key(&day);
        let signed =
            format!("AWS4-HMAC-SHA256\n{amz_date}\n{scope}\n{}", sha256(canonical.as_bytes()));
        let signature = hex(hmac::sign(&key, signed.as_bytes()).as_ref());
        let mut sent = match self.payload {
            Payload::Streaming => self.signed_chunks(&key, &amz_date, &scope, &signature, body),
            Payload::TrailerCrc => self.unsigned_chunks(body),
            _ => body.to_vec(),
        };
        (self.tamper)(&mut sent);
        let target = if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") };
        let mut head = format!("{method} {target} HTTP/1.1\r\n");
        for (name, value) in &all {
            let _ = write!(head, "{name}: {value}\r\n");
        }
        let _ = write!(
            head,
            "authorization: AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, \
             Signature={signature}\r\n",
            self.access
        );
        if !sent.is_empty() || method == "PUT" {
            let _ = write!(head, "content-length: {}\r\n", sent.len());
        }
        [head.as_bytes(), b"\r\n", &sent].concat()
    }

    /// Return the payload hash for the signature.
    fn payload_hash(&self, body: &[u8]) -> String {
        match self.payload {
            Payload::Unsigned => "UNSIGNED-PAYLOAD".to_owned(),
            Payload::Signed => sha256(body),
            Payload::Streaming => "STREAMING-AWS4-HMAC-SHA256-PAYLOAD".to_owned(),
            Payload::TrailerCrc => "STREAMING-UNSIGNED-PAYLOAD-TRAILER".to_owned(),
        }
    }

    /// Return all signed headers in order.
    fn headers(
        &self,
        hash: &str,
        date: &str,
        more: &[(&str, &str)],
        length: usize,
    ) -> Vec<(String, String)> {
        let length = length.to_string();
        let host = format!("127.0.0.1:{}", self.port);
        let mut all = vec![("host", &*host), ("x-amz-content-sha256", hash), ("x-amz-date", date)];
        if matches!(self.payload, Payload::Streaming | Payload::TrailerCrc) {
            all.push(("content-encoding", "aws-chunked"));
            all.push(("x-amz-decoded-content-length", &length));
        }
        if self.payload == Payload::TrailerCrc {
            all.push(("x-amz-trailer", "X-Amz-Checksum-Crc32"));
        }
        all.extend(more);
        all.sort_unstable();
        all.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn key(&self, day: &str) -> hmac::Key {
        let mut key = format!("AWS4{}", self.secret).into_bytes();
        for part in [day, "us-east-1", "s3", "aws4_request"] {
            let signer = hmac::Key::new(hmac::HMAC_SHA256, &key);
            key = hmac::sign(&signer, part.as_bytes()).as_ref().to_vec();
        }
        hmac::Key::new(hmac::HMAC_SHA256, &key)
    }

    fn signed_chunks(
        &self,
        key: &hmac::Key,
        date: &str,
        scope: &str,
        seed: &str,
        body: &[u8],
    ) -> Vec<u8> {
        let mut out = Vec::new();
        let mut last = seed.to_owned();
        for chunk in body.chunks(self.chunk).chain([&[][..]]) {
            let answered = format!(
                "AWS4-HMAC-SHA256-PAYLOAD\n{date}\n{scope}\n{last}\n{}\n{}",
                sha256(b""),
                sha256(chunk)
            );
            last = hex(hmac::sign(key, answered.as_bytes()).as_ref());
            let _ = write!(out, "{:x};chunk-signature={last}\r\n", chunk.len());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
        }
        out
    }

    fn unsigned_chunks(&self, body: &[u8]) -> Vec<u8> {
        use base64::Engine as _;
        use base64::engine::general_purpose::STANDARD;
        let mut out = Vec::new();
        for chunk in body.chunks(self.chunk) {
            let _ = write!(out, "{:x}\r\n", chunk.len());
            out.extend_from_slice(chunk);
            out.extend_from_slice(b"\r\n");
        }
        let crc = STANDARD.encode(crc32(body).to_be_bytes());
        let _ = write!(out, "0\r\nx-amz-checksum-crc32:{crc}\r\n\r\n");
        out
    }
}

pub fn read_answer(stream: &mut BufReader<TcpStream>, head: bool) -> Answer {
    let mut line = String::new();
    stream.read_line(&mut line).expect("a status line");
    let status = line.split(' ').nth(1).and_then(|s| s.parse().ok()).expect("a status");
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).expect("a header");
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut answer = Answer { status, headers, body: Vec::new() };
    if head || status == 204 || status == 304 {
        return answer;
    }
    if let Some(length) = answer.header("content-length") {
        let length = length.parse().expect("a length");
        answer.body = vec![0; length];
        stream.read_exact(&mut answer.body).expect("the whole body");
    } else {
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).expect("a chunk");
            let size = usize::from_str_radix(line.trim(), 16).expect("a chunk's size");
            let mut chunk = vec![0; size + 2];
            stream.read_exact(&mut chunk).expect("the whole chunk");
            answer.body.extend_from_slice(&chunk[..size]);
            if size == 0 {
                break;
            }
        }
    }
    answer
}

/// Percent-encode as AWS does; slashes are kept in paths.
pub fn encode(text: &str, path: bool) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || (path && byte == b'/') {
            out.push(byte as char);
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

fn sha256(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Return the CRC32, computed bit by bit as the standard defines it.
pub fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            (crc >> 1) ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// Return date and time of a Unix time as a signature needs them.
fn stamp(seconds: u64) -> (String, String) {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Days to a Gregorian date, with years that begin on 1 March.
    let z = days + 719_468;
    let (era, of_era) = (z / 146_097, z % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    let time = format!("{:02}{:02}{:02}", second / 3_600, second / 60 % 60, second % 60);
    (format!("{year:04}{month:02}{day:02}"), time)
}

/// Return pseudo-random content that depends on the seed.
pub fn content(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..length)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u8
        })
        .collect()
}
