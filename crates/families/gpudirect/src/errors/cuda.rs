//! Error codes of the CUDA driver, in ascending order.

use super::{AGAIN, Entry, REPORT, codes};

const GPU_LOST: &str = "look at the kernel log for Xid messages, and reset the GPU";

/// Numbers and names from NVIDIA's documentation; the descriptions are our own.
pub const ALL: &[Entry] = codes! { "CUDA_ERROR_";
    1 INVALID_VALUE: "an argument is not valid" => REPORT;
    2 OUT_OF_MEMORY: "GPU memory or pinned host memory is used up" =>
        "use fewer workers, a smaller queue_depth or block_size, or end other programs on the GPU";
    3 NOT_INITIALIZED: "the driver was not initialised" => REPORT;
    4 DEINITIALIZED: "the driver is shutting down" => AGAIN;
    34 STUB_LIBRARY: "the library is a stub for linking, not the driver" =>
        "set cuda_library to the driver's libcuda.so.1";
    46 DEVICE_UNAVAILABLE: "another program uses the GPU exclusively" =>
        "end that program, or set the GPU's compute mode to default";
    100 NO_DEVICE: "this process can use no GPU" =>
        "look at nvidia-smi and CUDA_VISIBLE_DEVICES";
    101 INVALID_DEVICE: "there is no GPU with this number" => "use a number that nvidia-smi lists";
    200 INVALID_IMAGE: "code for the GPU is not valid" => REPORT;
    201 INVALID_CONTEXT: "no CUDA context is current, or the wrong one" => REPORT;
    214 ECC_UNCORRECTABLE: "GPU memory has an error that ECC cannot correct" => GPU_LOST;
    220 NVLINK_UNCORRECTABLE: "an NVLink connection failed" => GPU_LOST;
    304 OPERATING_SYSTEM: "a call to the kernel failed" => "look at the kernel log";
    400 INVALID_HANDLE: "a stream or event is not valid" => REPORT;
    700 ILLEGAL_ADDRESS: "the GPU accessed an address that is not allowed" => REPORT;
    702 LAUNCH_TIMEOUT: "the GPU took too long" => AGAIN;
    709 CONTEXT_IS_DESTROYED: "the CUDA context was destroyed" =>
        "look at the kernel log for Xid messages";
    710 ASSERT: "an assertion failed on the GPU" => REPORT;
    712 HOST_MEMORY_ALREADY_REGISTERED: "the memory is pinned already" => REPORT;
    714 HARDWARE_STACK_ERROR: "the GPU's stack is damaged" => GPU_LOST;
    715 ILLEGAL_INSTRUCTION: "the GPU encountered an illegal instruction" => GPU_LOST;
    716 MISALIGNED_ADDRESS: "the GPU accessed an address that is not aligned" => GPU_LOST;
    717 INVALID_ADDRESS_SPACE: "the GPU accessed an address of the wrong address space" => GPU_LOST;
    718 INVALID_PC: "the GPU's program counter left the program" => GPU_LOST;
    719 LAUNCH_FAILED: "the GPU failed during its work" => GPU_LOST;
    720 COOPERATIVE_LAUNCH_TOO_LARGE: "a launch was too large for the GPU" => REPORT;
    721 TENSOR_MEMORY_LEAK: "the GPU's tensor memory was not freed" => GPU_LOST;
    801 NOT_SUPPORTED: "this GPU or driver does not support the operation" => "update the driver";
    802 SYSTEM_NOT_READY: "the machine's GPU services do not run" => "start nvidia-fabricmanager";
    803 SYSTEM_DRIVER_MISMATCH: "driver and library have different versions" =>
        "reboot, or install the same version of both";
    999 UNKNOWN: "the driver gives no reason" =>
        "look at the kernel log; nvidia-modprobe -u may be missing";
};
