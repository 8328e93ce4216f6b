//! Workload family `preprocess`: preprocessing of raw click logs for DLRM (a recommendation model).
//!
//! It has three stages: ingest (text to Parquet), vocabulary (count the values of each category
//! column) and encode (write the split binary, a file per feature). Each stage resumes where a
//! killed run stopped. What each stage computes is described in docs/preprocess.md.

mod budget;
mod check;
mod chunks;
mod clicks;
mod columns;
mod count;
mod dense;
mod encode;
mod feature_spec;
mod generate;
mod ingest;
mod lines;
mod lookup;
mod memory;
mod merge;
mod outputs;
mod parse;
mod parts;
mod spec;
mod stages;
#[cfg(test)]
mod tests;
mod vocabulary;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use storlab_base::{Clock, Error, Result, failed, monotonic_ns};
use storlab_io::{DeviceBytes, DeviceCounters};
use storlab_run::Secrets;
use storlab_run::board::Board;
use storlab_run::control::Control;
use storlab_run::cpu::ProcessCpu;
use storlab_run::fixed::{Extras, chore};
use storlab_run::handle::Run;
use storlab_run::order::Order as _;
use storlab_run::outcome::{Outcome, Span};
use storlab_run::worker_pool::WorkerPool;

use check::check_while;
use columns::{CATEGORIES, ROW_BYTES};
use memory::Memory;
use outputs::evict_page_cache;
use parts::{Findings, Part};
use spec::{Malformed, PreprocessJob, Task};
use stages::{ENCODE, INGEST, KINDS, VOCABULARY};
use vocabulary::Files;

pub use check::check;

/// Memory per worker in addition to its rows, in bytes: blocks of text, Parquet pages and counting
/// buffers.
const WORKER_BYTES: usize = 16 << 20;
/// Memory per row group of a worker's Parquet file in bytes, for its column metadata.
/// `WORKER_BYTES` already covers `FREE_GROUPS` groups.
const GROUP_BYTES: usize = 40 << 10;
const FREE_GROUPS: usize = 128;

/// Start a run that preprocesses click logs, generates them, or removes the output directory. If
/// `held`, the work begins only when the caller releases the run.
///
/// # Errors
/// [`Error::Spec`] for an invalid job description, or if `memory_bytes` is too small for the
/// workers.
pub fn start(order: &str, _: &Secrets, held: bool) -> Result<Run> {
    let job = PreprocessJob::from_json(order)?;
    Clock::prepare();
    let control = Arc::new(Control::new(held));
    let run_control = control.clone();
    if job.task == Task::Run {
        table_memory(&job)?;
    }
    let begun = Run::begin(control, move |board| match job.task {
        Task::Run => run(&job, &run_control, board),
        Task::Generate => generate::run(&job, &run_control, board),
        Task::Remove => {
            let remove = || outputs::remove(&job.directory);
            chore(job.interval_ns, &KINDS, &run_control, board, remove)
        }
    });
    begun.map(Run::ends_though_stuck)
}

/// Return the memory limit minus the memory of all workers (rows and buffers), in bytes. It is used
/// for hash tables.
fn table_memory(job: &PreprocessJob) -> Result<usize> {
    let rows = job.row_group_rows.saturating_mul(ROW_BYTES);
    let groups = (job.part_rows() / job.row_group_rows).saturating_sub(FREE_GROUPS);
    let worker = rows.saturating_add(WORKER_BYTES).saturating_add(groups * GROUP_BYTES);
    let all = job.workers.saturating_mul(worker);
    job.memory_bytes.checked_sub(all).filter(|&left| left > 0).ok_or_else(|| {
        Error::spec(
            "memory",
            format!(
                "is {} bytes, and {} workers with {} rows each need more than {all}",
                job.memory_bytes, job.workers, job.row_group_rows
            ),
            "set a larger memory, fewer workers, or other row_group_rows",
        )
    })
}

/// State of a preprocessing run, kept across its stages.
struct Stages<'b> {
    job: &'b PreprocessJob,
    pool: WorkerPool<'b>,
    board: &'b Board,
    memory: Memory,
    device: Option<DeviceCounters>,
    extras: Extras,
    stages: Vec<serde_json::Value>,
    peak_bytes: u64,
    resumed: usize,
}

/// Time, CPU and device counters at the start of a stage.
struct Begun {
    place: usize,
    start_ns: u64,
    cpu: ProcessCpu,
    device: Option<DeviceBytes>,
}

/// Results of a stage, for the run's details.
#[derive(Default)]
struct Done {
    rows: u64,
    output_bytes: u64,
    parts: usize,
    /// Number of tasks that workers can take in parallel: one per part of the input. The vocabulary
    /// stage runs this many tasks for each column, one column after the other.
    tasks: usize,
    resumed: usize,
    passes: usize,
}

fn run(job: &PreprocessJob, control: &Arc<Control>, board: &Board) -> Outcome {
    let memory = Memory::begin();
    let prepared = prepare(job, control);
    if prepared.is_err() {
        control.end_soon();
    }
    let pool = WorkerPool::new(
        "preprocess",
        job.workers,
        job.interval_ns,
        &KINDS,
        job.cpus.as_deref(),
        board,
        control,
    );
    let mut stages = Stages {
        device: DeviceCounters::of(&job.directory),
        job,
        pool,
        board,
        memory,
        extras: Extras { takes_tasks: true, ..Extras::default() },
        stages: Vec::new(),
        peak_bytes: 0,
        resumed: 0,
    };
    if let Err(error) = prepared.and_then(|parts| stages.run_all(&parts)) {
        stages.extras.failure = Some(error);
    }
    stages.finish(control)
}

/// Claim the output directory, list the parts of the inputs, and if the job asks for a cold start,
/// evict the inputs from the page cache.
fn prepare(job: &PreprocessJob, control: &Control) -> Result<Vec<Part>> {
    outputs::claim(job)?;
    let parts = Part::of_job(job)?;
    if job.cold {
        let inputs = &mut job.inputs.iter().map(PathBuf::as_path);
        evict_page_cache(inputs, &|| control.stopping())?;
    }
    Ok(parts)
}

impl Stages<'_> {
    fn run_all(&mut self, parts: &[Part]) -> Result<()> {
        let Some(findings) = self.ingest(parts)? else { return Ok(()) };
        self.vocabulary(parts, &findings)?;
        if !self.pool.is_over() {
            self.encode(parts, &findings)?;
        }
        Ok(())
    }

    /// Run the ingest stage. Return its findings; `None` if the run ended first.
    fn ingest(&mut self, parts: &[Part]) -> Result<Option<Findings>> {
        let job = self.job;
        let resumed = parts.iter().filter(|part| part.facts().is_some()).count();
        let begun = self.begin(INGEST, &mut std::iter::empty())?;
        ingest::run(job, parts, &mut self.pool)?;
        if self.pool.is_over() {
            return Ok(None);
        }
        outputs::check_unchanged(job)?;
        let findings = Findings::of(job, parts)?;
        let output_bytes = sizes(parts.iter().map(|part| part.parquet.as_path()))?;
        let rows = findings.rows;
        let (tasks, passes) = (parts.len(), 1);
        self.end(&begun, &Done { rows, output_bytes, parts: tasks, tasks, resumed, passes });
        let input_bytes = sizes(job.inputs.iter().map(PathBuf::as_path))?;
        for (name, value) in [
            ("rows", json!(findings.rows)),
            ("lines", json!(findings.lines)),
            ("malformed", findings.malformed_details()),
            ("input_bytes", json!(input_bytes)),
            ("parquet_bytes", json!(output_bytes)),
        ] {
            self.extras.details.insert(name.into(), value);
        }
        accept(job, &findings)?;
        Ok(Some(findings))
    }

    fn vocabulary(&mut self, parts: &[Part], findings: &Findings) -> Result<()> {
        let job = self.job;
        let outputs = || (1..=CATEGORIES).map(|number| Files::of(job, number));
        let resumed = outputs().filter(|files| files.facts().is_some()).count();
        let begun = self.begin(VOCABULARY, &mut parts.iter().map(|p| p.parquet.as_path()))?;
        let passes = vocabulary::run(job, parts, table_memory(job)?, &mut self.pool)?;
        if self.pool.is_over() {
            return Ok(());
        }
        // The vocabulary files have 4 bytes of value and 8 bytes of count per entry.
        let output_bytes = outputs().filter_map(|files| files.facts()).map(|f| f.kept * 12).sum();
        let (rows, tasks) = (findings.rows, parts.len());
        self.end(&begun, &Done { rows, output_bytes, parts: CATEGORIES, tasks, resumed, passes });
        Ok(())
    }

    fn encode(&mut self, parts: &[Part], findings: &Findings) -> Result<()> {
        let job = self.job;
        let vocabularies: Vec<Files> = (1..=CATEGORIES).map(|n| Files::of(job, n)).collect();
        let mut inputs = parts
            .iter()
            .map(|part| part.parquet.as_path())
            .chain(vocabularies.iter().map(|files| files.values.as_path()));
        let begun = self.begin(ENCODE, &mut inputs)?;
        let encoded = encode::run(job, parts, findings, table_memory(job)?, &mut self.pool)?;
        if self.pool.is_over() {
            return Ok(());
        }
        let output_bytes = tree_bytes(&job.directory.join("binary"))?;
        let (rows, resumed, passes) = (findings.rows, encoded.resumed, encoded.passes);
        let tasks = parts.len();
        self.end(&begun, &Done { rows, output_bytes, parts: tasks, tasks, resumed, passes });
        self.extras.details.insert("output_bytes".into(), output_bytes.into());
        Ok(())
    }

    fn begin(&mut self, place: usize, inputs: &mut dyn Iterator<Item = &Path>) -> Result<Begun> {
        if self.job.cold {
            evict_page_cache(inputs, &|| self.pool.is_over())?;
        }
        self.pool.take_moved();
        Memory::reset_peak();
        self.board.enter(KINDS[place].name, None);
        let (now, cpu) = ProcessCpu::timed();
        Ok(Begun {
            place,
            start_ns: if place == INGEST { self.pool.start_ns() } else { now },
            cpu,
            device: self.device.as_ref().and_then(DeviceCounters::now),
        })
    }

    fn end(&mut self, begun: &Begun, done: &Done) {
        let (end_ns, used) = ProcessCpu::timed();
        let cpu = used.since(begun.cpu);
        let after = self.device.as_ref().and_then(DeviceCounters::now);
        let moved = after.zip(begun.device).map(|(now, then)| now.since(then));
        let name = KINDS[begun.place].name;
        let (start_ns, bytes) = (begun.start_ns, self.pool.take_moved());
        let peak = self.memory.peak();
        self.peak_bytes = self.peak_bytes.max(peak);
        self.resumed += done.resumed;
        self.extras.spans.push(Span { kind: name, name: name.into(), start_ns, end_ns, bytes });
        self.stages.push(json!({
            "name": name,
            "start_ns": start_ns,
            "end_ns": end_ns,
            "rows": done.rows,
            "input_bytes": bytes,
            "output_bytes": done.output_bytes,
            "cpu_ns": cpu.user_ns + cpu.system_ns,
            "peak_memory_bytes": peak,
            "device_read_bytes": moved.map(|moved| moved.read),
            "device_written_bytes": moved.map(|moved| moved.written),
            "parts": done.parts,
            "tasks": done.tasks,
            "resumed_parts": done.resumed,
            "passes": done.passes,
        }));
    }

    /// End the window, then check the output, and build the outcome.
    fn finish(self, control: &Control) -> Outcome {
        let Stages { job, pool, board, device, mut extras, .. } = self;
        let end_ns = match extras.spans.last() {
            Some(last) if extras.spans.len() == KINDS.len() => last.end_ns,
            _ => monotonic_ns(),
        };
        let end_ns = end_ns.max(pool.start_ns() + 1);
        let mut totals = pool.end();
        totals.close();
        if extras.failure.is_none() && !control.stopping() {
            board.enter("check", None);
            match check_while(&job.directory, &|| control.stopping()) {
                Ok(digests) => {
                    extras.details.extend(digests.map(|digests| ("output".into(), digests)));
                }
                Err(error) => extras.failure = Some(error),
            }
        }
        for (name, value) in [
            ("stages", json!(self.stages)),
            ("resumed_parts", json!(self.resumed)),
            ("device_counters", json!(device.is_some())),
            ("memory_limit_bytes", json!(job.memory_bytes)),
            ("peak_memory_bytes", json!(self.peak_bytes)),
        ] {
            extras.details.insert(name.into(), value);
        }
        totals.finish(end_ns, control, extras)
    }
}

/// Fail if there are malformed lines and the job does not allow them, or if the input has no rows.
fn accept(job: &PreprocessJob, findings: &Findings) -> Result<()> {
    let count = findings.malformed();
    if count > 0 && job.malformed == Malformed::Refuse {
        let first = findings.first_malformed();
        let what =
            format!("{count} of {} lines are not in click-log format: {first}", findings.lines);
        let fix = "correct the file, or set malformed = \"skip\"";
        return Err(Error::spec("inputs", what, fix));
    }
    if findings.rows == 0 {
        let names: Vec<String> = job.inputs.iter().map(|p| p.display().to_string()).collect();
        let what = format!("have no rows: {}", names.join(", "));
        return Err(Error::spec("inputs", what, "give files with click logs in them"));
    }
    Ok(())
}

fn sizes<'p>(mut paths: impl Iterator<Item = &'p Path>) -> Result<u64> {
    paths.try_fold(0, |sum, path| {
        let metadata = fs::metadata(path).map_err(failed("open", path))?;
        Ok(sum + metadata.len())
    })
}

fn tree_bytes(directory: &Path) -> Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(directory).map_err(failed("read", directory))? {
        let path = entry.map_err(failed("read", directory))?.path();
        sum +=
            if path.is_dir() { tree_bytes(&path)? } else { sizes([path.as_path()].into_iter())? };
    }
    Ok(sum)
}
