//! Batch path: one cuFile call submits up to queue depth operations.
//!
//! All operations of a batch end before the next ones are submitted, because a batch accepts one
//! submission at a time.

#![allow(unsafe_code)]

use std::mem::ManuallyDrop;
use std::time::Duration;

use storlab_base::{OpKind, Result};

use super::{Completion, Io, Landing, Mover, Registered, WorkerResources};
use crate::cufile::{Batch, Opcode};
use crate::errors::Done;
use crate::shared::Shared;

/// Data path between storage and GPU memory by cuFile's batch API.
pub struct DirectBatch {
    /// Dropped before the registrations that it uses. Both are leaked if an operation is in flight.
    batch: ManuallyDrop<Batch>,
    registered: ManuallyDrop<Registered>,
    resources: WorkerResources,
    pushed: usize,
    in_flight: usize,
    /// For each slot, whether its operation is in flight. Needed because the library may report the
    /// end of an entry more than once.
    busy: Vec<bool>,
    refused: Vec<Completion>,
}

impl DirectBatch {
    /// Register the worker's file and buffers, and set up the batch.
    ///
    /// # Errors
    /// If the file cannot be opened or registered, memory cannot be allocated, or cuFile has no
    /// batches of this size.
    pub fn new(shared: &Shared, resources: WorkerResources) -> Result<Self> {
        let batch = Batch::new(resources.cufile()?, shared.job.queue_depth)?;
        let registered = Registered::new(shared, &resources)?;
        let depth = shared.job.queue_depth;
        let (busy, refused) = (vec![false; depth], Vec::with_capacity(depth));
        let (batch, registered) = (ManuallyDrop::new(batch), ManuallyDrop::new(registered));
        Ok(DirectBatch { batch, registered, resources, pushed: 0, in_flight: 0, busy, refused })
    }
}

impl Mover for DirectBatch {
    fn takes(&self) -> bool {
        self.in_flight == 0
    }

    #[inline]
    fn push(&mut self, io: Io) {
        let opcode = if io.kind == OpKind::Read { Opcode::Read } else { Opcode::Write };
        let (len, cookie) = (io.bytes(), usize::from(io.slot));
        match self.registered.place(&self.resources, &io) {
            Ok(place) => {
                let handle = &self.registered.handle;
                // SAFETY: `drop` keeps buffers and file while an operation is in flight; the pool
                // with the content outlives all workers.
                unsafe { self.batch.push(opcode, handle, io.offset, len, place, cookie) };
                self.pushed += 1;
                self.busy[cookie] = true;
            }
            Err(fault) => self.refused.push(Completion { slot: io.slot, result: Err(fault) }),
        }
    }

    #[inline]
    fn turn(&mut self, limit: Duration, ended: &mut Vec<Completion>) -> Done<()> {
        ended.append(&mut self.refused);
        if self.pushed > 0 {
            let pushed = std::mem::take(&mut self.pushed);
            if let Err(fault) = self.batch.submit() {
                let all = self.batch.take_back();
                ended.extend(all.map(|slot| Completion { slot: slot as u16, result: Err(fault) }));
            } else {
                self.in_flight += pushed;
            }
        }
        if self.in_flight == 0 {
            return Ok(());
        }
        let mut left = self.in_flight;
        let busy = &mut self.busy;
        self.batch.wait(limit, |event| {
            let known = busy.get_mut(event.cookie).is_some_and(std::mem::take);
            if !known {
                return;
            }
            left = left.saturating_sub(1);
            ended.push(Completion { slot: event.cookie as u16, result: event.result });
        })?;
        self.in_flight = left;
        if left == 0 {
            self.batch.clear();
        }
        Ok(())
    }

    fn landing(&mut self, slot: u16) -> Done<Landing<'_>> {
        self.registered.landing(&self.resources, slot)
    }

    fn cancel(&mut self) {
        self.batch.cancel();
    }

    fn features(&self) -> Vec<&'static str> {
        vec!["cufile_batch"]
    }
}

impl Drop for DirectBatch {
    fn drop(&mut self) {
        if self.in_flight > 0 {
            // The worker panicked, and the library may still write to the buffers, so they are
            // leaked.
            return;
        }
        // SAFETY: each value is dropped once, and nothing is in flight.
        unsafe {
            ManuallyDrop::drop(&mut self.batch);
            ManuallyDrop::drop(&mut self.registered);
        }
    }
}
