//! Bindings to the CUDA driver API: devices, memory, copies, streams and events.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use storlab_base::Result;

use crate::errors::{Done, Fault};
use crate::library::{Library, functions};

mod memory;
mod stream;

pub use memory::{DeviceBuffer, GPU_PAGE, PinnedArena, PinnedBuffer};
pub use stream::{Event, Stream};

/// CUDA context handle (`CUcontext`).
type Context = *mut c_void;
/// CUDA stream or event handle (`CUstream`, `CUevent`).
type Handle = *mut c_void;

const NOT_READY: c_int = 600;
/// Device attributes (`CUdevice_attribute`): compute capability, major and minor.
const COMPUTE_MAJOR: c_int = 75;
const COMPUTE_MINOR: c_int = 76;

// SAFETY: the types match the declarations in cuda.h.
functions!(unsafe Functions {
    init "cuInit" (c_uint) -> c_int;
    driver_version "cuDriverGetVersion" (*mut c_int) -> c_int;
    device_count "cuDeviceGetCount" (*mut c_int) -> c_int;
    device_get "cuDeviceGet" (*mut c_int, c_int) -> c_int;
    device_name "cuDeviceGetName" (*mut c_char, c_int, c_int) -> c_int;
    device_pci "cuDeviceGetPCIBusId" (*mut c_char, c_int, c_int) -> c_int;
    device_attribute "cuDeviceGetAttribute" (*mut c_int, c_int, c_int) -> c_int;
    device_memory "cuDeviceTotalMem_v2" (*mut usize, c_int) -> c_int;
    retain "cuDevicePrimaryCtxRetain" (*mut Context, c_int) -> c_int;
    release "cuDevicePrimaryCtxRelease_v2" (c_int) -> c_int;
    reset "cuDevicePrimaryCtxReset_v2" (c_int) -> c_int;
    set_current "cuCtxSetCurrent" (Context) -> c_int;
    memory_info "cuMemGetInfo_v2" (*mut usize, *mut usize) -> c_int;
    allocate "cuMemAlloc_v2" (*mut u64, usize) -> c_int;
    free "cuMemFree_v2" (u64) -> c_int;
    host_allocate "cuMemHostAlloc" (*mut *mut c_void, usize, c_uint) -> c_int;
    host_free "cuMemFreeHost" (*mut c_void) -> c_int;
    to_device "cuMemcpyHtoD_v2" (u64, *const c_void, usize) -> c_int;
    to_host "cuMemcpyDtoH_v2" (*mut c_void, u64, usize) -> c_int;
    to_device_async "cuMemcpyHtoDAsync_v2" (u64, *const c_void, usize, Handle) -> c_int;
    to_host_async "cuMemcpyDtoHAsync_v2" (*mut c_void, u64, usize, Handle) -> c_int;
    on_device_async "cuMemcpyDtoDAsync_v2" (u64, u64, usize, Handle) -> c_int;
    stream_create "cuStreamCreate" (*mut Handle, c_uint) -> c_int;
    stream_destroy "cuStreamDestroy_v2" (Handle) -> c_int;
    stream_query "cuStreamQuery" (Handle) -> c_int;
    stream_synchronize "cuStreamSynchronize" (Handle) -> c_int;
    event_create "cuEventCreate" (*mut Handle, c_uint) -> c_int;
    event_destroy "cuEventDestroy_v2" (Handle) -> c_int;
    event_record "cuEventRecord" (Handle, Handle) -> c_int;
    event_query "cuEventQuery" (Handle) -> c_int;
    event_synchronize "cuEventSynchronize" (Handle) -> c_int;
} optional {
    device_uuid "cuDeviceGetUuid_v2" (*mut u8, c_int) -> c_int;
    device_uuid_1 "cuDeviceGetUuid" (*mut u8, c_int) -> c_int;
    host_register "cuMemHostRegister_v2" (*mut c_void, usize, c_uint) -> c_int;
    host_unregister "cuMemHostUnregister" (*mut c_void) -> c_int;
});

/// The initialised CUDA driver library.
pub struct Cuda {
    functions: Functions,
    /// File that the library was loaded from.
    pub path: String,
}

/// Properties of a GPU.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Ordinal of the GPU, as counted by nvidia-smi and `CUDA_VISIBLE_DEVICES`.
    pub number: u32,
    /// Product name of the GPU.
    pub name: String,
    /// PCI address: domain, bus, device, function.
    pub pci: String,
    /// UUID, which identifies the GPU in cuFile's statistics.
    pub uuid: Option<[u8; 16]>,
    /// Compute capability, for example `9.0`.
    pub compute: String,
    /// Total memory of the GPU in bytes.
    pub memory_bytes: u64,
    device: c_int,
}

/// Convert a `CUresult` of the CUDA driver to a `Result`.
fn done(result: c_int) -> Done<()> {
    if result == 0 { Ok(()) } else { Err(Fault::Cuda(result)) }
}

impl Cuda {
    /// Load the CUDA driver library from the first of `places` that works, and call `cuInit`.
    ///
    /// # Errors
    /// If no candidate can be loaded, a function is missing, or there is no GPU.
    pub fn open(places: &[String]) -> Result<&'static Cuda> {
        let fix = "install NVIDIA's driver, name its libcuda.so.1 in cuda_library, or use path = \
                   \"host\"";
        let library = Library::open("the CUDA driver", places, fix)?;
        let functions = Functions::resolve(library)?;
        let path = library.path("cuInit").unwrap_or_default();
        let cuda: &'static Cuda = Box::leak(Box::new(Cuda { functions, path }));
        // SAFETY: the function takes a number that must be 0; it may be called repeatedly.
        done(unsafe { (cuda.functions.init)(0) }).map_err(|fault| fault.of("cuInit"))?;
        Ok(cuda)
    }

    /// Return the version of the driver API, for example `12.4`; empty if it cannot be read.
    pub fn version(&self) -> String {
        let mut version = 0;
        // SAFETY: the function writes one number.
        let known = done(unsafe { (self.functions.driver_version)(&raw mut version) }).is_ok();
        if known { format!("{}.{}", version / 1000, version % 1000 / 10) } else { String::new() }
    }

    /// Return the number of GPUs that this process can use.
    pub fn count(&self) -> Done<u32> {
        let mut count = 0;
        // SAFETY: the function writes one number.
        done(unsafe { (self.functions.device_count)(&raw mut count) })?;
        Ok(count.try_into().unwrap_or(0))
    }

    /// Query the properties of a GPU.
    pub fn facts(&self, number: u32) -> Done<Facts> {
        let mut device = 0;
        let ordinal = c_int::try_from(number).unwrap_or(c_int::MAX);
        // SAFETY: the function writes one number.
        done(unsafe { (self.functions.device_get)(&raw mut device, ordinal) })?;
        let mut memory = 0;
        // SAFETY: the function writes one number.
        done(unsafe { (self.functions.device_memory)(&raw mut memory, device) })?;
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: the function writes one number.
            done(unsafe { (self.functions.device_attribute)(&raw mut value, which, device) })?;
            Ok(value)
        };
        let compute = format!("{}.{}", attribute(COMPUTE_MAJOR)?, attribute(COMPUTE_MINOR)?);
        Ok(Facts {
            number,
            name: text(device, self.functions.device_name)?,
            pci: text(device, self.functions.device_pci)?,
            uuid: self.uuid(device),
            compute,
            memory_bytes: memory as u64,
            device,
        })
    }

    fn uuid(&self, device: c_int) -> Option<[u8; 16]> {
        let function = self.functions.device_uuid.or(self.functions.device_uuid_1)?;
        let mut uuid = [0; 16];
        // SAFETY: the function writes 16 bytes, the size of the array.
        done(unsafe { function(uuid.as_mut_ptr(), device) }).ok().map(|()| uuid)
    }

    /// Return whether this driver can pin existing host memory (`cuMemHostRegister`).
    pub fn pins(&self) -> bool {
        self.functions.host_register.is_some() && self.functions.host_unregister.is_some()
    }
}

fn text(
    device: c_int,
    function: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
) -> Done<String> {
    let mut room = [0 as c_char; 256];
    // SAFETY: the function writes a string of at most the given length; the spare byte keeps it
    // terminated.
    done(unsafe { function(room.as_mut_ptr(), room.len() as c_int - 1, device) })?;
    // SAFETY: the last byte is still 0, so the string is terminated.
    Ok(unsafe { CStr::from_ptr(room.as_ptr()) }.to_string_lossy().into_owned())
}

/// GPU in use. Its primary context is retained until this value is dropped.
pub struct Gpu {
    /// CUDA driver through which the GPU is used.
    pub cuda: &'static Cuda,
    /// Properties of the GPU.
    pub facts: Facts,
    context: Context,
}

// SAFETY: contexts of the driver may be current on several threads at once.
unsafe impl Send for Gpu {}
// SAFETY: contexts of the driver may be current on several threads at once; the fields never
// change.
unsafe impl Sync for Gpu {}

impl Gpu {
    /// Retain the primary context of a GPU.
    ///
    /// # Errors
    /// If the GPU does not exist or its context cannot be created.
    pub fn open(cuda: &'static Cuda, number: u32) -> Result<Self> {
        let facts = cuda.facts(number).map_err(|fault| fault.of(&format!("GPU {number}")))?;
        let mut context = std::ptr::null_mut();
        // SAFETY: the function writes one handle.
        let retained = done(unsafe { (cuda.functions.retain)(&raw mut context, facts.device) });
        retained.map_err(|fault| fault.of(&format!("a context on GPU {number}")))?;
        Ok(Gpu { cuda, facts, context })
    }

    /// Make the GPU's context current on this thread.
    ///
    /// # Errors
    /// If the driver refuses, for example because the context is lost.
    pub fn enter(&self) -> Result<()> {
        // SAFETY: the context is retained.
        done(unsafe { (self.cuda.functions.set_current)(self.context) })
            .map_err(|fault| fault.of(&format!("use of GPU {}", self.facts.number)))
    }

    /// Return the free memory of the GPU in bytes. Makes the GPU's context current on this thread.
    ///
    /// # Errors
    /// If the context cannot be made current or the driver cannot report memory.
    pub fn free_bytes(&self) -> Result<u64> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: the function writes two numbers.
        done(unsafe { (self.cuda.functions.memory_info)(&raw mut free, &raw mut total) })
            .map_err(|fault| fault.of(&format!("memory of GPU {}", self.facts.number)))?;
        Ok(free as u64)
    }

    /// Reset the primary context after a sticky error, so that the next run gets a new one.
    pub fn reset(&self) {
        // SAFETY: the function takes a device; handles of this context return errors afterwards.
        unsafe { (self.cuda.functions.reset)(self.facts.device) };
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: the context was retained once.
        unsafe { (self.cuda.functions.release)(self.facts.device) };
    }
}
