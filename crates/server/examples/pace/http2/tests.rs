use super::*;

const STATUS_200: &[u8] = b"\x88";
const GRPC_STATUS_0: &[u8] = b"\x40\x0bgrpc-status\x010";
const GRPC_STATUS_14: &[u8] = b"\x40\x0bgrpc-status\x0214";

/// A client, and what it sends and takes for an answer.
struct Client {
    wire: Http2,
    out: Vec<u8>,
    answers: VecDeque<Answer>,
}

impl Client {
    fn new() -> Self {
        let requests = Requests {
            authority: "127.0.0.1:1".to_owned(),
            path: "/a".to_owned(),
            headers: vec![("content-type".to_owned(), "application/grpc".to_owned())],
            bodies: vec![b"one".to_vec(), b"three".to_vec()],
        };
        Self { wire: Http2::new(&requests), out: Vec::new(), answers: VecDeque::new() }
    }

    fn ask(&mut self, due_ns: u64) {
        self.wire.ask(due_ns, usize::try_from(due_ns).unwrap(), &mut self.out);
    }

    /// Takes a frame byte by byte, as a network may bring it.
    fn hear(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let mut frame = Vec::new();
        put_frame(kind, flags, stream, payload, &mut frame);
        for end in 0..frame.len() {
            assert_eq!(self.wire.hear(&frame[..end], &mut self.out, &mut self.answers).unwrap(), 0);
        }
        assert_eq!(self.wire.hear(&frame, &mut self.out, &mut self.answers).unwrap(), frame.len());
    }

    fn sent(&mut self) -> Vec<(u8, u8, u32, Vec<u8>)> {
        let (bytes, mut frames, mut at) = (std::mem::take(&mut self.out), Vec::new(), 0);
        while let Some((head, rest)) = read_head(&bytes[at..]) {
            frames.push((head.kind, head.flags, head.stream, rest[..head.bytes].to_vec()));
            at += FRAME_HEAD + head.bytes;
        }
        frames
    }
}

#[test]
fn calls_have_odd_numbers_and_bodies_in_turn() {
    let mut client = Client::new();
    client.ask(0);
    client.ask(1);
    let sent = client.sent();
    assert_eq!(sent[0].3, client.wire.first_fields);
    assert_eq!(sent[1], (DATA, END_STREAM, 1, b"one".to_vec()));
    assert_eq!(sent[2], (HEADERS, END_HEADERS, 3, client.wire.other_fields.clone()));
    assert_eq!(sent[3], (DATA, END_STREAM, 3, b"three".to_vec()));
}

#[test]
fn answers_find_their_calls_in_any_order() {
    let mut client = Client::new();
    (0..3).for_each(|due_ns| client.ask(due_ns));
    for (stream, trailers) in [(5, GRPC_STATUS_0), (1, GRPC_STATUS_14)] {
        client.hear(HEADERS, END_HEADERS, stream, STATUS_200);
        client.hear(DATA, 0, stream, b"message");
        client.hear(HEADERS, END_HEADERS | END_STREAM, stream, trailers);
    }
    assert_eq!(client.answers, [Answer { due_ns: 2, is_good: true }, Answer { due_ns: 0, is_good: false }]);
    assert_eq!(client.wire.open_calls(), 1);
    client.hear(RST_STREAM, 0, 3, &[0, 0, 0, 8]);
    client.hear(RST_STREAM, 0, 3, &[0, 0, 0, 8]);
    assert_eq!(client.answers.back(), Some(&Answer { due_ns: 1, is_good: false }));
    assert!(client.wire.calls.is_empty());
}

#[test]
fn an_answer_without_a_grpc_status_is_bad() {
    let mut client = Client::new();
    client.ask(0);
    client.hear(HEADERS, END_HEADERS, 1, STATUS_200);
    client.hear(DATA, END_STREAM, 1, b"message");
    assert_eq!(client.answers, [Answer { due_ns: 0, is_good: false }]);
}

#[test]
fn padding_and_priority_are_skipped() {
    let mut client = Client::new();
    client.ask(0);
    let block = [&[2, 0, 0, 0, 0, 16][..], STATUS_200, GRPC_STATUS_0, &[0, 0]].concat();
    client.hear(HEADERS, END_HEADERS | END_STREAM | PADDED | PRIORITY, 1, &block);
    assert_eq!(client.answers, [Answer { due_ns: 0, is_good: true }]);
}

#[test]
fn settings_and_pings_are_acknowledged() {
    let mut client = Client::new();
    client.hear(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 1]);
    client.hear(PING, 0, 0, b"12345678");
    client.hear(SETTINGS, ACK, 0, &[]);
    assert_eq!(client.sent(), [(SETTINGS, ACK, 0, vec![]), (PING, ACK, 0, b"12345678".to_vec())]);
    client.ask(0);
    assert!(!client.wire.has_room(), "the server allows one call at a time");
}

#[test]
fn a_full_window_leaves_no_room_until_the_server_opens_it() {
    let mut client = Client::new();
    client.wire.window = 6;
    client.ask(0);
    assert!(!client.wire.has_room(), "three bytes are left, and a body may have five");
    client.hear(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 2]);
    assert!(client.wire.has_room());
}

#[test]
fn a_connection_is_over_when_the_server_says_so_or_numbers_run_out() {
    let mut client = Client::new();
    client.wire.stream = STREAM_LAST - 2;
    assert!(client.wire.has_room());
    client.ask(0);
    assert!(client.wire.is_over() && !client.wire.has_room());
    let mut client = Client::new();
    client.hear(GOAWAY, 0, 0, &[0; 8]);
    assert!(client.wire.is_over());
    client.wire.abandon(&mut client.answers);
    assert!(client.answers.is_empty());
}
