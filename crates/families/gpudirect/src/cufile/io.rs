//! cuFile I/O: file handles, registered buffers, and the sync, batch and async APIs.

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::AsRawFd;
use std::time::Duration;

use storlab_base::{Error, Result};

use super::{CuFile, Status, done};
use crate::cuda::{DeviceBuffer, Stream};
use crate::errors::{Done, Fault};

/// `CU_FILE_HANDLE_TYPE_OPAQUE_FD`: a Linux file descriptor.
const OPAQUE_FD: c_int = 1;
/// `CUFILE_BATCH`, the only supported mode of a batch entry.
const BATCH: c_int = 1;
/// Status bits of a batch entry that has ended.
const COMPLETE: c_int = 0x10;
const ENDED: c_int = 0x04 | 0x08 | COMPLETE | 0x20 | 0x40;
/// Flags for registering a stream. `FIXED`: offsets and sizes are final when an I/O is submitted;
/// `ALIGNED`: they are also multiples of 4 KiB.
const FIXED: c_uint = 1 | 2 | 4;
const ALIGNED: c_uint = 8;

/// `CUfileDescr_t`: description of a file for cuFile.
#[repr(C)]
pub struct Description {
    kind: c_int,
    /// Union of a file descriptor and a pointer, of which storlab uses the descriptor.
    handle: u64,
    operations: *const c_void,
}

/// Direction of an I/O between a file and GPU memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Opcode {
    /// Read from the file.
    Read = 0,
    /// Write to the file.
    Write = 1,
}

/// `CUfileIOParams_t`: an entry of a batch, with the fields in the library's order.
#[repr(C)]
pub struct Entry {
    mode: c_int,
    buffer: *mut c_void,
    file_offset: i64,
    buffer_offset: i64,
    size: usize,
    handle: *mut c_void,
    opcode: c_int,
    cookie: *mut c_void,
}

/// `CUfileIOEvents_t`: result of a batch entry, with the fields in the library's order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawEvent {
    cookie: *mut c_void,
    status: c_int,
    result: isize,
}

/// Open file that is registered with cuFile.
pub struct CuHandle {
    cufile: &'static CuFile,
    raw: *mut c_void,
    /// Kept open as long as the handle is registered.
    _file: std::fs::File,
}

// SAFETY: cuFile's handles may be used on any thread.
unsafe impl Send for CuHandle {}
// SAFETY: cuFile's handles may be used by several threads at once.
unsafe impl Sync for CuHandle {}

impl CuHandle {
    /// Register an open file with cuFile.
    ///
    /// # Errors
    /// If cuFile refuses, for example because the file system has no direct path.
    pub fn new(cufile: &'static CuFile, file: std::fs::File, name: &str) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        let handle = u64::from(file.as_raw_fd() as u32);
        let mut description = Description { kind: OPAQUE_FD, handle, operations: std::ptr::null() };
        // SAFETY: the function reads the description, and writes one handle.
        done(unsafe { (cufile.functions.handle_register)(&raw mut raw, &raw mut description) })
            .map_err(|fault| fault.of(&format!("cuFileHandleRegister of {name}")))?;
        Ok(CuHandle { cufile, raw, _file: file })
    }

    /// Read `len` bytes at `offset` into GPU memory, and wait for the data. Return the bytes read.
    #[inline]
    pub fn read(&self, offset: u64, len: usize, into: &DeviceBuffer, at: usize) -> Done<u64> {
        check(into, at, len);
        let (base, call) = (into.address() as *mut c_void, self.cufile.functions.read);
        // SAFETY: the handle is registered, the range lies in the buffer, and the call blocks.
        moved(unsafe { call(self.raw, base, len, offset as i64, at as i64) })
    }

    /// Write `len` bytes from GPU memory to `offset`, and wait. Return the bytes written.
    #[inline]
    pub fn write(&self, offset: u64, len: usize, from: &DeviceBuffer, at: usize) -> Done<u64> {
        check(from, at, len);
        let (base, call) = (from.address() as *const c_void, self.cufile.functions.write);
        // SAFETY: as in `read`.
        moved(unsafe { call(self.raw, base, len, offset as i64, at as i64) })
    }
}

impl Drop for CuHandle {
    fn drop(&mut self) {
        // SAFETY: the handle was registered once, and no I/O is in flight on it.
        unsafe { (self.cufile.functions.handle_deregister)(self.raw) };
    }
}

#[inline]
fn check(buffer: &DeviceBuffer, at: usize, len: usize) {
    let all = buffer.len();
    assert!(at + len <= all, "bytes {at} to {} of {all} on the GPU", at + len);
}

/// Convert the return value of a cuFile call: bytes moved, -1 with `errno` set, or a negative
/// cuFile code.
#[inline]
fn moved(result: isize) -> Done<u64> {
    if result >= 0 { Ok(result as u64) } else { Err(refused(result)) }
}

#[cold]
fn refused(result: isize) -> Fault {
    match -result {
        1 => Fault::Errno(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)),
        code @ 5000.. => Fault::CuFile(code as i32, 0),
        code => Fault::Errno(code as i32),
    }
}

/// GPU buffer for I/O, registered with cuFile or not.
pub struct IoBuffer {
    memory: DeviceBuffer,
    registered_with: Option<&'static CuFile>,
}

impl IoBuffer {
    /// Wrap memory without registering it. cuFile then copies through its own bounce buffers.
    pub fn unregistered(memory: DeviceBuffer) -> Self {
        IoBuffer { memory, registered_with: None }
    }

    /// Register all of `memory` with cuFile, until the buffer is dropped.
    ///
    /// # Errors
    /// If cuFile refuses, for example because no more memory can be pinned.
    pub fn registered(cufile: &'static CuFile, memory: DeviceBuffer) -> Result<Self> {
        let (address, len) = (memory.address(), memory.len());
        // SAFETY: the range is one GPU allocation, which `drop` deregisters before freeing it.
        done(unsafe { (cufile.functions.buffer_register)(address as *const c_void, len, 0) })
            .map_err(|fault| fault.of(&format!("cuFileBufRegister of {len} bytes")))?;
        Ok(IoBuffer { memory, registered_with: Some(cufile) })
    }

    /// Return the GPU memory of the buffer.
    #[inline]
    pub fn memory(&self) -> &DeviceBuffer {
        &self.memory
    }
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        if let Some(cufile) = self.registered_with {
            let address = self.memory.address() as *const c_void;
            // SAFETY: the memory was registered once, and is freed after this call.
            unsafe { (cufile.functions.buffer_deregister)(address) };
        }
    }
}

fn lacks(name: &str) -> Error {
    Error::dependency(
        format!("this version of cuFile does not support {name}"),
        "use api = \"sync\", or a newer cuFile",
    )
}

/// Batch of I/Os that cuFile submits with one call.
pub struct Batch {
    cufile: &'static CuFile,
    raw: *mut c_void,
    entries: Vec<Entry>,
    events: Vec<RawEvent>,
    submit: unsafe extern "C" fn(*mut c_void, c_uint, *mut Entry, c_uint) -> Status,
    status: unsafe extern "C" fn(
        *mut c_void,
        c_uint,
        *mut c_uint,
        *mut RawEvent,
        *mut libc::timespec,
    ) -> Status,
}

/// Completion of a batch entry.
#[derive(Clone, Copy, Debug)]
pub struct BatchEvent {
    /// Number that identifies the entry, as given to [`Batch::push`].
    pub cookie: usize,
    /// Bytes moved, or the reason for the failure.
    pub result: Done<u64>,
}

impl Batch {
    /// Create a batch with room for this many entries.
    ///
    /// # Errors
    /// If this cuFile has no batch API or supports fewer entries.
    pub fn new(cufile: &'static CuFile, entries: usize) -> Result<Self> {
        let functions = &cufile.functions;
        let (Some(setup), Some(submit), Some(status), Some(_)) = (
            functions.batch_setup,
            functions.batch_submit,
            functions.batch_status,
            functions.batch_destroy,
        ) else {
            return Err(lacks("batches"));
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the function writes one handle.
        done(unsafe { setup(&raw mut raw, entries as c_uint) })
            .map_err(|fault| fault.of(&format!("cuFileBatchIOSetUp for {entries} entries")))?;
        let empty = RawEvent { cookie: std::ptr::null_mut(), status: 0, result: 0 };
        let (events, entries) = (vec![empty; entries], Vec::with_capacity(entries));
        Ok(Batch { cufile, raw, entries, events, submit, status })
    }

    /// Add an entry to the next submission. `buffer` is a GPU buffer and an offset in it.
    ///
    /// # Safety
    /// Neither the buffer nor the file may be dropped before the entry has ended or the batch is
    /// dropped.
    #[inline]
    pub unsafe fn push(
        &mut self,
        opcode: Opcode,
        handle: &CuHandle,
        offset: u64,
        len: usize,
        buffer: (&DeviceBuffer, usize),
        cookie: usize,
    ) {
        check(buffer.0, buffer.1, len);
        self.entries.push(Entry {
            mode: BATCH,
            buffer: buffer.0.address() as *mut c_void,
            file_offset: offset as i64,
            buffer_offset: buffer.1 as i64,
            size: len,
            handle: handle.raw,
            opcode: opcode as c_int,
            cookie: cookie as *mut c_void,
        });
    }

    /// Submit all entries added by [`Batch::push`].
    #[inline]
    pub fn submit(&mut self) -> Done<()> {
        let (entries, count) = (self.entries.as_mut_ptr(), self.entries.len() as c_uint);
        // SAFETY: there are no more entries than the batch was created for, and they are not moved
        // until all have ended.
        done(unsafe { (self.submit)(self.raw, count, entries, 0) })
    }

    /// Remove the entries of a failed submission. Return the cookies that identify them.
    pub fn take_back(&mut self) -> impl Iterator<Item = usize> + '_ {
        self.entries.drain(..).map(|entry| entry.cookie as usize)
    }

    /// Remove the submitted entries. All of them must have ended.
    #[inline]
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Wait at most `limit` until at least one entry has ended. Pass each ended entry to `take`.
    #[inline]
    pub fn wait(&mut self, limit: Duration, mut take: impl FnMut(BatchEvent)) -> Done<()> {
        let mut count = self.events.len() as c_uint;
        let mut limit = libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(limit.subsec_nanos()),
        };
        let events = self.events.as_mut_ptr();
        // SAFETY: `count` is the length of the event array.
        done(unsafe { (self.status)(self.raw, 1, &raw mut count, events, &raw mut limit) })?;
        for event in self.events.iter().take(count as usize) {
            if event.status & ENDED == 0 {
                continue;
            }
            let result = match event.status {
                COMPLETE => moved_of(event.result),
                _ if event.result < 0 && event.result != -1 => moved_of(event.result),
                status => Err(Fault::Batch(status)),
            };
            take(BatchEvent { cookie: event.cookie as usize, result });
        }
        Ok(())
    }

    /// Ask cuFile to cancel the entries in flight.
    pub fn cancel(&self) {
        if let Some(cancel) = self.cufile.functions.batch_cancel {
            // SAFETY: the batch is set up.
            unsafe { cancel(self.raw) };
        }
    }
}

/// Convert the result of a batch entry or stream I/O like [`moved`], but without `errno`, which is
/// not set. cuFile also reports `-EIO` for requests that it rejects.
#[inline]
fn moved_of(result: isize) -> Done<u64> {
    const MINUS_EIO: isize = -(libc::EIO as isize);
    if matches!(result, -1 | MINUS_EIO) { Err(Fault::Unexplained) } else { moved(result) }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(destroy) = self.cufile.functions.batch_destroy {
            // SAFETY: the batch was set up once, and nothing is in flight in it.
            unsafe { destroy(self.raw) };
        }
    }
}

/// CUDA stream on which cuFile runs one I/O at a time.
pub struct IoStream {
    cufile: &'static CuFile,
    stream: Stream,
    registered: bool,
    /// Heap-allocated parameters, which must neither move nor be freed while an I/O is in flight. A
    /// raw pointer, because cuFile writes to them: a reference would claim exclusive access.
    parameters: *mut Parameters,
    /// Whether an I/O was started whose end was not observed. If the flag stays set (the GPU is
    /// lost or the worker panics), the I/O may still end later, so its parameters are leaked.
    in_flight: bool,
}

/// Parameters of an I/O on a stream, which cuFile reads and writes while the I/O is in flight.
#[derive(Default)]
struct Parameters {
    size: usize,
    file_offset: i64,
    buffer_offset: i64,
    moved: isize,
}

impl IoStream {
    /// Register a stream with cuFile, which makes I/O on it cheaper. It is even cheaper with
    /// `in_whole_pages`, which promises that all I/Os are multiples of 4 KiB.
    ///
    /// # Errors
    /// If this cuFile has no async API, or refuses the stream.
    pub fn new(cufile: &'static CuFile, stream: Stream, in_whole_pages: bool) -> Result<Self> {
        let functions = &cufile.functions;
        if functions.read_async.is_none() || functions.write_async.is_none() {
            return Err(lacks("I/O on streams"));
        }
        let mut registered = false;
        if let Some(register) =
            functions.stream_register.filter(|_| functions.stream_deregister.is_some())
        {
            let flags = if in_whole_pages { FIXED | ALIGNED } else { FIXED };
            // SAFETY: the stream exists until `self` is dropped.
            done(unsafe { register(stream.raw(), flags) })
                .map_err(|fault| fault.of("cuFileStreamRegister"))?;
            registered = true;
        }
        let parameters = Box::into_raw(Box::default());
        Ok(IoStream { cufile, stream, registered, parameters, in_flight: false })
    }

    /// Return the CUDA stream on which the I/O runs.
    #[inline]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Start an I/O between a file and GPU memory.
    ///
    /// # Errors
    /// If cuFile refuses the call; then nothing is in flight.
    ///
    /// # Safety
    /// Neither the file nor the buffer may be dropped before the stream is idle.
    #[inline]
    pub unsafe fn start(
        &mut self,
        opcode: Opcode,
        handle: &CuHandle,
        offset: u64,
        len: usize,
        buffer: (&DeviceBuffer, usize),
    ) -> Done<()> {
        check(buffer.0, buffer.1, len);
        let functions = &self.cufile.functions;
        let call = match opcode {
            Opcode::Read => functions.read_async,
            Opcode::Write => functions.write_async,
        };
        let call = call.ok_or(Fault::CuFile(5038, 0))?;
        if self.in_flight {
            // The previous I/O may still write to its parameters, so leak them.
            self.parameters = Box::into_raw(Box::default());
        }
        let parameters = self.parameters;
        // SAFETY: no I/O in flight uses the parameters.
        unsafe {
            *parameters = Parameters {
                size: len,
                file_offset: offset as i64,
                buffer_offset: buffer.1 as i64,
                moved: 0,
            };
        }
        let base = buffer.0.address() as *mut c_void;
        // SAFETY: the parameters and the stream exist until the end of the I/O is observed; the
        // caller keeps file and buffer.
        let started = done(unsafe {
            call(
                handle.raw,
                base,
                &raw mut (*parameters).size,
                &raw mut (*parameters).file_offset,
                &raw mut (*parameters).buffer_offset,
                &raw mut (*parameters).moved,
                self.stream.raw(),
            )
        });
        self.in_flight = started.is_ok();
        started
    }

    /// Return the number of bytes that the I/O moved if the stream is idle; `None` otherwise.
    #[inline]
    pub fn poll(&mut self) -> Done<Option<u64>> {
        if !self.stream.is_idle()? {
            return Ok(None);
        }
        self.in_flight = false;
        // SAFETY: the stream is idle, so nothing writes to the parameters. The read is volatile,
        // because cuFile wrote the value.
        moved_of(unsafe { std::ptr::read_volatile(&raw const (*self.parameters).moved) }).map(Some)
    }
}

impl Drop for IoStream {
    fn drop(&mut self) {
        if let Some(deregister) =
            self.cufile.functions.stream_deregister.filter(|_| self.registered)
        {
            // SAFETY: the stream was registered once, and is destroyed after this call.
            unsafe { deregister(self.stream.raw()) };
        }
        if !self.in_flight {
            // SAFETY: the pointer came from a box, and no I/O in flight uses it.
            drop(unsafe { Box::from_raw(self.parameters) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cufile::RawProperties;

    #[test]
    fn structs_are_as_the_library_has_them() {
        // Sizes by a C compiler, for all versions from 1.14 to 1.20.
        assert_eq!(size_of::<Description>(), 24);
        assert_eq!(size_of::<Entry>(), 64);
        assert_eq!(size_of::<RawEvent>(), 24);
        assert_eq!(size_of::<Status>(), 8);
        assert_eq!(std::mem::offset_of!(RawProperties, room), 56);
        assert_eq!(std::mem::offset_of!(Entry, cookie), 56);
    }

    #[test]
    fn results_are_bytes_or_reasons() {
        assert_eq!(moved(4096), Ok(4096));
        assert_eq!(moved(-5008), Err(Fault::CuFile(5008, 0)));
        assert_eq!(moved(-5), Err(Fault::Errno(5)));
        assert_eq!(moved_of(-1), Err(Fault::Unexplained));
        assert_eq!(moved_of(-5), Err(Fault::Unexplained));
        assert_eq!(moved_of(-28), Err(Fault::Errno(libc::ENOSPC)));
    }
}
