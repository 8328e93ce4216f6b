//! IP addresses of an endpoint, resolved again in the background while a run lasts.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use storlab_base::{lock, monotonic_ns};
use tokio::sync::watch;

/// Addresses older than this are resolved again when a connection is opened.
const STALE: Duration = Duration::from_secs(5);
/// Addresses younger than this are not resolved again, even if all of them fail: many connections
/// that fail at the same time would flood the name server.
const FRESH: Duration = Duration::from_secs(1);

/// Function that resolves the name of an endpoint; it may block on a name server.
pub(super) type Resolve = Box<dyn Fn() -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// IP addresses of one endpoint, used in rotation.
pub(super) struct Addresses {
    /// Resolver of the name; None if the addresses are fixed.
    resolve: Option<Resolve>,
    /// Latest addresses. Every finished look-up sends on this channel, even one that failed and
    /// changed nothing, so that waiting tasks wake up.
    current: watch::Sender<Vec<SocketAddr>>,
    lookup: Mutex<Lookup>,
    turn: AtomicUsize,
}

/// State of the background look-up of a name.
struct Lookup {
    running: bool,
    /// End of the last look-up, in nanoseconds on the monotonic clock.
    ended_ns: u64,
}

impl Addresses {
    /// Create a fixed set of addresses, which is never resolved again.
    pub(super) fn fixed(addresses: Vec<SocketAddr>) -> Arc<Self> {
        Self::with(addresses, None)
    }

    /// Resolve a name with `resolve`, which is kept for later look-ups.
    ///
    /// # Errors
    /// Returns the error of `resolve` if this first look-up fails.
    pub(super) fn of_name(resolve: Resolve) -> io::Result<Arc<Self>> {
        Ok(Self::with(resolve()?, Some(resolve)))
    }

    fn with(addresses: Vec<SocketAddr>, resolve: Option<Resolve>) -> Arc<Self> {
        let lookup = Mutex::new(Lookup { running: false, ended_ns: monotonic_ns() });
        let (current, turn) = (watch::Sender::new(addresses), AtomicUsize::new(0));
        Arc::new(Self { resolve, current, lookup, turn })
    }

    /// Return whether the addresses come from a name, which may be resolved again.
    pub(super) fn may_change(&self) -> bool {
        self.resolve.is_some()
    }

    /// Return all addresses, rotated by one with each call to spread the connections.
    ///
    /// Stale addresses are returned at once; a look-up in the background replaces them for later
    /// calls, if it succeeds.
    pub(super) fn in_turn(self: &Arc<Self>) -> Vec<SocketAddr> {
        self.look_up_unless_younger(STALE);
        let mut addresses = self.current.borrow().clone();
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % addresses.len().max(1);
        addresses.rotate_left(first);
        addresses
    }

    /// Resolve the name again after all of `failed` have refused, and return the addresses not in
    /// `failed`.
    ///
    /// The result is empty if there are no others, if the name was resolved less than [`FRESH`]
    /// ago, or if the look-up fails.
    pub(super) async fn others_than(self: &Arc<Self>, failed: &[SocketAddr]) -> Vec<SocketAddr> {
        let mut current = self.current.subscribe();
        if self.look_up_unless_younger(FRESH) {
            // This cannot fail: `self` owns the sender.
            let _ = current.changed().await;
        }
        let addresses = current.borrow();
        addresses.iter().filter(|address| !failed.contains(address)).copied().collect()
    }

    /// Start a background look-up if the addresses are older than `age` and none is running.
    ///
    /// Returns whether a look-up is running now.
    fn look_up_unless_younger(self: &Arc<Self>, age: Duration) -> bool {
        if self.resolve.is_none() {
            return false;
        }
        let mut lookup = lock(&self.lookup);
        let old = monotonic_ns().saturating_sub(lookup.ended_ns) >= age.as_nanos() as u64;
        if old && !lookup.running {
            let of = self.clone();
            // Not on a thread of the tokio runtime, whose shutdown would wait for the name server.
            let started = thread::Builder::new()
                .name("storlab-resolve".to_owned())
                .spawn(move || of.look_up());
            lookup.running = started.is_ok();
        }
        lookup.running
    }

    fn look_up(&self) {
        let Some(resolve) = &self.resolve else { return };
        let found = resolve();
        // Held until the addresses are written: a caller that sees `running` waits for the update.
        let mut lookup = lock(&self.lookup);
        *lookup = Lookup { running: false, ended_ns: monotonic_ns() };
        self.current.send_modify(|addresses| {
            if let Ok(found) = found {
                *addresses = found;
            }
        });
    }

    /// Make the addresses stale.
    #[cfg(test)]
    pub(super) fn expire(&self) {
        lock(&self.lookup).ended_ns = 0;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    fn address(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn stale_addresses_are_used_until_a_lookup_succeeds() {
        let (answer, answers) = mpsc::channel::<io::Result<Vec<SocketAddr>>>();
        let answers = Mutex::new(answers);
        answer.send(Ok(vec![address(1)])).expect("sent");
        let resolve: Resolve = Box::new(move || lock(&answers).recv().expect("an answer"));
        let addresses = Addresses::of_name(resolve).expect("resolved");
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let changed = |mut current: watch::Receiver<_>| {
            runtime.block_on(async { current.changed().await }).expect("a look-up ended");
        };
        lock(&addresses.lookup).ended_ns = u64::MAX;
        assert_eq!(addresses.in_turn(), [address(1)]);
        assert!(!lock(&addresses.lookup).running, "fresh addresses need no look-up");
        for (answered, then) in
            [(Err(io::ErrorKind::TimedOut.into()), address(1)), (Ok(vec![address(2)]), address(2))]
        {
            addresses.expire();
            let current = addresses.current.subscribe();
            // The resolver is still waiting for its answer and must not be called a second time.
            assert_eq!(addresses.in_turn(), [address(1)]);
            assert_eq!(addresses.in_turn(), [address(1)]);
            answer.send(answered).expect("sent");
            changed(current);
            assert_eq!(addresses.in_turn(), [then]);
        }
    }

    #[test]
    fn what_is_fixed_or_fresh_is_not_looked_up() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let fixed = Addresses::fixed(vec![address(1), address(2)]);
        fixed.expire();
        assert_eq!(runtime.block_on(fixed.others_than(&[address(1)])), [address(2)]);
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        let resolve: Resolve = Box::new(move || {
            let count = counted.fetch_add(1, Ordering::SeqCst);
            Ok(vec![address(1 + count as u16)])
        });
        let named = Addresses::of_name(resolve).expect("resolved");
        lock(&named.lookup).ended_ns = u64::MAX;
        assert_eq!(runtime.block_on(named.others_than(&[address(1)])), []);
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        named.expire();
        assert_eq!(runtime.block_on(named.others_than(&[address(1)])), [address(2)]);
    }
}
