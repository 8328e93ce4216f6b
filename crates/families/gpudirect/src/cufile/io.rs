//! Files, buffers, and the three ways to ask for I/O.

use std::ffi::{c_int, c_uint, c_void};
use std::os::fd::AsRawFd;
use std::time::Duration;

use storlab_base::{Error, Result};

use super::{CuFile, Status, done};
use crate::cuda::{DeviceBuffer, Stream};
use crate::errors::{Done, Fault};

/// A Linux file descriptor.
const OPAQUE_FD: c_int = 1;
/// Mode of an entry, and state of one that is not submitted.
const BATCH: c_int = 1;
/// States of an entry that has ended.
const COMPLETE: c_int = 0x10;
const ENDED: c_int = 0x04 | 0x08 | COMPLETE | 0x20 | 0x40;
/// What a stream may rely on: everything is known when it is asked for, and in whole pages.
const FIXED: c_uint = 1 | 2 | 4;
const ALIGNED: c_uint = 8;

/// A file as cuFile is told of it.
#[repr(C)]
pub struct Description {
    kind: c_int,
    /// A union of a descriptor and a pointer.
    handle: u64,
    operations: *const c_void,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Opcode {
    /// From the file.
    Read = 0,
    /// To the file.
    Write = 1,
}

/// An entry of a batch, in the order of the library.
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

/// What became of an entry, in the order of the library.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RawEvent {
    cookie: *mut c_void,
    status: c_int,
    result: isize,
}

/// A file that cuFile knows, and its descriptor.
pub struct CuHandle {
    cufile: &'static CuFile,
    raw: *mut c_void,
    /// Open as long as it is registered.
    _file: std::fs::File,
}

// SAFETY: cuFile's handles may be used on any thread.
unsafe impl Send for CuHandle {}
// SAFETY: as above, and by several at once.
unsafe impl Sync for CuHandle {}

impl CuHandle {
    /// Register an open file.
    ///
    /// # Errors
    /// By name, as for a file system that has no direct path.
    pub fn new(cufile: &'static CuFile, file: std::fs::File, name: &str) -> Result<Self> {
        let mut raw = std::ptr::null_mut();
        let handle = u64::from(file.as_raw_fd() as u32);
        let mut description = Description { kind: OPAQUE_FD, handle, operations: std::ptr::null() };
        // SAFETY: reads the description, and writes one handle.
        done(unsafe { (cufile.functions.handle_register)(&raw mut raw, &raw mut description) })
            .map_err(|fault| fault.of(&format!("cuFileHandleRegister of {name}")))?;
        Ok(CuHandle { cufile, raw, _file: file })
    }

    /// Read into GPU memory, and wait for that.
    #[inline]
    pub fn read(&self, offset: u64, len: usize, into: &DeviceBuffer, at: usize) -> Done<u64> {
        check(into, at, len);
        let (base, call) = (into.address() as *mut c_void, self.cufile.functions.read);
        // SAFETY: the handle is registered, the range lies in the buffer, the call waits.
        moved(unsafe { call(self.raw, base, len, offset as i64, at as i64) })
    }

    /// Write from GPU memory, and wait for that.
    #[inline]
    pub fn write(&self, offset: u64, len: usize, from: &DeviceBuffer, at: usize) -> Done<u64> {
        check(from, at, len);
        let (base, call) = (from.address() as *const c_void, self.cufile.functions.write);
        // SAFETY: as for reads.
        moved(unsafe { call(self.raw, base, len, offset as i64, at as i64) })
    }
}

impl Drop for CuHandle {
    fn drop(&mut self) {
        // SAFETY: it was registered once, and nothing is in flight on it.
        unsafe { (self.cufile.functions.handle_deregister)(self.raw) };
    }
}

#[inline]
fn check(buffer: &DeviceBuffer, at: usize, len: usize) {
    let all = buffer.len();
    assert!(at + len <= all, "bytes {at} to {} of {all} on the GPU", at + len);
}

/// Bytes, -1 with the kernel's error beside it, or the negative code of cuFile.
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

/// GPU memory for I/O, known to cuFile or not.
pub struct IoBuffer {
    memory: DeviceBuffer,
    registered_with: Option<&'static CuFile>,
}

impl IoBuffer {
    /// Wrap memory that cuFile is not told of: it copies through buffers of its own.
    pub fn unregistered(memory: DeviceBuffer) -> Self {
        IoBuffer { memory, registered_with: None }
    }

    /// Register all of `memory` with cuFile, until the buffer is dropped.
    ///
    /// # Errors
    /// If cuFile refuses, for example because no more memory can be pinned.
    pub fn registered(cufile: &'static CuFile, memory: DeviceBuffer) -> Result<Self> {
        let (address, len) = (memory.address(), memory.len());
        // SAFETY: the range is one allocation of the GPU, which is freed after `drop` below.
        done(unsafe { (cufile.functions.buffer_register)(address as *const c_void, len, 0) })
            .map_err(|fault| fault.of(&format!("cuFileBufRegister of {len} bytes")))?;
        Ok(IoBuffer { memory, registered_with: Some(cufile) })
    }

    /// Return the GPU memory.
    #[inline]
    pub fn memory(&self) -> &DeviceBuffer {
        &self.memory
    }
}

impl Drop for IoBuffer {
    fn drop(&mut self) {
        if let Some(cufile) = self.registered_with {
            let address = self.memory.address() as *const c_void;
            // SAFETY: it was registered once, and its memory is freed after this.
            unsafe { (cufile.functions.buffer_deregister)(address) };
        }
    }
}

fn lacks(name: &str) -> Error {
    Error::dependency(format!("this cuFile has no {name}"), "use api = \"sync\", or a newer cuFile")
}

/// I/Os that are handed over together.
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

/// An entry that has ended.
#[derive(Clone, Copy, Debug)]
pub struct BatchEvent {
    /// As it was given.
    pub cookie: usize,
    /// Bytes, or why not.
    pub result: Done<u64>,
}

impl Batch {
    /// For so many entries at a time.
    ///
    /// # Errors
    /// By name, as where cuFile takes fewer.
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
        // SAFETY: writes one handle.
        done(unsafe { setup(&raw mut raw, entries as c_uint) })
            .map_err(|fault| fault.of(&format!("cuFileBatchIOSetUp for {entries} entries")))?;
        let empty = RawEvent { cookie: std::ptr::null_mut(), status: 0, result: 0 };
        let (events, entries) = (vec![empty; entries], Vec::with_capacity(entries));
        Ok(Batch { cufile, raw, entries, events, submit, status })
    }

    /// Add an entry to what is submitted next.
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

    /// Hand over what was added.
    #[inline]
    pub fn submit(&mut self) -> Done<()> {
        let (entries, count) = (self.entries.as_mut_ptr(), self.entries.len() as c_uint);
        // SAFETY: no more entries than the batch was set up for, and they stay where they are until
        // all have ended.
        done(unsafe { (self.submit)(self.raw, count, entries, 0) })
    }

    /// What was not taken, by its cookies.
    pub fn take_back(&mut self) -> impl Iterator<Item = usize> + '_ {
        self.entries.drain(..).map(|entry| entry.cookie as usize)
    }

    /// What was handed over has ended: begin anew.
    #[inline]
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Wait for at least one entry, no longer than that; what has ended goes to `each`.
    #[inline]
    pub fn wait(&mut self, limit: Duration, mut take: impl FnMut(BatchEvent)) -> Done<()> {
        let mut count = self.events.len() as c_uint;
        let mut limit = libc::timespec {
            tv_sec: limit.as_secs() as libc::time_t,
            tv_nsec: libc::c_long::from(limit.subsec_nanos()),
        };
        let events = self.events.as_mut_ptr();
        // SAFETY: there is room for so many events.
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

    /// Ask for what is in flight to be given up.
    pub fn cancel(&self) {
        if let Some(cancel) = self.cufile.functions.batch_cancel {
            // SAFETY: the batch is set up.
            unsafe { cancel(self.raw) };
        }
    }
}

/// As [`moved`], of an entry: there is no errno beside it. A request that cuFile refuses ends with
/// minus EIO, too.
#[inline]
fn moved_of(result: isize) -> Done<u64> {
    const MINUS_EIO: isize = -(libc::EIO as isize);
    if matches!(result, -1 | MINUS_EIO) { Err(Fault::Unexplained) } else { moved(result) }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if let Some(destroy) = self.cufile.functions.batch_destroy {
            // SAFETY: it was set up once, and nothing is in flight in it.
            unsafe { destroy(self.raw) };
        }
    }
}

/// A stream of the GPU on which cuFile does one I/O at a time.
pub struct IoStream {
    cufile: &'static CuFile,
    stream: Stream,
    registered: bool,
    /// From a box. Also written by cuFile, so a pointer: a reference would assert that nobody else
    /// has it. While an I/O is in flight it must neither move nor be freed.
    parameters: *mut Parameters,
    /// An I/O was started and not seen to end. Where that is never seen, because the GPU is lost or
    /// the worker panics, the I/O may end later all the same, and its parameters are leaked.
    in_flight: bool,
}

/// The arguments of an I/O on a stream, which cuFile reads and writes while it is in flight.
#[derive(Default)]
struct Parameters {
    size: usize,
    file_offset: i64,
    buffer_offset: i64,
    moved: isize,
}

impl IoStream {
    /// Register a stream with cuFile: I/O on it costs less then, and less still if all of it is
    /// `in_whole_pages`.
    ///
    /// # Errors
    /// If this cuFile has no I/O on streams, or refuses the stream.
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
            // SAFETY: the stream is there until this is dropped.
            done(unsafe { register(stream.raw(), flags) })
                .map_err(|fault| fault.of("cuFileStreamRegister"))?;
            registered = true;
        }
        let parameters = Box::into_raw(Box::default());
        Ok(IoStream { cufile, stream, registered, parameters, in_flight: false })
    }

    /// Return the stream.
    #[inline]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Start an I/O between a file and GPU memory.
    ///
    /// # Errors
    /// If cuFile refuses the call: then nothing is in flight.
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
            // The I/O before may write to its parameters yet: leak them.
            self.parameters = Box::into_raw(Box::default());
        }
        let parameters = self.parameters;
        // SAFETY: nothing is in flight on them.
        unsafe {
            *parameters = Parameters {
                size: len,
                file_offset: offset as i64,
                buffer_offset: buffer.1 as i64,
                moved: 0,
            };
        }
        let base = buffer.0.address() as *mut c_void;
        // SAFETY: the parameters stay where they are until the I/O is seen to end, the stream
        // lives as long; file and buffer do by the caller's promise.
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

    /// Return the bytes that the I/O moved once the stream is idle; `None` until then.
    ///
    /// # Errors
    /// If the I/O failed, or the GPU's context is lost.
    #[inline]
    pub fn poll(&mut self) -> Done<Option<u64>> {
        if !self.stream.is_idle()? {
            return Ok(None);
        }
        self.in_flight = false;
        // SAFETY: the stream is idle, so nothing writes to them; volatile, since cuFile wrote it.
        moved_of(unsafe { std::ptr::read_volatile(&raw const (*self.parameters).moved) }).map(Some)
    }
}

impl Drop for IoStream {
    fn drop(&mut self) {
        if let Some(deregister) =
            self.cufile.functions.stream_deregister.filter(|_| self.registered)
        {
            // SAFETY: it was registered once; the stream is destroyed after this.
            unsafe { deregister(self.stream.raw()) };
        }
        if !self.in_flight {
            // SAFETY: it came from a box, and nothing is in flight on it.
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
        // Of all versions from 1.14 to 1.20, as a C compiler lays them out.
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
