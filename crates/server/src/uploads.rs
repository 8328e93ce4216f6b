//! Multipart uploads. Each upload is a directory with one file per part. Completion joins the
//! files.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use s3s::dto::ETag;
use s3s::{S3Result, s3_error};

use crate::bucket::{Bucket, TempFile, flush_names};
use crate::conditions::Conditions;
use crate::errors::failed;
use crate::object::{Object, nanoseconds};
use crate::stored_headers::StoredHeaders;

/// Limits of S3: highest part number, and minimum size in bytes of every part except the last.
const PARTS: i32 = 10_000;
const SMALLEST_PART: u64 = 5 * 1024 * 1024;
/// Name of the file that contains an upload's key.
const KEY: &str = "key";
/// Name of the file that contains the headers of the future object.
const HEADERS: &str = "headers";

/// Unfinished multipart upload.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Upload {
    /// Key of the object that the upload creates.
    pub key: String,
    /// Upload ID, unique in the store.
    pub id: String,
    /// Time at which the upload was begun, in ns since 1970.
    pub begun_ns: i64,
}

/// Part that the client lists when it completes a multipart upload.
#[derive(Debug)]
pub struct Named {
    /// Part number, from 1.
    pub number: i32,
    /// ETag that the server sent to the client for the part.
    pub etag: Option<ETag>,
}

impl Bucket {
    /// Begin a multipart upload, and return its ID.
    pub fn begin_upload(&self, key: &str, kept: &StoredHeaders) -> S3Result<String> {
        let begin = || {
            let aside = self.uploads().join(self.aside_name());
            fs::create_dir(&aside)?;
            for (name, text) in [(KEY, key.as_bytes()), (HEADERS, kept.text().as_slice())] {
                let mut file = File::create(aside.join(name))?;
                file.write_all(text)?;
                self.flush().map_or(Ok(()), |flush| flush(&file))?;
            }
            let stamp = self.stamps().next(fs::metadata(aside.join(KEY))?.modified()?);
            let id = format!("{:016x}", nanoseconds(stamp));
            fs::rename(aside, self.uploads().join(&id))?;
            if let Some(flush) = self.flush() {
                flush_names(&self.uploads().join(&id).join(KEY), &self.uploads(), flush)?;
            }
            Ok(id)
        };
        begin().map_err(failed("start of an upload"))
    }

    /// Create a temporary file for a part. Pass it to [`Bucket::put_part`] when it is written.
    ///
    /// # Errors
    /// `NoSuchUpload` if the upload does not exist; `InvalidArgument` if the part number is out of
    /// range.
    pub fn aside_part(&self, key: &str, id: &str, number: i32) -> S3Result<TempFile> {
        if !(1..=PARTS).contains(&number) {
            return Err(s3_error!(
                InvalidArgument,
                "the part number must be between 1 and {PARTS}"
            ));
        }
        let directory = self.upload(key, id)?;
        TempFile::create(directory.join(self.aside_name())).map_err(gone("creation of a part"))
    }

    /// Store a temporary file as part `number` of its upload.
    pub fn put_part(&self, id: &str, number: i32, mut aside: TempFile) -> S3Result<Object> {
        let top = self.uploads().join(id);
        let path = top.join(part_name(number));
        let mut name = || {
            let object = aside.seal(self.stamps(), self.flush())?;
            aside.name(&path, false)?;
            if let Some(flush) = self.flush() {
                flush_names(&path, &top, flush)?;
            }
            Ok(object)
        };
        name().map_err(gone("storing of a part"))
    }

    /// Return the parts uploaded so far, sorted by number.
    fn parts(&self, key: &str, id: &str) -> S3Result<Vec<(i32, Object)>> {
        let directory = self.upload(key, id)?;
        let list = || -> io::Result<Vec<(i32, Object)>> {
            let mut parts = Vec::new();
            for entry in fs::read_dir(&directory)? {
                let entry = entry?;
                let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
                if let Some(number) = number {
                    parts.push((number, Object::of(&entry.metadata()?)?));
                }
            }
            parts.sort_unstable_by_key(|(number, _)| *number);
            Ok(parts)
        };
        list().map_err(gone("listing of an upload"))
    }

    /// Complete a multipart upload: join the listed parts to the object.
    ///
    /// The file of the first part becomes the object. The other parts are appended to it by a copy
    /// inside the kernel if the file system supports that.
    ///
    /// # Errors
    /// `NoSuchUpload`, `InvalidPart`, `InvalidPartOrder` or `EntityTooSmall`. The upload still
    /// exists after an error.
    pub fn complete_upload(&self, key: &str, id: &str, named: &[Named]) -> S3Result<Object> {
        let directory = self.upload(key, id)?;
        let paths = check_parts(&self.parts(key, id)?, named)?;
        // After this rename, no other request can add parts to the upload, complete or abort it.
        let closed = self.uploads().join(format!(".closed-{id}"));
        fs::rename(&directory, &closed).map_err(gone("renaming of an upload's directory"))?;
        let kept = fs::read(closed.join(HEADERS)).map_err(failed("read of an upload's headers"));
        let joined = join(&closed, &paths).map_err(failed("joining of parts"));
        let put = joined.and_then(|(aside, undo)| {
            let put = kept.and_then(|text| {
                StoredHeaders::parse(&text).write(&aside.file)?;
                self.put(key, aside, &Conditions::default())
            });
            put.inspect_err(|_| {
                // If the first part cannot be restored, its ETag no longer matches the client's, so
                // a later completion rejects it.
                let _ = undo.restore();
            })
        });
        match put {
            Ok(object) => {
                // Files that remain are removed when the bucket is opened the next time.
                let _ = fs::remove_dir_all(&closed);
                Ok(object)
            }
            Err(error) => {
                fs::rename(&closed, &directory)
                    .map_err(failed("renaming of an upload's directory"))?;
                Err(error)
            }
        }
    }

    /// Abort a multipart upload: remove it and its parts.
    pub fn abort_upload(&self, key: &str, id: &str) -> S3Result<()> {
        let directory = self.upload(key, id)?;
        let closed = self.uploads().join(format!(".closed-{id}"));
        fs::rename(&directory, &closed).map_err(gone("renaming of an upload's directory"))?;
        fs::remove_dir_all(closed).map_err(failed("removal of parts"))
    }

    /// Return all unfinished uploads of the bucket, sorted by key, then by age.
    pub fn list_uploads(&self) -> S3Result<Vec<Upload>> {
        let list = || -> io::Result<Vec<Upload>> {
            let mut uploads = Vec::new();
            for entry in fs::read_dir(self.uploads())? {
                let Ok(id) = entry?.file_name().into_string() else { continue };
                let path = self.uploads().join(&id).join(KEY);
                let begun = fs::metadata(&path).and_then(|metadata| metadata.modified());
                // Skip uploads that were completed or aborted in the meantime.
                if let (true, Ok(key), Ok(begun)) = (is_id(&id), fs::read_to_string(&path), begun) {
                    uploads.push(Upload { key, id, begun_ns: nanoseconds(begun) });
                }
            }
            uploads.sort_unstable();
            Ok(uploads)
        };
        list().map_err(failed("listing of uploads"))
    }

    /// Return the directory of an upload. Fails with `NoSuchUpload` if no upload has this ID and
    /// key.
    fn upload(&self, key: &str, id: &str) -> S3Result<PathBuf> {
        let directory = self.uploads().join(id);
        let is_of_key = is_id(id)
            && fs::read_to_string(directory.join(KEY)).is_ok_and(|written| written == key);
        is_of_key.then_some(directory).ok_or_else(|| s3_error!(NoSuchUpload))
    }
}

/// Check by S3's rules the parts that the client lists, and return the names of their files.
fn check_parts(there: &[(i32, Object)], named: &[Named]) -> S3Result<Vec<String>> {
    if named.is_empty() {
        return Err(s3_error!(MalformedXML, "the request lists no parts"));
    }
    if named.windows(2).any(|pair| pair[0].number >= pair[1].number) {
        return Err(s3_error!(InvalidPartOrder, "the parts are not listed in ascending order"));
    }
    let mut files = Vec::with_capacity(named.len());
    for (at, part) in named.iter().enumerate() {
        let place = there.binary_search_by_key(&part.number, |(number, _)| *number);
        let Ok(place) = place else {
            return Err(s3_error!(InvalidPart, "part {} was not uploaded", part.number));
        };
        let object = &there[place].1;
        let etag = object.etag();
        if part.etag.as_ref().is_some_and(|sent| sent.value() != etag.value()) {
            return Err(s3_error!(InvalidPart, "wrong ETag for part {}", part.number));
        }
        if at + 1 < named.len() && object.size < SMALLEST_PART {
            return Err(s3_error!(
                EntityTooSmall,
                "part {} has {} bytes; every part but the last needs at least {SMALLEST_PART}",
                part.number,
                object.size
            ));
        }
        files.push(part_name(part.number));
    }
    Ok(files)
}

/// Original size and modification time of the first part's file, needed to undo the appending of
/// other parts.
struct Undo {
    file: File,
    part: Object,
}

impl Undo {
    fn restore(&self) -> io::Result<()> {
        self.file.set_len(self.part.size)?;
        self.file.set_modified(self.part.modified())
    }
}

/// Append the files of all other parts to the file of the first part.
fn join(directory: &Path, files: &[String]) -> io::Result<(TempFile, Undo)> {
    let first = directory.join(&files[0]);
    let mut file = File::options().read(true).write(true).open(&first)?;
    let undo = Undo { file: file.try_clone()?, part: Object::of(&file.metadata()?)? };
    file.seek(SeekFrom::End(0))?;
    for name in &files[1..] {
        let copied = File::open(directory.join(name)).and_then(|mut p| io::copy(&mut p, &mut file));
        if let Err(error) = copied {
            undo.restore()?;
            return Err(error);
        }
    }
    Ok((TempFile::adopt(file, first), undo))
}

fn part_name(number: i32) -> String {
    format!("{number:05}")
}

/// Return whether the text is an upload ID: 16 hexadecimal digits, which are safe in a path.
fn is_id(id: &str) -> bool {
    id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn gone(operation: &'static str) -> impl Fn(io::Error) -> s3s::S3Error {
    move |error| {
        if error.kind() == io::ErrorKind::NotFound {
            s3_error!(NoSuchUpload, "the upload was completed or aborted")
        } else {
            failed(operation)(error)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    /// Flushes of files and of directories.
    static FLUSHES: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

    fn count_flush(file: &File) -> io::Result<()> {
        FLUSHES[usize::from(file.metadata()?.is_dir())].fetch_add(1, SeqCst);
        Ok(())
    }

    #[test]
    fn a_durable_upload_is_flushed_when_it_begins() {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("bucket");
        let bucket = Bucket::create(&root, Some(count_flush), Arc::default()).expect("made");
        bucket.begin_upload("k", &StoredHeaders::default()).expect("begun");
        // Two files (key and headers), and two directories (the upload's own, and the one of all
        // uploads).
        assert_eq!([0, 1].map(|kind| FLUSHES[kind].load(SeqCst)), [2, 2]);
    }
}
