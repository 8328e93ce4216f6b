//! Bindings to cuFile: library, driver, properties, statistics and I/O.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};

use storlab_base::Result;

use crate::errors::{Done, Fault};
use crate::library::{Library, functions};

mod io;
mod opening;
mod stats;

pub use io::{Batch, CuHandle, IoBuffer, IoStream, Opcode};
pub use stats::{BatchOps, GpuOps, Stats};

/// `CUfileError_t`: status of a call, as cuFile's own code and the CUDA driver's code.
#[repr(C)]
#[derive(Clone, Copy)]
struct Status {
    code: c_int,
    cuda: c_int,
}

/// `CUfileDrvProps_t`, with the fields in the library's order.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawProperties {
    nvfs_major: c_uint,
    nvfs_minor: c_uint,
    poll_threshold_kb: usize,
    max_direct_io_kb: usize,
    status_flags: c_uint,
    control_flags: c_uint,
    feature_flags: c_uint,
    device_cache_kb: c_uint,
    buffer_cache_kb: c_uint,
    pinned_kb: c_uint,
    max_batch: c_uint,
    batch_timeout_ms: c_uint,
    /// Room for fields that later versions may add.
    room: [u64; 32],
}

// SAFETY: the types match the declarations in cufile.h.
functions!(unsafe Functions {
    driver_open "cuFileDriverOpen" () -> Status;
    properties "cuFileDriverGetProperties" (*mut RawProperties) -> Status;
    handle_register "cuFileHandleRegister" (*mut *mut c_void, *mut io::Description) -> Status;
    handle_deregister "cuFileHandleDeregister" (*mut c_void) -> ();
    buffer_register "cuFileBufRegister" (*const c_void, usize, c_int) -> Status;
    buffer_deregister "cuFileBufDeregister" (*const c_void) -> Status;
    read "cuFileRead" (*mut c_void, *mut c_void, usize, i64, i64) -> isize;
    write "cuFileWrite" (*mut c_void, *const c_void, usize, i64, i64) -> isize;
} optional {
    driver_close_2 "cuFileDriverClose_v2" () -> Status;
    driver_close_1 "cuFileDriverClose" () -> Status;
    version "cuFileGetVersion" (*mut c_int) -> Status;
    parameter_bool "cuFileGetParameterBool" (c_int, *mut bool) -> Status;
    p2p_flags "cuFileDriverGetP2PFlags" (c_int, *mut c_int) -> Status;
    batch_setup "cuFileBatchIOSetUp" (*mut *mut c_void, c_uint) -> Status;
    batch_submit "cuFileBatchIOSubmit" (*mut c_void, c_uint, *mut io::Entry, c_uint) -> Status;
    batch_status "cuFileBatchIOGetStatus"
        (*mut c_void, c_uint, *mut c_uint, *mut io::RawEvent, *mut libc::timespec) -> Status;
    batch_cancel "cuFileBatchIOCancel" (*mut c_void) -> Status;
    batch_destroy "cuFileBatchIODestroy" (*mut c_void) -> ();
    stream_register "cuFileStreamRegister" (*mut c_void, c_uint) -> Status;
    stream_deregister "cuFileStreamDeregister" (*mut c_void) -> Status;
    read_async "cuFileReadAsync"
        (*mut c_void, *mut c_void, *mut usize, *mut i64, *mut i64, *mut isize, *mut c_void)
        -> Status;
    write_async "cuFileWriteAsync"
        (*mut c_void, *mut c_void, *mut usize, *mut i64, *mut i64, *mut isize, *mut c_void)
        -> Status;
    stats_level "cuFileSetStatsLevel" (c_int) -> Status;
    stats_start "cuFileStatsStart" () -> Status;
    stats_l3 "cuFileGetStatsL3" (*mut u64) -> Status;
});

/// Numbers of bits in the control flags of cuFile's driver properties.
const USE_POLL_MODE: u32 = 0;
const ALLOW_COMPAT: u32 = 1;
/// Numbers of boolean parameters, as passed to `cuFileGetParameterBool`.
const PARAMETER_ALLOW_COMPAT: c_int = 1;
const PARAMETER_FORCE_COMPAT: c_int = 2;
const PARAMETER_USE_P2PDMA: c_int = 7;
/// cuFile's number for the storage type NVMe.
const NVME: c_int = 4;

fn done(status: Status) -> Done<()> {
    if status.code == 0 { Ok(()) } else { Err(Fault::CuFile(status.code, status.cuda)) }
}

/// The loaded cuFile library.
pub struct CuFile {
    functions: Functions,
    /// File that the library was loaded from.
    pub path: String,
}

/// Properties that cuFile's driver reports once it is open.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// Whether cuFile may fall back to compatibility mode (POSIX I/O through host memory).
    pub compat_allowed: bool,
    /// Whether cuFile always uses compatibility mode; `None` if this version does not report it.
    pub compat_forced: Option<bool>,
    /// Whether the kernel's PCI peer-to-peer DMA may be used; `None` if not reported.
    pub p2pdma: Option<bool>,
    /// Whether cuFile polls for the completion of short I/Os.
    pub poll_mode: bool,
    /// Size in bytes up to which I/Os are polled.
    pub poll_bytes: u64,
    /// Maximum size of one direct I/O through nvidia-fs, in bytes.
    pub direct_io_bytes: u64,
    /// Maximum amount of GPU memory that cuFile may pin, in bytes per GPU.
    pub pinned_bytes: u64,
    /// Maximum number of entries that cuFile accepts in a batch.
    pub max_batch: u32,
    /// Major and minor version of nvidia-fs; zeros if it is not loaded.
    pub nvfs: (u32, u32),
    /// Storage types for which cuFile has a direct path, one bit each.
    pub storage_flags: u32,
    /// Features of the driver, one bit each.
    pub feature_flags: u32,
    /// Direct paths available for NVMe, one bit each; `None` if not reported.
    pub nvme_p2p_flags: Option<i32>,
}

impl CuFile {
    /// Load the cuFile library from the first of `places` that works, without opening its driver.
    ///
    /// # Errors
    /// If no candidate can be loaded, or a function is missing that every version has.
    pub fn load(places: &[String]) -> Result<&'static CuFile> {
        let fix = "install it with `pip install storlab[gpu]`, or name its libcufile.so.0 in \
                   cufile_library";
        let library = Library::open("cuFile", places, fix)?;
        let functions = Functions::resolve(library)?;
        let path = library.path("cuFileRead").unwrap_or_default();
        Ok(Box::leak(Box::new(CuFile { functions, path })))
    }

    /// Return the library's version as it encodes it: 1000 * major + 10 * minor.
    pub fn version(&self) -> Option<i32> {
        let mut version = 0;
        let function = self.functions.version?;
        // SAFETY: the function writes one number through a valid pointer.
        done(unsafe { function(&raw mut version) }).ok().map(|()| version)
    }

    /// Return the library's version as text, for example `1.14`.
    pub fn version_name(&self) -> Option<String> {
        self.version().map(|version| format!("{}.{}", version / 1000, version % 1000 / 10))
    }

    /// Open cuFile's driver in a separate thread, which is abandoned if the call hangs.
    ///
    /// # Errors
    /// If the driver refuses, if it does not open within `timeout_ns`, or once `ended` returns true
    /// (the run no longer waits for the driver).
    pub fn open(&'static self, timeout_ns: u64, ended: impl Fn() -> bool) -> Result<Driver> {
        // SAFETY: the function takes no arguments and may be called on any thread.
        opening::open(move || done(unsafe { (self.functions.driver_open)() }), timeout_ns, ended)?;
        Ok(Driver { cufile: self })
    }
}

/// cuFile with its driver open. Dropping this value closes the driver.
pub struct Driver {
    cufile: &'static CuFile,
}

impl Driver {
    /// Return the cuFile library.
    pub fn cufile(&self) -> &'static CuFile {
        self.cufile
    }

    /// Query the driver's properties.
    ///
    /// # Errors
    /// If `cuFileDriverGetProperties` fails.
    pub fn properties(&self) -> Result<Properties> {
        let functions = &self.cufile.functions;
        let mut raw = RawProperties::default();
        // SAFETY: the struct has all fields that any version writes, and spare space after them.
        done(unsafe { (functions.properties)(&raw mut raw) })
            .map_err(|fault| fault.of("cuFileDriverGetProperties"))?;
        let bit = |flags: u32, bit: u32| flags >> bit & 1 == 1;
        let told = |number| self.parameter(number);
        let kb = |size: u64| size.saturating_mul(1024);
        Ok(Properties {
            compat_allowed: told(PARAMETER_ALLOW_COMPAT)
                .unwrap_or(bit(raw.control_flags, ALLOW_COMPAT)),
            compat_forced: told(PARAMETER_FORCE_COMPAT),
            p2pdma: told(PARAMETER_USE_P2PDMA),
            poll_mode: bit(raw.control_flags, USE_POLL_MODE),
            poll_bytes: kb(raw.poll_threshold_kb as u64),
            direct_io_bytes: kb(raw.max_direct_io_kb as u64),
            pinned_bytes: kb(u64::from(raw.pinned_kb)),
            max_batch: raw.max_batch,
            nvfs: (raw.nvfs_major, raw.nvfs_minor),
            storage_flags: raw.status_flags,
            feature_flags: raw.feature_flags,
            nvme_p2p_flags: self.nvme_p2p_flags(),
        })
    }

    fn parameter(&self, number: c_int) -> Option<bool> {
        let (mut value, function) = (false, self.cufile.functions.parameter_bool?);
        // SAFETY: the function writes one byte, 0 or 1.
        done(unsafe { function(number, &raw mut value) }).ok().map(|()| value)
    }

    fn nvme_p2p_flags(&self) -> Option<i32> {
        let (mut flags, function) = (0, self.cufile.functions.p2p_flags?);
        // SAFETY: the function writes one number through a valid pointer.
        done(unsafe { function(NVME, &raw mut flags) }).ok().map(|()| flags)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        let functions = &self.cufile.functions;
        // Closing also ends the counting. Do not call `cuFileStatsStop`: after that call, a thread
        // of versions 1.15 and 1.16 still writes to freed memory, and about one call in thirty
        // crashes the process.
        if let Some(close) = functions.driver_close_2.or(functions.driver_close_1) {
            // SAFETY: the driver was opened once; registrations were undone or are left to the
            // library.
            unsafe { close() };
        }
    }
}
