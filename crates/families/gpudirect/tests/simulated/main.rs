//! Whole runs against simulators of cuFile and of the CUDA driver.
//!
//! The simulators are configured by environment variables, so each test runs in its own process.

mod faults;
mod host;
mod paths;
mod probes;
mod support;
