use std::fs::{File, TryLockError};

/// Lock a file as [`File::try_lock`] does, but also succeed if the file system does not support
/// locks.
///
/// # Errors
///
/// `WouldBlock` if another process holds the lock; other errors of flock(2).
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
