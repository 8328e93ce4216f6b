//! Error codes of cuFile, in ascending order.

use super::{AGAIN, Entry, REPORT, codes};

const PATH: &str = "run `storlab doctor` to see which paths this machine has, or allow \
     compatibility mode in cufile.json";
const VERSIONS: &str = "install nvidia-fs and cuFile of the same CUDA release";

/// Numbers and names from NVIDIA's documentation; the descriptions are our own.
pub const ALL: &[Entry] = codes! { "CU_FILE_";
    5001 DRIVER_NOT_INITIALIZED: "nvidia-fs is not loaded and compatibility mode is not allowed" =>
        "load nvidia-fs, use a kernel with P2PDMA, or set allow_compat_mode in cufile.json";
    5002 DRIVER_INVALID_PROPS: "a property of the configuration is not valid" =>
        "correct cufile.json";
    5003 DRIVER_UNSUPPORTED_LIMIT: "a property of the configuration is out of its range" =>
        "correct the sizes in cufile.json";
    5004 DRIVER_VERSION_MISMATCH: "the version of nvidia-fs does not match cuFile" => VERSIONS;
    5005 DRIVER_VERSION_READ_ERROR: "the version of nvidia-fs cannot be read" => VERSIONS;
    5006 DRIVER_CLOSING: "the driver is being closed while I/O is in flight" => AGAIN;
    5007 PLATFORM_NOT_SUPPORTED: "this machine does not support GPUDirect Storage" => PATH;
    5008 IO_NOT_SUPPORTED: "the file's file system or device has no direct path to the GPU" => PATH;
    5009 DEVICE_NOT_SUPPORTED: "this GPU has no direct path to storage" =>
        "use a data-centre GPU, or a bounce path";
    5010 NVFS_DRIVER_ERROR: "nvidia-fs refused a call" => "look at the kernel log for nvidia-fs";
    5011 CUDA_DRIVER_ERROR: "a call from cuFile to the CUDA driver failed" =>
        "see the CUDA error in this message";
    5012 CUDA_POINTER_INVALID: "an address is not in GPU memory" => REPORT;
    5013 CUDA_MEMORY_TYPE_INVALID: "cuFile does not support this type of memory" => REPORT;
    5014 CUDA_POINTER_RANGE_ERROR: "an I/O exceeds its GPU buffer" => REPORT;
    5015 CUDA_CONTEXT_MISMATCH: "the buffer belongs to another CUDA context" => REPORT;
    5016 INVALID_MAPPING_SIZE: "the buffers need more pinned GPU memory than the limit allows" =>
        "raise max_device_pinned_mem_size_kb in cufile.json, or use fewer workers";
    5017 INVALID_MAPPING_RANGE: "an I/O exceeds the registered buffer" => REPORT;
    5018 INVALID_FILE_TYPE: "cuFile does not support this type of file" =>
        "use a regular file, or a block device if this version of cuFile supports one";
    5019 INVALID_FILE_OPEN_FLAG: "the file was opened with flags that cuFile does not support" =>
        "use direct = true";
    5020 DIO_NOT_SET: "the file was not opened with O_DIRECT" => "use direct = true";
    5022 INVALID_VALUE: "an argument is not valid" =>
        "use a block size that is a multiple of 4 KiB; if the error persists, report this to \
         storlab";
    5023 MEMORY_ALREADY_REGISTERED: "the GPU buffer is registered already" => REPORT;
    5024 MEMORY_NOT_REGISTERED: "the GPU buffer is not registered" => REPORT;
    5025 PERMISSION_DENIED: "this user may not use the driver or the file" =>
        "run as a user who may open the target and /dev/nvidia-fs*";
    5026 DRIVER_ALREADY_OPEN: "the driver is open already" => AGAIN;
    5027 HANDLE_NOT_REGISTERED: "the file is not registered: cuFile may not recognise its device" =>
        "make udev's data visible (in a container mount the host's /run/udev), use a file system \
         on a drive or a network, and see cufile.log";
    5028 HANDLE_ALREADY_REGISTERED: "the file is registered already" => REPORT;
    5029 DEVICE_NOT_FOUND: "the GPU was not found" =>
        "check with nvidia-smi whether the GPU has fallen off the bus";
    5030 INTERNAL_ERROR: "cuFile had an internal error" => AGAIN;
    5031 GETNEWFD_FAILED: "cuFile could not open another file descriptor" =>
        "raise the limit of open files";
    5033 NVFS_SETUP_ERROR: "nvidia-fs cannot be set up" => "look at the kernel log for nvidia-fs";
    5034 IO_DISABLED: "the configuration turns GPUDirect Storage off for this file" =>
        "look at the deny list in cufile.json";
    5035 BATCH_SUBMIT_FAILED: "cuFile did not accept a batch" => AGAIN;
    5036 GPU_MEMORY_PINNING_FAILED: "GPU memory cannot be pinned" =>
        "free BAR1 memory: use fewer workers, a smaller block, or register_buffers = false";
    5037 BATCH_FULL: "the batch is full" => "lower queue_depth";
    5038 ASYNC_NOT_SUPPORTED: "I/O on CUDA streams is not supported" => "use api = \"sync\"";
    5039 INTERNAL_BATCH_SETUP_ERROR: "a batch cannot be set up" =>
        "lower queue_depth or workers; raise io_batchsize in cufile.json";
    5040 INTERNAL_BATCH_SUBMIT_ERROR: "a batch failed when it was submitted" => AGAIN;
    5041 INTERNAL_BATCH_GETSTATUS_ERROR: "the state of a batch cannot be read" => AGAIN;
    5042 INTERNAL_BATCH_CANCEL_ERROR: "a batch cannot be cancelled" => AGAIN;
    5043 NOMEM_ERROR: "cuFile is out of memory" => "use fewer workers or smaller blocks";
    5044 IO_ERROR: "an I/O failed" => "look at the kernel log and cufile.log";
    5045 INTERNAL_BUF_REGISTER_ERROR: "a buffer cannot be registered" =>
        "use register_buffers = false, or fewer workers";
    5046 HASH_OPR_ERROR: "an internal table of cuFile failed" => AGAIN;
    5047 INVALID_CONTEXT_ERROR: "the CUDA context is no longer valid" =>
        "check with nvidia-smi whether the GPU has failed";
    5048 NVFS_INTERNAL_DRIVER_ERROR: "nvidia-fs had an internal error" =>
        "look at the kernel log for nvidia-fs";
    5049 BATCH_NOCOMPAT_ERROR: "this batch needs compatibility mode, which is off" =>
        "use api = \"sync\", or set allow_compat_mode in cufile.json";
    5050 IO_MAX_ERROR: "cuFile reports an error without a more specific code" => AGAIN;
};
