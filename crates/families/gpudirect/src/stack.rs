//! Stack of a run: GPUs, libraries and source buffers that all its workers share.
//!
//! The first worker that needs the stack opens it; it is released after the run.

use std::sync::atomic::{AtomicBool, Ordering};

use memmap2::MmapMut;
use storlab_base::{Error, Result, monotonic_ns};

use crate::content::Source;
use crate::cuda::{Cuda, DeviceBuffer, Gpu};
use crate::cufile::{CuFile, Driver, IoBuffer, Properties};
use crate::figures::Registration;
use crate::files::pages;
use crate::spec::{GpuDirectJob, Route};

/// Bytes copied per call when a GPU's source buffer is filled.
const PIECE: usize = 1 << 20;

/// Open GPUs and libraries of one run, with the source buffers of writes.
pub struct Stack {
    /// Open GPUs, in the order of the job.
    pub gpus: Vec<Gpu>,
    /// Free memory of each GPU in bytes, before the run allocated any.
    pub free_bytes: Vec<u64>,
    /// cuFile's open driver; `None` if the data path does not use cuFile.
    pub driver: Option<Driver>,
    /// Properties that cuFile's driver reported when it was opened.
    pub properties: Option<Properties>,
    /// Whether cuFile counts I/Os by data path.
    pub counts: bool,
    /// Generator of the content to write; `None` if the job does not write.
    pub source: Option<Source>,
    /// Buffer with the content to write, in each GPU's memory; empty if the job does not write.
    pub pools: Vec<IoBuffer>,
    /// Buffer with the content to write, in host memory; used by the host path only.
    pub host_pool: Option<MmapMut>,
    /// Cost of registering the shared source buffers with cuFile.
    pub registration: Registration,
    /// Whether the context of a GPU became unusable.
    sticky: AtomicBool,
}

impl Stack {
    /// Open everything that a job needs. `ended` returns true once the run no longer waits.
    ///
    /// # Errors
    /// If a library cannot be loaded, a GPU cannot be used, or a GPU's memory is too small.
    pub fn open(job: &GpuDirectJob, ended: impl Fn() -> bool) -> Result<Self> {
        let mut stack = Stack {
            gpus: Vec::new(),
            free_bytes: Vec::new(),
            driver: None,
            properties: None,
            counts: false,
            source: job.writes().then(|| Source::new(job.seed)),
            pools: Vec::new(),
            host_pool: None,
            registration: Registration::default(),
            sticky: AtomicBool::new(false),
        };
        if !job.uses_gpu() {
            stack.fill_host_pool(job)?;
            return Ok(stack);
        }
        let cuda = Cuda::open(&job.libraries.cuda)?;
        for &number in &job.gpus {
            let gpu = Gpu::open(cuda, number)?;
            stack.free_bytes.push(gpu.free_bytes()?);
            stack.gpus.push(gpu);
        }
        stack.check_room(job)?;
        if job.path == Route::Direct {
            let driver = CuFile::load(&job.libraries.cufile)?.open(job.open_timeout_ns, ended)?;
            stack.properties = Some(driver.properties()?);
            stack.counts = driver.count();
            stack.driver = Some(driver);
        }
        for gpu in 0..stack.gpus.len() {
            stack.fill_pool(job, gpu)?;
        }
        Ok(stack)
    }

    /// Fail if a GPU's free memory is too small now. Planning has checked it too, but other
    /// processes may have allocated memory since.
    fn check_room(&self, job: &GpuDirectJob) -> Result<()> {
        let pool = if job.writes() { Source::pool_bytes(job.longest_block() as usize) } else { 0 };
        for (at, gpu) in self.gpus.iter().enumerate() {
            let same = |other: &Gpu| other.facts.number == gpu.facts.number;
            let workers = (0..job.workers).filter(|&w| same(&self.gpus[job.gpu_of(w)])).count();
            let needed = workers * job.gpu_bytes_of_worker() + pool;
            let free = self.free_bytes[at];
            if needed as u64 > free {
                let what = format!(
                    "CUDA_ERROR_OUT_OF_MEMORY (2): buffers need {} MB on GPU {}, of which {} MB \
                     are free",
                    needed / 1_000_000,
                    gpu.facts.number,
                    free / 1_000_000
                );
                let fix = "use fewer workers, a smaller queue_depth or block_size, or end other \
                           programs on the GPU";
                return Err(Error::dependency(what, fix));
            }
        }
        Ok(())
    }

    fn fill_host_pool(&mut self, job: &GpuDirectJob) -> Result<()> {
        if let Some(source) = &self.source {
            let mut pool = pages(Source::pool_bytes(job.longest_block() as usize))?;
            source.fill(0, &mut pool);
            self.host_pool = Some(pool);
        }
        Ok(())
    }

    fn fill_pool(&mut self, job: &GpuDirectJob, gpu: usize) -> Result<()> {
        let Some(source) = &self.source else { return Ok(()) };
        self.gpus[gpu].enter()?;
        let bytes = Source::pool_bytes(job.longest_block() as usize);
        let buffer = DeviceBuffer::new(self.gpus[gpu].cuda, bytes)?;
        let mut piece = vec![0; PIECE];
        for at in (0..bytes).step_by(PIECE) {
            let part = &mut piece[..PIECE.min(bytes - at)];
            source.fill(at, part);
            buffer.put(at, part).map_err(|fault| fault.of("copying to the GPU"))?;
        }
        let registers_pool = job.register && !job.on_streams(); // streams copy from the pool
        let cufile = self.driver.as_ref().filter(|_| registers_pool).map(Driver::cufile);
        let Some(cufile) = cufile else {
            self.pools.push(IoBuffer::unregistered(buffer));
            return Ok(());
        };
        let begun_ns = monotonic_ns();
        let pool = IoBuffer::registered(cufile, buffer)?;
        let (bytes, ns) = (pool.memory().len() as u64, monotonic_ns() - begun_ns);
        let cost = Registration { buffers: 1, bytes, ns, ..Registration::default() };
        self.registration = cost.after(&self.registration);
        self.pools.push(pool);
        Ok(())
    }

    /// Mark the context of a GPU as unusable, so that it is reset when the run ends.
    pub fn mark_context_lost(&self) {
        self.sticky.store(true, Ordering::Relaxed);
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        for (gpu, pool) in self.gpus.iter().zip(self.pools.drain(..)) {
            // Ignore errors: if the context cannot be made current, its memory cannot be freed
            // either.
            let _ = gpu.enter();
            drop(pool);
        }
        // Close cuFile before the contexts are released, because it has memory in them.
        self.driver = None;
        if self.sticky.load(Ordering::Relaxed) {
            self.gpus.iter().for_each(Gpu::reset);
        }
    }
}
