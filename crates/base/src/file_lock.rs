use std::fs::{File, TryLockError};

/// As [`File::try_lock`], but a file system without locks is no error: nobody can be kept out.
///
/// # Errors
///
/// `WouldBlock` where another process holds it, and what else flock(2) answers.
pub fn try_lock_file(file: &File) -> Result<(), TryLockError> {
    match file.try_lock() {
        Err(TryLockError::Error(error))
            if matches!(
                error.raw_os_error(),
                Some(libc::ENOSYS | libc::ENOLCK | libc::EOPNOTSUPP)
            ) =>
        {
            Ok(())
        }
        locked => locked,
    }
}
