//! Probe: reports GPUs and libraries without generating load.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use storlab_base::{Error, Result, monotonic_ns};
use storlab_run::control::Control;
use storlab_run::handle::Run;
use storlab_run::outcome::{EngineInfo, Failure, Outcome, Status, Summary};

use crate::cuda::{Cuda, Gpu};
use crate::cufile::{CuFile, Driver};
use crate::details::{cuda_facts, cufile_facts, gpu_facts, p2p_flags};
use crate::spec::GpuDirectJob;

const NOT_OPENED: &str = "cuFileDriverOpen was not called, because no GPU is usable";
const MEND_FIRST: &str = "fix the CUDA error first";

/// Start a probe run. Missing libraries and GPUs are reported in its details, not as failures.
///
/// # Errors
/// If the thread of the run cannot be started.
pub fn begin(job: GpuDirectJob, held: bool) -> Result<Run> {
    let control = Arc::new(Control::new(held));
    let run_control = control.clone();
    Run::begin(control, move |_| outcome(&job, &run_control))
}

fn outcome(job: &GpuDirectJob, control: &Control) -> Outcome {
    let begun_ns = monotonic_ns();
    let details = look(job, control);
    let engine = EngineInfo::native(Some("cufile"), Vec::new());
    let summary = Summary {
        status: Status::of(false, control.cancelled()),
        details,
        ..Summary::new(engine, begun_ns, monotonic_ns())
    };
    Outcome { summary, rows: Vec::new() }
}

fn told(error: &Error) -> Value {
    let Failure { message, fix, .. } = Failure::from(error);
    json!({"what": message, "fix": fix})
}

fn look(job: &GpuDirectJob, control: &Control) -> Map<String, Value> {
    let mut details = Map::new();
    let mut usable = Vec::new();
    let cuda = match Cuda::open(&job.libraries.cuda) {
        Ok(cuda) => {
            let (gpus, error) = all_gpus(cuda);
            usable = gpus;
            error.map_or_else(|| cuda_facts(cuda), |error| with_error(cuda_facts(cuda), &error))
        }
        Err(error) => json!({"error": told(&error)}),
    };
    let (open, gpus): (Vec<Gpu>, Vec<Value>) = usable.into_iter().unzip();
    if let Some(gpu) = open.first() {
        // Ignore errors: opening cuFile's driver below reports the same problem.
        let _ = gpu.enter();
    }
    let (cufile, p2p) = look_at_cufile(job, control, !open.is_empty());
    details.insert("gpus".to_owned(), json!(gpus));
    details.insert("libraries".to_owned(), json!({"cuda": cuda, "cufile": cufile}));
    details.insert("p2p".to_owned(), p2p);
    details
}

fn with_error(mut facts: Value, error: &Error) -> Value {
    facts["error"] = told(error);
    facts
}

/// Open all usable GPUs. Also return the first error, because another process may hold one of the
/// GPUs exclusively.
fn all_gpus(cuda: &'static Cuda) -> (Vec<(Gpu, Value)>, Option<Error>) {
    let count = match cuda.count() {
        Ok(count) => count,
        Err(fault) => return (Vec::new(), Some(fault.of("cuDeviceGetCount"))),
    };
    let (mut usable, mut first_error) = (Vec::new(), None);
    for number in 0..count {
        match open_gpu(cuda, number) {
            Ok(gpu) => usable.push(gpu),
            Err(error) => {
                first_error.get_or_insert(error);
            }
        }
    }
    (usable, first_error)
}

fn open_gpu(cuda: &'static Cuda, number: u32) -> Result<(Gpu, Value)> {
    let gpu = Gpu::open(cuda, number)?;
    let facts = gpu_facts(&gpu.facts, gpu.free_bytes()?);
    Ok((gpu, facts))
}

/// Describe cuFile and its driver. The driver is opened only if a GPU is usable: without one,
/// opening may take long or hang, and would fail in the end.
fn look_at_cufile(job: &GpuDirectJob, control: &Control, usable: bool) -> (Value, Value) {
    let cufile = match CuFile::load(&job.libraries.cufile) {
        Ok(cufile) => cufile,
        Err(error) => return (json!({"error": told(&error)}), Value::Null),
    };
    if !usable {
        let mut facts = cufile_facts(cufile, None);
        facts["error"] = json!({"what": NOT_OPENED, "fix": MEND_FIRST});
        return (facts, Value::Null);
    }
    let driver = cufile.open(job.open_timeout_ns, || control.stopping());
    let properties = driver.as_ref().map(Driver::properties);
    match properties {
        Ok(Ok(properties)) => (cufile_facts(cufile, Some(&properties)), p2p_flags(&properties)),
        Ok(Err(error)) => (with_error(cufile_facts(cufile, None), &error), Value::Null),
        Err(error) => (with_error(cufile_facts(cufile, None), error), Value::Null),
    }
}
