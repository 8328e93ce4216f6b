//! Whole runs over the simulators of cuFile and of the CUDA driver. These take what they are to do
//! from the environment, so that each test runs in a process of its own.

mod faults;
mod host;
mod paths;
mod probes;
mod support;
