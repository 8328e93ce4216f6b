//! Time-out and retries of requests to a bucket, and counts of retries for the results of a run.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use storlab_base::{lock, monotonic_ns};

use crate::{Failure, RetryPolicy};

/// Interval at which a pause before a retry is interrupted to check whether the run has ended.
const LOOK: Duration = Duration::from_millis(50);

/// Counts of retries, and of multipart uploads that could not be aborted. All clones share the
/// counts, which are reported at the end of a run.
#[derive(Clone, Debug, Default)]
pub struct RetryLog(Arc<Mutex<RetryCounts>>);

#[derive(Debug, Default)]
struct RetryCounts {
    again: BTreeMap<String, u64>,
    orphans: u64,
}

/// Time-out and retry policy of requests to a bucket.
#[derive(Clone, Debug)]
pub struct RequestPolicy {
    timeout: Duration,
    retry: RetryPolicy,
    log: RetryLog,
}

impl RequestPolicy {
    /// Create a policy that counts retries, and uploads that could not be aborted, in `log`.
    pub fn new(timeout_ns: u64, retry: RetryPolicy, log: &RetryLog) -> Self {
        let timeout = Duration::from_nanos(timeout_ns);
        RequestPolicy { timeout, retry, log: log.clone() }
    }

    /// Return the time-out for connecting to the store, and for work in [`RequestPolicy::in_time`].
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Run `work`, but cancel it when the policy's time-out has passed.
    ///
    /// # Errors
    /// [`Failure::TimeOut`] if the time-out passes; otherwise the failure of `work`.
    pub async fn in_time<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::time::timeout(self.timeout, work).await.unwrap_or(Err(Failure::TimeOut))
    }

    /// Repeat `attempt` until it succeeds, fails permanently or has no retries left.
    ///
    /// Once `stopping` returns true, no further attempt is made.
    ///
    /// # Errors
    /// The failure of the last attempt.
    pub async fn retry<T>(
        &self,
        stopping: &dyn Fn() -> bool,
        mut attempt: impl AsyncFnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut retry = 0;
        loop {
            let failure = match attempt().await {
                Err(failure) if !stopping() => failure,
                ended => return ended,
            };
            let Some(pause_ns) = self.retry.pause_ns(retry, &failure) else { return Err(failure) };
            *lock(&self.log.0).again.entry(failure.kind()).or_default() += 1;
            pause(pause_ns, stopping).await;
            retry += 1;
        }
    }

    /// Count a multipart upload that exists on the store, or may exist, and could be neither
    /// completed nor aborted.
    pub fn count_orphan(&self) {
        lock(&self.log.0).orphans += 1;
    }

    /// Return the number of retries so far.
    pub fn retries(&self) -> u64 {
        lock(&self.log.0).again.values().sum()
    }

    /// Return notes on retries and unfinished uploads for the results of a run.
    pub fn notes(&self) -> Vec<String> {
        let log = lock(&self.log.0);
        let mut notes = Vec::new();
        if !log.again.is_empty() {
            let kinds: Vec<_> =
                log.again.iter().map(|(kind, count)| format!("{count} after {kind}")).collect();
            let count: u64 = log.again.values().sum();
            let kinds = kinds.join(", ");
            notes.push(format!(
                "{count} requests were retried, and latencies include the retries: {kinds}"
            ));
        }
        if log.orphans > 0 {
            notes.push(format!(
                "{} multipart uploads may be left on the store, because they could not be \
                 aborted; clean-up will look for them",
                log.orphans
            ));
        }
        notes
    }
}

/// Pause for `pause_ns`, but no longer than until `stopping` returns true.
async fn pause(pause_ns: u64, stopping: &dyn Fn() -> bool) {
    let until_ns = monotonic_ns().saturating_add(pause_ns);
    while !stopping() {
        let left = Duration::from_nanos(until_ns.saturating_sub(monotonic_ns()));
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(LOOK)).await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::pin::{Pin, pin};

    use super::*;
    use crate::TlsFault;

    fn policy_of(timeout_ns: u64, retries: u32, backoff_ns: u64) -> RequestPolicy {
        let retry = RetryPolicy { retries, backoff_ns };
        RequestPolicy::new(timeout_ns, retry, &RetryLog::default())
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let work: Pin<&mut dyn Future<Output = T>> = pin!(work);
        runtime.block_on(work)
    }

    #[test]
    fn what_passes_is_tried_again_and_told() {
        let policy = policy_of(60_000_000_000, 2, 1000);
        let tries = Cell::new(0);
        let flaky = async || {
            tries.set(tries.get() + 1);
            if tries.get() < 3 { Err(Failure::Reset) } else { Ok(tries.get()) }
        };
        assert_eq!(run(policy.retry(&|| false, flaky)), Ok(3));
        assert_eq!(policy.clone().retries(), 2);
        assert!(policy.notes()[0].contains("2 after connection reset"));
    }

    #[test]
    fn there_is_an_end_to_it() {
        let tries = Cell::new(0);
        let never = |failure: Failure| {
            tries.set(0);
            let tries = &tries;
            async move || {
                tries.set(tries.get() + 1);
                Err::<(), _>(failure.clone())
            }
        };
        let policy = policy_of(60_000_000_000, 2, 0);
        assert_eq!(run(policy.retry(&|| false, never(Failure::Closed))), Err(Failure::Closed));
        assert_eq!(tries.get(), 3);
        let tls = Failure::Tls { fault: TlsFault::Untrusted, what: "no".to_owned() };
        assert_eq!(run(policy.retry(&|| false, never(tls.clone()))), Err(tls));
        assert_eq!(tries.get(), 1);
        // There are no retries after the run has ended.
        assert_eq!(run(policy.retry(&|| true, never(Failure::Closed))), Err(Failure::Closed));
        assert_eq!(tries.get(), 1);
        let hurried = policy_of(1_000_000, 1, 0);
        let silent = async || hurried.in_time(std::future::pending::<Result<(), _>>()).await;
        assert_eq!(run(hurried.retry(&|| false, silent)), Err(Failure::TimeOut));
        assert_eq!(hurried.retries(), 1);
    }
}
