//! Concurrent execution of several transfers in one task.

use std::future::{Future, poll_fn};
use std::task::Poll;

use crate::Failure;

/// Run all futures concurrently in the current task.
///
/// # Errors
/// The first failure. It cancels all other futures.
pub async fn try_join_all<F>(futures: impl Iterator<Item = F>) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let mut running: Vec<_> = futures.map(Box::pin).collect();
    poll_fn(|context| {
        let mut failed = None;
        running.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Pending => true,
            Poll::Ready(Ok(())) => false,
            Poll::Ready(Err(failure)) => {
                failed.get_or_insert(failure);
                false
            }
        });
        match failed {
            Some(failure) => Poll::Ready(Err(failure)),
            None if running.is_empty() => Poll::Ready(Ok(())),
            None => Poll::Pending,
        }
    })
    .await
}
