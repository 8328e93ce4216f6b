//! Load shared libraries at run time, so that storlab can be built without them.

#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};

use storlab_base::{Error, Result};

/// Loaded shared library. It is never unloaded, because its threads outlive a run.
#[derive(Clone, Copy)]
pub struct Library {
    inner: &'static libloading::Library,
    what: &'static str,
}

impl Library {
    /// Load the first of `candidates` (paths or sonames) that the dynamic loader accepts. `what`
    /// names the library in errors.
    ///
    /// # Errors
    /// If none can be loaded; the message lists each candidate and the reason.
    pub fn open(what: &'static str, candidates: &[String], fix: &str) -> Result<Self> {
        let mut tried = Vec::new();
        for candidate in candidates {
            // SAFETY: loading runs the library's initialisers, as in any program that links it; the
            // user chose the files.
            match unsafe { libloading::Library::new(candidate) } {
                Ok(library) => {
                    return Ok(Library { inner: Box::leak(Box::new(library)), what });
                }
                Err(error) => tried.push(reason(candidate, &error)),
            }
        }
        let tried =
            if tried.is_empty() { "no path was given".to_owned() } else { tried.join("; ") };
        Err(Error::dependency(format!("{what} cannot be loaded: {tried}"), fix))
    }

    /// Look up a function that every version of the library has.
    ///
    /// # Errors
    /// If the library has no symbol of this name.
    ///
    /// # Safety
    /// `T` must be the pointer type of the symbol that the library exports as `name`.
    pub unsafe fn function<T: Copy>(&self, name: &str) -> Result<T> {
        // SAFETY: the caller guarantees the type.
        unsafe { self.optional(name) }.ok_or_else(|| self.lacks(name))
    }

    /// Look up a function that only some versions of the library have.
    ///
    /// # Safety
    /// `T` must be the pointer type of the symbol that the library exports as `name`.
    pub unsafe fn optional<T: Copy>(&self, name: &str) -> Option<T> {
        const { assert!(size_of::<T>() == size_of::<*const c_void>()) };
        let name = CString::new(name).ok()?;
        // SAFETY: the caller guarantees the type; the library is never unloaded.
        unsafe { self.inner.get::<T>(name.as_bytes_with_nul()) }.ok().map(|symbol| *symbol)
    }

    /// Return the path of the file that the library was loaded from, found by the address of symbol
    /// `of`.
    pub fn path(&self, of: &str) -> Option<String> {
        // SAFETY: the address of any symbol is a pointer, and it is not dereferenced.
        let address: *const c_void = unsafe { self.optional(of) }?;
        let mut info = libc::Dl_info {
            dli_fname: std::ptr::null(),
            dli_fbase: std::ptr::null_mut(),
            dli_sname: std::ptr::null(),
            dli_saddr: std::ptr::null_mut(),
        };
        // SAFETY: `dladdr` only looks the address up, and `info` is a local variable.
        if unsafe { libc::dladdr(address, &raw mut info) } == 0 || info.dli_fname.is_null() {
            return None;
        }
        // SAFETY: the loader keeps the name as long as the library is loaded, and the library is
        // never unloaded.
        let name = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned();
        let real = std::fs::canonicalize(&name).ok();
        Some(real.map_or(name, |real| real.display().to_string()))
    }

    fn lacks(&self, name: &str) -> Error {
        let path = self.path("cuInit").or_else(|| self.path("cuFileRead")).unwrap_or_default();
        let what = format!("{} {path} has no function {name}", self.what);
        Error::dependency(what, "use a newer version of this library")
    }
}

/// Return the loader's error message. The candidate's name is put before the message unless the
/// message contains it already.
fn reason(candidate: &str, error: &libloading::Error) -> String {
    let text =
        std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    if text.contains(candidate) { text } else { format!("{candidate}: {text}") }
}

/// Declare a struct of a library's functions: required ones, and optional ones that only some
/// versions have.
///
/// The macro is `unsafe` to use, because the declared types are not checked: each must be the type
/// of the function that the library exports under the given name.
macro_rules! functions {
    (unsafe $table:ident {
        $($require:ident $must_name:literal ($($must_arg:ty),*) -> $must_ret:ty;)*
    } optional {
        $($may:ident $may_name:literal ($($may_arg:ty),*) -> $may_ret:ty;)*
    }) => {
        struct $table {
            $($require: unsafe extern "C" fn($($must_arg),*) -> $must_ret,)*
            $($may: Option<unsafe extern "C" fn($($may_arg),*) -> $may_ret>,)*
        }

        impl $table {
            fn resolve(library: $crate::library::Library) -> storlab_base::Result<Self> {
                // SAFETY: the user of the macro guarantees the types.
                unsafe {
                    Ok($table {
                        $($require: library.function($must_name)?,)*
                        $($may: library.optional($may_name),)*
                    })
                }
            }
        }
    };
}
pub(crate) use functions;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_tried_is_told() {
        let places = ["/absent/libx.so".to_owned(), "libabsent.so.7".to_owned()];
        let error = Library::open("the library", &places, "install it").err().unwrap().to_string();
        for part in ["the library", "/absent/libx.so", "libabsent.so.7"] {
            assert!(error.contains(part), "{error}");
        }
        let error = Library::open("the library", &[], "install it").err().unwrap().to_string();
        assert!(error.contains("no path was given"), "{error}");
    }

    #[test]
    fn a_missing_function_is_named() {
        let library = Library::open("libc", &["libc.so.6".to_owned()], "").unwrap();
        // SAFETY: the address of any symbol is a pointer, and the function is not called.
        let lookup = |name| unsafe { library.function::<*const c_void>(name) };
        assert!(lookup("malloc").is_ok());
        assert!(library.path("malloc").unwrap().contains("libc"));
        let error = lookup("cuFileRead").unwrap_err().to_string();
        assert!(error.contains("cuFileRead"), "{error}");
    }
}
