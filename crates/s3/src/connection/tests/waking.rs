//! Tests of `SO_RCVLOWAT`: the number of bytes that wake the reader of a long body.

use super::*;

/// Bytes that the server sends at a time; slow bodies have a pause after each.
const SENT: usize = 16 << 10;

/// Start a server for one connection whose keys give the length of the body and its pace; "slow"
/// bodies have a pause after every piece. Returns the store.
async fn bodies() -> Store {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        stream.set_nodelay(true).expect("a socket");
        while let Some(asked) = read_head(&mut stream).await {
            let key = asked.split([' ', '/']).nth(3).expect("a key");
            let (length, pace) = key.split_once('-').expect("length and pace");
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            let body = vec![7; length.parse().expect("a number")];
            for piece in [head.into_bytes(), body].concat().chunks(SENT) {
                stream.write_all(piece).await.expect("sent");
                if pace == "slow" {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
        }
    });
    store(port)
}

/// Read the body of `key` to its end. Returns the wake-up threshold after each read, and the
/// connection.
async fn read(store: &Store, connection: Connection, key: &str) -> (Vec<u32>, Connection) {
    let (head, body) = (store.request(0, &Call::get(key)).head, RequestBody::none());
    let mut response = connection.send(head, body).await.expect("an answer");
    let (mut wakes_at, mut length) = (Vec::new(), 0);
    while response.read(|data| length += data.len()).await.expect("more") {
        wakes_at.push(response.wakes_at);
    }
    assert_eq!(Some(length), key.split('-').next().and_then(|length| length.parse().ok()));
    (wakes_at, response.into_connection().expect("it goes on"))
}

/// Open a connection that uses high wake-up thresholds from a receive buffer of `wake_buffer_bytes`
/// on; how far the kernel grows the real one depends on net.ipv4.tcp_rmem.
async fn opened(wake_buffer_bytes: usize) -> (Store, Connection) {
    let store = bodies().await;
    let connection = Connection::open(&store, 0, LONG).await.expect("open");
    (store, Connection { wake_buffer_bytes, ..connection })
}

#[test]
fn a_long_body_wakes_its_reader_seldom_until_its_last_bytes() {
    run(async {
        let (store, connection) = opened(0).await;
        let (wakes_at, connection) = read(&store, connection, "2097152-slow").await;
        assert!(wakes_at.iter().any(|&at| at > 64 << 10), "{wakes_at:?}");
        assert_eq!(wakes_at.last(), Some(&1));
        read(&store, connection, "5-slow").await;
    });
}

/// With a high threshold, a distant server would fill the small window and stall while the reader
/// sleeps.
#[test]
fn a_connection_whose_buffer_has_not_grown_wakes_its_reader_often() {
    run(async {
        let (store, connection) = opened(usize::MAX).await;
        let (wakes_at, _) = read(&store, connection, "2097152-slow").await;
        assert!(wakes_at.iter().all(|&at| at == 1), "{wakes_at:?}");
    });
}

#[test]
fn a_body_of_any_length_is_read_to_its_end() {
    let edges = [64 << 10, 96 << 10, 128 << 10, 160 << 10, 176 << 10, 288 << 10];
    run(async {
        let (store, mut connection) = opened(0).await;
        for length in edges.into_iter().flat_map(|at: u32| [at - 1, at, at + 1]) {
            let key = format!("{length}-slow");
            let asked = tokio::time::timeout(LONG / 2, read(&store, connection, &key)).await;
            connection = asked.expect("the reader is woken").1;
        }
    });
}

#[test]
fn a_long_body_that_is_cut_ends_at_once() {
    run(async {
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 9000000\r\n\r\n";
        let answer = [&head[..], &vec![7; 70_000]].concat().leak();
        let asked = tokio::time::timeout(LONG / 2, answered(answer)).await;
        assert_eq!(asked.expect("it is not waited for"), Err(Failure::ShortBody));
    });
}

/// TLS may hold the start of a record, up to 16 KiB of plain text, that is no longer in the socket.
#[test]
fn what_wakes_is_always_still_to_come() {
    for left in (0..1 << 20).step_by(7) {
        let at = u64::from(response::wake_at(left));
        assert!(at == 1 || at + (17 << 10) <= left, "{left}: {at}");
    }
}
