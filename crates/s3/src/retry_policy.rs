//! Policy for sending failed requests again: which ones, how often, and after which pause.

use crate::failure::Failure;

/// Number of retries of a failed request, and the pause before each one.
///
/// The policy is meant for requests that are idempotent, or whose effects are undone after each
/// failed attempt.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Maximum number of retries.
    pub retries: u32,
    /// Pause before the first retry, in ns. It doubles with each further retry.
    pub backoff_ns: u64,
}

impl RetryPolicy {
    /// Return the pause in ns before the next retry, if `retry` retries have been made already.
    /// Return `None` if the failure is permanent or no retries are left.
    pub fn pause_ns(self, retry: u32, failure: &Failure) -> Option<u64> {
        let again = failure.retryable() && retry < self.retries;
        again.then(|| self.backoff_ns.saturating_mul(1 << retry.min(32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TlsFault;

    #[test]
    fn retries_are_limited_and_their_pauses_double() {
        let policy = RetryPolicy { retries: 3, backoff_ns: 10 };
        let pauses = [0, 1, 2, 3].map(|retry| policy.pause_ns(retry, &Failure::Reset));
        assert_eq!(pauses, [Some(10), Some(20), Some(40), None]);
        let tls = Failure::Tls { fault: TlsFault::Untrusted, what: "no".to_owned() };
        assert_eq!(policy.pause_ns(0, &tls), None);
        let long = RetryPolicy { retries: u32::MAX, backoff_ns: u64::MAX };
        assert_eq!(long.pause_ns(99, &Failure::Reset), Some(u64::MAX));
    }
}
