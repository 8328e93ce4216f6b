//! Error codes of the CUDA driver, in ascending order.

use super::{AGAIN, Entry, REPORT, codes};

const GPU_LOST: &str = "look at the kernel log for Xid messages, and reset the GPU";

/// Numbers and names from NVIDIA's documentation; the descriptions are our own.
pub const ALL: &[Entry] = codes! { "CUDA_ERROR_";
    1 INVALID_VALUE: "an argument is not valid" => REPORT;
    2 OUT_OF_MEMORY: "the GPU, or pinned memory, has no room left" =>
        "use fewer workers, a smaller queue_depth or block_size, or end other programs on the GPU";
    3 NOT_INITIALIZED: "the driver was not initialised" => REPORT;
    4 DEINITIALIZED: "the driver is shutting down" => AGAIN;
    34 STUB_LIBRARY: "the library is a stub to link with, not the driver" =>
        "name the driver's libcuda.so.1 in cuda_library";
    46 DEVICE_UNAVAILABLE: "the GPU is in use and not to be had" =>
        "end other programs, or set its compute mode to default";
    100 NO_DEVICE: "there is no GPU that this process can see" =>
        "look at nvidia-smi and CUDA_VISIBLE_DEVICES";
    101 INVALID_DEVICE: "there is no GPU of this number" => "name one that nvidia-smi lists";
    200 INVALID_IMAGE: "code for the GPU is not valid" => REPORT;
    201 INVALID_CONTEXT: "there is no context, or another one" => REPORT;
    214 ECC_UNCORRECTABLE: "memory of the GPU has an error that cannot be corrected" => GPU_LOST;
    220 NVLINK_UNCORRECTABLE: "a link between GPUs failed" => GPU_LOST;
    304 OPERATING_SYSTEM: "a call to the kernel failed" => "look at the kernel log";
    400 INVALID_HANDLE: "a stream or event is not valid" => REPORT;
    700 ILLEGAL_ADDRESS: "the GPU used an address that it may not" => REPORT;
    702 LAUNCH_TIMEOUT: "the GPU took too long" => AGAIN;
    709 CONTEXT_IS_DESTROYED: "the context is gone" => "look at the kernel log for Xid messages";
    710 ASSERT: "an assertion failed on the GPU" => REPORT;
    712 HOST_MEMORY_ALREADY_REGISTERED: "the memory is pinned already" => REPORT;
    714 HARDWARE_STACK_ERROR: "the GPU's stack is damaged" => GPU_LOST;
    715 ILLEGAL_INSTRUCTION: "the GPU met an instruction that it does not know" => GPU_LOST;
    716 MISALIGNED_ADDRESS: "the GPU used an address that is not aligned" => GPU_LOST;
    717 INVALID_ADDRESS_SPACE: "the GPU used an address of another space" => GPU_LOST;
    718 INVALID_PC: "the GPU's program counter left the program" => GPU_LOST;
    719 LAUNCH_FAILED: "the GPU failed at work" => GPU_LOST;
    720 COOPERATIVE_LAUNCH_TOO_LARGE: "work did not fit the GPU" => REPORT;
    721 TENSOR_MEMORY_LEAK: "the GPU's tensor memory was not freed" => GPU_LOST;
    801 NOT_SUPPORTED: "this GPU or driver cannot do that" => "update the driver";
    802 SYSTEM_NOT_READY: "the machine's GPU services do not run" => "start nvidia-fabricmanager";
    803 SYSTEM_DRIVER_MISMATCH: "driver and library are of different versions" =>
        "reboot, or install both of one version";
    999 UNKNOWN: "the driver does not say what failed" =>
        "look at the kernel log; nvidia-modprobe -u may be missing";
};
