//! IP addresses of an S3 endpoint. If they are old when a connection is opened, a background thread
//! resolves the endpoint's name again.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use storlab_base::{lock, monotonic_ns};
use tokio::sync::watch;

/// Age from which addresses are resolved again when a connection is opened.
const STALE: Duration = Duration::from_secs(5);
/// Age below which addresses are not resolved again, even if all of them fail. Otherwise many
/// connections that fail at the same time would flood the name server.
const FRESH: Duration = Duration::from_secs(1);

/// Function that resolves the name of an endpoint to addresses. It may block until a name server
/// answers.
pub(super) type Resolve = Box<dyn Fn() -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// IP addresses of one endpoint, used in rotation.
pub(super) struct Addresses {
    /// Function that resolves the endpoint's name; None if the addresses are fixed.
    resolve: Option<Resolve>,
    /// Latest addresses. Every look-up that ends sends on this channel, even if it failed or
    /// changed nothing, so that waiting tasks wake up.
    current: watch::Sender<Vec<SocketAddr>>,
    lookup: Mutex<Lookup>,
    turn: AtomicUsize,
}

/// State of the background look-up of a name.
struct Lookup {
    running: bool,
    /// Time at which the last look-up ended, in ns on the monotonic clock.
    ended_ns: u64,
}

impl Addresses {
    /// Create a fixed set of addresses, which is never resolved again.
    pub(super) fn fixed(addresses: Vec<SocketAddr>) -> Arc<Self> {
        Self::with(addresses, None)
    }

    /// Resolve a name by calling `resolve`, which is called again for later look-ups.
    ///
    /// # Errors
    /// The error of `resolve` if this first look-up fails.
    pub(super) fn of_name(resolve: Resolve) -> io::Result<Arc<Self>> {
        Ok(Self::with(resolve()?, Some(resolve)))
    }

    fn with(addresses: Vec<SocketAddr>, resolve: Option<Resolve>) -> Arc<Self> {
        let lookup = Mutex::new(Lookup { running: false, ended_ns: monotonic_ns() });
        let (current, turn) = (watch::Sender::new(addresses), AtomicUsize::new(0));
        Arc::new(Self { resolve, current, lookup, turn })
    }

    /// Return whether the addresses come from a name, which can be resolved again.
    pub(super) fn may_change(&self) -> bool {
        self.resolve.is_some()
    }

    /// Return all addresses, starting with the next one at each call, so that connections spread
    /// over them.
    ///
    /// If the addresses are older than [`STALE`], this starts a look-up in the background, whose
    /// result later calls return. It does not wait for the look-up.
    pub(super) fn in_turn(self: &Arc<Self>) -> Vec<SocketAddr> {
        self.look_up_unless_younger(STALE);
        let mut addresses = self.current.borrow().clone();
        let first = self.turn.fetch_add(1, Ordering::Relaxed) % addresses.len().max(1);
        addresses.rotate_left(first);
        addresses
    }

    /// Resolve the name again after connecting to all addresses of `failed` has failed. Return the
    /// addresses that are not in `failed`.
    ///
    /// The result is empty if there are no others, if the name was resolved less than [`FRESH`]
    /// ago, or if the look-up fails.
    pub(super) async fn others_than(self: &Arc<Self>, failed: &[SocketAddr]) -> Vec<SocketAddr> {
        let mut current = self.current.subscribe();
        if self.look_up_unless_younger(FRESH) {
            // Cannot fail: the sender belongs to `self`, so the channel is open.
            let _ = current.changed().await;
        }
        let addresses = current.borrow();
        addresses.iter().filter(|address| !failed.contains(address)).copied().collect()
    }

    /// Start a look-up in the background, unless the addresses are younger than `age` or a look-up
    /// is already running.
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
            // Not a thread of the tokio runtime: if a name server blocked it, the shutdown of the
            // runtime would have to wait for it.
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
        // The lock is held until the addresses are written, so that a caller that sees `running`
        // waits for the update.
        let mut lookup = lock(&self.lookup);
        *lookup = Lookup { running: false, ended_ns: monotonic_ns() };
        self.current.send_modify(|addresses| {
            if let Ok(found) = found {
                *addresses = found;
            }
        });
    }

    /// Make the addresses count as stale.
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
