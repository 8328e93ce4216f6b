//! Checksums that a client sends with an object's content. The server verifies them while it
//! receives the content.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::HeaderMap;
use s3s::checksum::ChecksumHasher;
use s3s::crypto::{Checksum as _, Crc32, Crc32c, Crc64Nvme, Md5, Sha1, Sha256};
use s3s::dto::Checksum;
use s3s::{S3Result, TrailingHeaders, s3_error};

const HEADERS: [&str; 5] = [
    "x-amz-checksum-crc32",
    "x-amz-checksum-crc32c",
    "x-amz-checksum-sha1",
    "x-amz-checksum-sha256",
    "x-amz-checksum-crc64nvme",
];

/// Checksums that a request contains in its headers or its trailer.
#[derive(Default)]
pub struct Digests {
    hasher: ChecksumHasher,
    md5: Option<Md5>,
    wanted_md5: Option<String>,
    wanted: [Option<String>; 5],
    /// Names of the fields that the trailer will have.
    announced: Vec<String>,
    any: bool,
}

impl Digests {
    /// Read from the headers which checksums the request contains.
    pub fn announced(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|v| v.to_str().ok());
        let announced = text("x-amz-trailer")
            .unwrap_or("")
            .split(',')
            .map(|name| name.trim().to_ascii_lowercase())
            .filter(|name| !name.is_empty())
            .collect();
        let mut digests = Self { announced, ..Self::default() };
        for (at, header) in HEADERS.iter().enumerate() {
            digests.wanted[at] = text(header).map(str::to_owned);
            let follows = digests.announced.iter().any(|name| name == header);
            if digests.wanted[at].is_none() && !follows {
                continue;
            }
            digests.any = true;
            match at {
                0 => digests.hasher.crc32 = Some(Crc32::new()),
                1 => digests.hasher.crc32c = Some(Crc32c::new()),
                2 => digests.hasher.sha1 = Some(Sha1::new()),
                3 => digests.hasher.sha256 = Some(Sha256::new()),
                _ => digests.hasher.crc64nvme = Some(Crc64Nvme::new()),
            }
        }
        if let Some(md5) = text("content-md5") {
            digests.wanted_md5 = Some(md5.to_owned());
            digests.md5 = Some(Md5::new());
            digests.any = true;
        }
        digests
    }

    /// Add the next bytes of the content to the checksums.
    pub fn update(&mut self, bytes: &[u8]) {
        if !self.any {
            return;
        }
        self.hasher.update(bytes);
        if let Some(md5) = &mut self.md5 {
            md5.update(bytes);
        }
    }

    /// Compare the checksums with those sent by the client, after all content has been received.
    /// Returns the computed checksums.
    ///
    /// # Errors
    /// `BadDigest` if a checksum differs; `IncompleteBody` if an announced trailer field is
    /// missing.
    pub fn check(mut self, trailing: Option<&TrailingHeaders>) -> S3Result<Checksum> {
        if let Some(trailing) = trailing {
            let trailer = trailing.take().unwrap_or_default();
            if let Some(lost) = self.announced.iter().find(|name| !trailer.contains_key(*name)) {
                return Err(s3_error!(IncompleteBody, "the trailer field {lost} is missing"));
            }
            for (at, header) in HEADERS.iter().enumerate() {
                let sent = trailer.get(*header).and_then(|value| value.to_str().ok());
                self.wanted[at] = sent.map(str::to_owned).or(self.wanted[at].take());
            }
        }
        let actual = self.hasher.finalize();
        let values = [
            &actual.checksum_crc32,
            &actual.checksum_crc32c,
            &actual.checksum_sha1,
            &actual.checksum_sha256,
            &actual.checksum_crc64nvme,
        ];
        for (at, value) in values.into_iter().enumerate() {
            if self.wanted[at].is_some() && self.wanted[at] != *value {
                return Err(s3_error!(BadDigest, "{} differs from the content", HEADERS[at]));
            }
        }
        let md5 = self.md5.map(|md5| STANDARD.encode(md5.finalize()));
        if self.wanted_md5 != md5 {
            return Err(s3_error!(BadDigest, "Content-MD5 differs from the content"));
        }
        Ok(actual)
    }
}
