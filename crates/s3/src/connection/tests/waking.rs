//! How often a long body wakes its reader, and that it always does in the end.

use super::*;

/// What one send of the server brings, with a pause after it.
const SENT: usize = 16 << 10;

/// Answers every request of a connection with the next of `lengths`, sent in pieces: the store.
async fn in_pieces(lengths: Vec<usize>) -> Store {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a client");
        stream.set_nodelay(true).expect("a socket");
        for length in lengths {
            read_head(&mut stream).await.expect("a request");
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
            let answer = [head.into_bytes(), vec![7; length]].concat();
            for piece in answer.chunks(SENT) {
                stream.write_all(piece).await.expect("sent");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
        read_head(&mut stream).await;
    });
    store(port)
}

/// A GET: how many reads the body took, its length, and the connection.
async fn get_counted(store: &Store, connection: Connection) -> (usize, usize, Connection) {
    let (head, body) = (store.request(0, &Call::get("k")).head, RequestBody::none());
    let mut response = connection.send(head, body).await.expect("an answer");
    let (mut reads, mut length) = (0, 0);
    while response.read(|data| length += data.len()).await.expect("more") {
        reads += 1;
    }
    (reads, length, response.into_connection().expect("it goes on"))
}

#[test]
fn a_long_body_wakes_its_reader_seldom() {
    run(async {
        let length = 2 << 20;
        let store = in_pieces(vec![length, 5, length]).await;
        let mut connection = Connection::open(&store, 0, LONG).await.expect("open");
        for wanted in [length, 5, length] {
            let (reads, read, open) = get_counted(&store, connection).await;
            assert_eq!(read, wanted);
            // 128 pieces, of which the last few are waited for one by one.
            assert!(reads <= 2 + length / (128 << 10) + 6, "{reads}");
            connection = open;
        }
    });
}

#[test]
fn a_body_of_any_length_is_read_to_its_end() {
    run(async {
        let edges = [64 << 10, 96 << 10, 128 << 10, 160 << 10, 176 << 10, 288 << 10];
        let lengths: Vec<usize> = edges.iter().flat_map(|at| [at - 1, *at, at + 1]).collect();
        let store = in_pieces(lengths.clone()).await;
        let mut connection = Connection::open(&store, 0, LONG).await.expect("open");
        for wanted in lengths {
            let asked = tokio::time::timeout(LONG / 2, get_counted(&store, connection)).await;
            let (_, read, open) = asked.expect("the reader is woken");
            assert_eq!(read, wanted);
            connection = open;
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

/// TLS keeps the begin of a record, up to 16 KiB of plain text, off the socket.
#[test]
fn what_wakes_is_always_still_to_come() {
    for left in (0..1 << 20).step_by(7) {
        let at = u64::from(response::wake_at(left));
        assert!(at == 1 || at + (17 << 10) <= left, "{left}: {at}");
    }
}
