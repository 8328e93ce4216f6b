//! The CUDA driver API, as far as moving data needs it.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

use storlab_base::Result;

use crate::errors::{Done, Fault};
use crate::library::{Library, functions};

mod memory;
mod stream;

pub use memory::{DeviceBuffer, GPU_PAGE, PinnedArena, PinnedBuffer};
pub use stream::{Event, Stream};

/// The driver's name of a context.
type Context = *mut c_void;
/// A stream's or event's.
type Handle = *mut c_void;

const NOT_READY: c_int = 600;
/// Of attributes.
const COMPUTE_MAJOR: c_int = 75;
const COMPUTE_MINOR: c_int = 76;

// SAFETY: the types are those of cuda.h.
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

/// The driver, initialised.
pub struct Cuda {
    functions: Functions,
    /// Where its library lies.
    pub path: String,
}

/// What is known of a GPU.
#[derive(Clone, Debug)]
pub struct Facts {
    /// As nvidia-smi and `CUDA_VISIBLE_DEVICES` count.
    pub number: u32,
    /// Of the product.
    pub name: String,
    /// Domain, bus, device, function.
    pub pci: String,
    /// By which cuFile calls it.
    pub uuid: Option<[u8; 16]>,
    /// Compute capability.
    pub compute: String,
    /// Of memory.
    pub memory_bytes: u64,
    device: c_int,
}

/// Succeeded, or why not.
fn done(result: c_int) -> Done<()> {
    if result == 0 { Ok(()) } else { Err(Fault::Cuda(result)) }
}

impl Cuda {
    /// Load the driver's library and initialise it.
    ///
    /// # Errors
    /// Where there is no library, or no GPU.
    pub fn open(places: &[String]) -> Result<&'static Cuda> {
        let fix = "install NVIDIA's driver, name its libcuda.so.1 in cuda_library, or use path = \
                   \"host\"";
        let library = Library::open("the CUDA driver", places, fix)?;
        let functions = Functions::resolve(library)?;
        let path = library.path("cuInit").unwrap_or_default();
        let cuda: &'static Cuda = Box::leak(Box::new(Cuda { functions, path }));
        // SAFETY: takes a number that has to be 0, may be called again.
        done(unsafe { (cuda.functions.init)(0) }).map_err(|fault| fault.of("cuInit"))?;
        Ok(cuda)
    }

    /// Of the API that the driver has: `12.4`.
    pub fn version(&self) -> String {
        let mut version = 0;
        // SAFETY: writes one number.
        let known = done(unsafe { (self.functions.driver_version)(&raw mut version) }).is_ok();
        if known { format!("{}.{}", version / 1000, version % 1000 / 10) } else { String::new() }
    }

    /// How many GPUs this process can use.
    pub fn count(&self) -> Done<u32> {
        let mut count = 0;
        // SAFETY: writes one number.
        done(unsafe { (self.functions.device_count)(&raw mut count) })?;
        Ok(count.try_into().unwrap_or(0))
    }

    /// What is known of a GPU.
    pub fn facts(&self, number: u32) -> Done<Facts> {
        let mut device = 0;
        let ordinal = c_int::try_from(number).unwrap_or(c_int::MAX);
        // SAFETY: writes one number.
        done(unsafe { (self.functions.device_get)(&raw mut device, ordinal) })?;
        let mut memory = 0;
        // SAFETY: writes one number.
        done(unsafe { (self.functions.device_memory)(&raw mut memory, device) })?;
        let attribute = |which| {
            let mut value = 0;
            // SAFETY: writes one number.
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
        // SAFETY: writes the 16 bytes that there are.
        done(unsafe { function(uuid.as_mut_ptr(), device) }).ok().map(|()| uuid)
    }

    /// Memory can be pinned where it lies.
    pub fn pins(&self) -> bool {
        self.functions.host_register.is_some() && self.functions.host_unregister.is_some()
    }
}

fn text(
    device: c_int,
    function: unsafe extern "C" fn(*mut c_char, c_int, c_int) -> c_int,
) -> Done<String> {
    let mut room = [0 as c_char; 256];
    // SAFETY: writes a string of at most the length given, which one byte less keeps terminated.
    done(unsafe { function(room.as_mut_ptr(), room.len() as c_int - 1, device) })?;
    // SAFETY: the last byte is 0, whatever was written before it.
    Ok(unsafe { CStr::from_ptr(room.as_ptr()) }.to_string_lossy().into_owned())
}

/// A GPU in use: its primary context is kept until this is dropped.
pub struct Gpu {
    /// The driver.
    pub cuda: &'static Cuda,
    /// What is known of it.
    pub facts: Facts,
    context: Context,
}

// SAFETY: the driver's contexts may be made current on any thread, by several at once.
unsafe impl Send for Gpu {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Gpu {}

impl Gpu {
    /// Take a GPU into use.
    ///
    /// # Errors
    /// By name, as where there is none of that number.
    pub fn open(cuda: &'static Cuda, number: u32) -> Result<Self> {
        let facts = cuda.facts(number).map_err(|fault| fault.of(&format!("GPU {number}")))?;
        let mut context = std::ptr::null_mut();
        // SAFETY: writes one handle.
        let retained = done(unsafe { (cuda.functions.retain)(&raw mut context, facts.device) });
        retained.map_err(|fault| fault.of(&format!("a context on GPU {number}")))?;
        Ok(Gpu { cuda, facts, context })
    }

    /// What this thread does from now on, it does on this GPU.
    ///
    /// # Errors
    /// By name.
    pub fn enter(&self) -> Result<()> {
        // SAFETY: the context is retained.
        done(unsafe { (self.cuda.functions.set_current)(self.context) })
            .map_err(|fault| fault.of(&format!("use of GPU {}", self.facts.number)))
    }

    /// Memory of the GPU that this thread is on, in bytes.
    ///
    /// # Errors
    /// By name.
    pub fn free_bytes(&self) -> Result<u64> {
        self.enter()?;
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two numbers.
        done(unsafe { (self.cuda.functions.memory_info)(&raw mut free, &raw mut total) })
            .map_err(|fault| fault.of(&format!("memory of GPU {}", self.facts.number)))?;
        Ok(free as u64)
    }

    /// Its context failed for good: give back everything, so that the next one begins anew.
    pub fn reset(&self) {
        // SAFETY: takes a device; what other handles of the context mean is an error from now on.
        unsafe { (self.cuda.functions.reset)(self.facts.device) };
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: it was retained once.
        unsafe { (self.cuda.functions.release)(self.facts.device) };
    }
}
