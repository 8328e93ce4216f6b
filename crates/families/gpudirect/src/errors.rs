//! Errors of cuFile and of the CUDA driver, with name, meaning and fix.

use storlab_base::Error;

mod cuda;
mod cufile;

/// Reason why a call to cuFile, the CUDA driver or the kernel failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Error number (`errno`) of the kernel.
    Errno(i32),
    /// Error code of the CUDA driver.
    Cuda(i32),
    /// Code of cuFile, and the CUDA driver's code if that error is the cause (otherwise 0).
    CuFile(i32, i32),
    /// Status of a batch entry that failed.
    Batch(i32),
    /// EIO from cuFile's batch or async API. Either the kernel failed the I/O, or cuFile rejected
    /// the request.
    Unexplained,
}

/// Result of a call to a library or the kernel.
pub type Done<T> = std::result::Result<T, Fault>;

/// `CU_FILE_CUDA_DRIVER_ERROR`: a call to the CUDA driver failed inside cuFile.
pub const CUDA_DRIVER_ERROR: i32 = 5011;

/// Entry in a table of error codes: code, name, meaning and fix.
struct Entry(i32, &'static str, &'static str, &'static str);

const AGAIN: &str = "run it again; if the error persists, look into cufile.log";
const LOGS: &str = "look at the kernel log and cufile.log";
const REPORT: &str = "report this to storlab with cufile.log";

/// Build a table of error codes: number, name without the common prefix, meaning and fix.
macro_rules! codes {
    ($prefix:literal; $($code:literal $name:ident: $meaning:literal => $fix:expr;)*) => {
        &[$(Entry($code, concat!($prefix, stringify!($name)), $meaning, $fix)),*]
    };
}
use codes;

fn entry(table: &'static [Entry], code: i32) -> Option<&'static Entry> {
    table.iter().find(|entry| entry.0 == code)
}

/// Return whether the CUDA context is unusable after this error of the CUDA driver.
fn sticky_code(code: i32) -> bool {
    matches!(code, 4 | 214 | 220 | 700 | 702 | 709 | 710 | 714..=719 | 999)
}

impl Fault {
    /// Return whether the CUDA context is unusable after this fault.
    pub fn sticky(self) -> bool {
        match self {
            Fault::Cuda(code) => sticky_code(code),
            Fault::CuFile(code, cuda) => {
                code == 5047 || (code == CUDA_DRIVER_ERROR && sticky_code(cuda))
            }
            Fault::Errno(_) | Fault::Batch(_) | Fault::Unexplained => false,
        }
    }

    /// Return a description of the fault (name, number and meaning) and a fix, which may be empty.
    pub fn explained(self) -> (String, String) {
        match self {
            Fault::Errno(errno) => {
                (std::io::Error::from_raw_os_error(errno).to_string(), String::new())
            }
            Fault::Cuda(code) => told(entry(cuda::ALL, code), "CUDA error", code),
            Fault::CuFile(code, cuda) => {
                let (what, fix) = told(entry(cufile::ALL, code), "cuFile error", code);
                if code != CUDA_DRIVER_ERROR || cuda == 0 {
                    return (what, fix);
                }
                let (cause, fix) = Fault::Cuda(cuda).explained();
                (format!("{what}: {cause}"), fix)
            }
            Fault::Unexplained => {
                let what = "Input/output error, or cuFile refused the request";
                (what.to_owned(), LOGS.to_owned())
            }
            Fault::Batch(status) => {
                let name = match status {
                    0x04 => "CUFILE_INVALID (the entry is not valid)",
                    0x08 => "CUFILE_CANCELED (the I/O was cancelled)",
                    0x20 => "CUFILE_TIMEOUT (the I/O timed out)",
                    0x40 => "CUFILE_FAILED (the I/O failed)",
                    _ => "unknown",
                };
                (
                    format!("an I/O of the batch ended with status {name} ({status:#x})"),
                    LOGS.to_owned(),
                )
            }
        }
    }

    /// Convert the fault of a call to an error. `doing` names the call; for I/Os use
    /// [`Fault::of_io`].
    pub fn of(self, doing: &str) -> Error {
        let (what, fix) = self.explained();
        Error::dependency(format!("{doing} failed: {what}"), fix)
    }

    /// Convert the fault of an I/O to an error. `name` is the name of the file or device.
    pub fn of_io(self, operation: &'static str, name: &str, offset: u64) -> Error {
        match self {
            Fault::Errno(errno) => {
                Error::io(operation, name, offset, std::io::Error::from_raw_os_error(errno))
            }
            _ => self.of(&format!("{operation} of {name} at offset {offset}")),
        }
    }
}

fn told(entry: Option<&'static Entry>, sort: &str, code: i32) -> (String, String) {
    match entry {
        Some(Entry(code, name, meaning, fix)) => {
            (format!("{name} ({code}): {meaning}"), (*fix).to_owned())
        }
        None => (format!("{sort} {code}"), "look the code up in NVIDIA's documentation".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_names_meanings_and_advice() {
        for (fault, parts) in [
            (Fault::CuFile(5008, 0), ["CU_FILE_IO_NOT_SUPPORTED (5008)", "direct path"]),
            (Fault::CuFile(5011, 2), ["CU_FILE_CUDA_DRIVER_ERROR (5011)", "OUT_OF_MEMORY (2)"]),
            (Fault::CuFile(5999, 0), ["cuFile error 5999", ""]),
            (Fault::Cuda(100), ["CUDA_ERROR_NO_DEVICE (100)", "no GPU"]),
            (Fault::Cuda(12345), ["CUDA error 12345", ""]),
            (Fault::Batch(0x40), ["CUFILE_FAILED", "0x40"]),
            (Fault::Errno(libc::EIO), ["Input/output error", ""]),
            (Fault::Unexplained, ["Input/output error", "cuFile refused"]),
        ] {
            let (what, fix) = fault.explained();
            assert!(parts.iter().all(|part| what.contains(part)), "{what}");
            assert!(!fix.is_empty() || matches!(fault, Fault::Errno(_)), "{what}");
        }
    }

    #[test]
    fn tables_are_in_order_and_say_everything() {
        for table in [cufile::ALL, cuda::ALL] {
            assert!(table.windows(2).all(|pair| pair[0].0 < pair[1].0));
            for Entry(code, name, meaning, fix) in table {
                let full = name.starts_with("CU") && !meaning.is_empty() && !fix.is_empty();
                assert!(full, "{code}");
            }
        }
    }

    #[test]
    fn only_errors_that_stay_are_sticky() {
        assert!(Fault::Cuda(719).sticky() && Fault::CuFile(5011, 700).sticky());
        assert!(!Fault::Cuda(2).sticky() && !Fault::CuFile(5008, 719).sticky());
        assert!(!Fault::Errno(5).sticky());
    }

    #[test]
    fn errors_of_the_kernel_keep_their_number() {
        let error = Fault::Errno(libc::EIO).of_io("read", "f", 7);
        assert!(matches!(&error, Error::Io { offset: 7, source, .. }
            if source.raw_os_error() == Some(libc::EIO)));
        let error = Fault::CuFile(5022, 0).of_io("write", "f", 7).to_string();
        assert!(
            error.starts_with("write of f at offset 7 failed: CU_FILE_INVALID_VALUE"),
            "{error}"
        );
    }
}
