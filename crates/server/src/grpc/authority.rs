//! Names of Unix sockets in requests, as the stubs of gRPC's C core send them.
//!
//! The stubs for Python, C++, Ruby and PHP that are given `unix:/run/s` name that path in every request, percent-encoded:
//! `:authority: run%2Fs`. HTTP has no such name, so the transport would end the stream without a word. Nobody asks by which
//! name a Unix socket was called, so the percent signs become hyphens before the transport reads them.
//!
//! *Invariant:* nothing changes but percent signs in an `:authority`, and no byte is added or taken away: what the client's
//! table of header fields has (RFC 7541) stays as long as what the transport has. What is not understood passes as it is.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tonic::transport::server::Connected;

use super::delegate::write_to_connection;

/// What a connection begins with that speaks HTTP/2 (RFC 9113, 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// Bytes of a frame's head, and of the priority that a HEADERS frame may have.
const FRAME_HEADER_BYTES: usize = 9;
const PRIORITY_BYTES: usize = 5;

/// The field, and its place in the table that all connections begin with.
const AUTHORITY: &[u8] = b":authority";
const AUTHORITY_INDEX: usize = 1;

/// A connection that may name a Unix socket in any way.
pub(super) struct AnyAuthority<S> {
    connection: S,
    scanner: Scanner,
}

impl<S> AnyAuthority<S> {
    pub(super) fn new(connection: S) -> Self {
        Self {
            connection,
            scanner: Scanner::default(),
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AnyAuthority<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.connection).poll_read(cx, buffer))?;
        self.scanner.pass(&mut buffer.filled_mut()[before..]);
        Poll::Ready(Ok(()))
    }
}

write_to_connection!(AnyAuthority);

impl<S: Connected> Connected for AnyAuthority<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.connection.connect_info()
    }
}

/// Follows what a client sends, in pieces of any size.
#[derive(Debug, Default)]
struct Scanner {
    place: Place,
    field: Field,
}

/// Where in its frames a connection is.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// So many bytes of the preface are read.
    Preface(usize),
    /// Not HTTP/2, or not in a way that is understood: all that follows passes.
    Foreign,
    /// So many bytes of a frame's head are read.
    Head([u8; FRAME_HEADER_BYTES], usize),
    /// The length of the padding comes, in a payload of so many bytes.
    Padding { left: usize, priority: usize },
    /// The priority comes.
    Priority {
        left: usize,
        priority: usize,
        padding: usize,
    },
    /// Header fields come, and padding after them.
    Fields { left: usize, padding: usize },
    /// Nothing that matters for so many bytes.
    Rest(usize),
}

impl Default for Place {
    fn default() -> Self {
        Self::Preface(0)
    }
}

/// Where in a list of header fields a connection is.
#[derive(Clone, Copy, Debug, Default)]
enum Field {
    /// A field begins.
    #[default]
    First,
    /// The rest of a number, and what it is.
    Number { value: usize, shift: u32, what: Number },
    /// A text's length comes.
    Length(Text),
    /// A name, of which so many bytes are left, and how many are those of `:authority`.
    Name { left: usize, same: Option<usize> },
    /// A value, of which so many bytes are left; `is_name` if it is an authority that can be read.
    Value { left: usize, is_name: bool },
}

/// What a number means.
#[derive(Clone, Copy, Debug)]
enum Number {
    /// It names a field, or the size of a table: nothing follows.
    Whole,
    /// It names the name of a field, if it is not 0.
    NameIndex,
    /// It is the length of a text, which is compressed or not.
    Length(Text, bool),
}

/// A text of a field.
#[derive(Clone, Copy, Debug)]
enum Text {
    Name,
    /// The value; whether the name is `:authority`.
    Value(bool),
}

impl Scanner {
    fn pass(&mut self, bytes: &mut [u8]) {
        let mut rest = bytes;
        while !rest.is_empty() {
            let length = match self.place {
                Place::Foreign => return,
                Place::Rest(left) => left.min(rest.len()),
                Place::Preface(_)
                | Place::Head(..)
                | Place::Padding { .. }
                | Place::Priority { .. }
                | Place::Fields { .. } => 1,
            };
            let (piece, others) = rest.split_at_mut(length);
            self.place = self.advance(piece);
            rest = others;
        }
    }

    /// Goes on over the next byte, or over many that do not matter.
    fn advance(&mut self, piece: &mut [u8]) -> Place {
        let byte = piece[0];
        match self.place {
            Place::Foreign => Place::Foreign,
            Place::Preface(read) if byte != PREFACE[read] => Place::Foreign,
            Place::Preface(read) if read + 1 == PREFACE.len() => Place::Head([0; FRAME_HEADER_BYTES], 0),
            Place::Preface(read) => Place::Preface(read + 1),
            Place::Head(mut head, read) => {
                head[read] = byte;
                if read + 1 < FRAME_HEADER_BYTES {
                    return Place::Head(head, read + 1);
                }
                self.payload(head)
            }
            Place::Padding { left, priority } => {
                let padding = usize::from(byte);
                prefixed(left.saturating_sub(1), priority, padding)
            }
            Place::Priority {
                left,
                priority,
                padding,
            } => prefixed(left.saturating_sub(1), priority - 1, padding),
            Place::Fields { left, padding } => match self.field.advance(&mut piece[0]) {
                Some(field) => {
                    self.field = field;
                    fields(left - 1, padding)
                }
                None => Place::Foreign,
            },
            Place::Rest(left) => rest(left - piece.len()),
        }
    }

    fn payload(&mut self, head: [u8; FRAME_HEADER_BYTES]) -> Place {
        let [high, middle, low, kind, flags, ..] = head;
        let left = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        match kind {
            HEADERS => {
                self.field = Field::First;
                let priority = if flags & PRIORITY == 0 { 0 } else { PRIORITY_BYTES };
                if flags & PADDED == 0 {
                    prefixed(left, priority, 0)
                } else if left == 0 {
                    Place::Foreign
                } else {
                    Place::Padding { left, priority }
                }
            }
            CONTINUATION => fields(left, 0),
            _ => rest(left),
        }
    }
}

/// Returns what comes before the header fields of a frame, if anything does.
fn prefixed(left: usize, priority: usize, padding: usize) -> Place {
    match left.checked_sub(priority + padding) {
        None => Place::Foreign,
        Some(block) if priority == 0 => fields(block, padding),
        Some(_) => Place::Priority {
            left,
            priority,
            padding,
        },
    }
}

fn fields(left: usize, padding: usize) -> Place {
    match left {
        0 => rest(padding),
        _ => Place::Fields { left, padding },
    }
}

fn rest(left: usize) -> Place {
    match left {
        0 => Place::Head([0; FRAME_HEADER_BYTES], 0),
        _ => Place::Rest(left),
    }
}

impl Field {
    /// Goes on over the next byte; nothing if it makes no sense.
    fn advance(self, byte: &mut u8) -> Option<Self> {
        match self {
            Self::First => {
                let (bits, what) = match *byte {
                    0x80.. => (7, Number::Whole),
                    0x40.. => (6, Number::NameIndex),
                    0x20.. => (5, Number::Whole),
                    _ => (4, Number::NameIndex),
                };
                Self::number(*byte, bits, what)
            }
            Self::Number { value, shift, what } => {
                let more = usize::from(*byte & 0x7f).checked_mul(1_usize.checked_shl(shift)?)?;
                let value = value.checked_add(more)?;
                match *byte & 0x80 {
                    0 => Some(Self::from_number(value, what)),
                    // No number that is taken is longer.
                    _ if shift > 21 => None,
                    _ => Some(Self::Number {
                        value,
                        shift: shift + 7,
                        what,
                    }),
                }
            }
            Self::Length(text) => Self::number(*byte, 7, Number::Length(text, *byte & 0x80 != 0)),
            Self::Name { left, same } => {
                let same = same.filter(|&at| AUTHORITY.get(at) == Some(byte)).map(|at| at + 1);
                Some(Self::name(left - 1, same))
            }
            Self::Value { left, is_name } => {
                if is_name && *byte == b'%' {
                    *byte = b'-';
                }
                Some(Self::value(left - 1, is_name))
            }
        }
    }

    /// Reads a number that begins in the last bits of a byte.
    fn number(byte: u8, bits: u32, what: Number) -> Option<Self> {
        let most = (1_u8 << bits) - 1;
        let value = usize::from(byte & most);
        Some(match byte & most == most {
            true => Self::Number { value, shift: 0, what },
            false => Self::from_number(value, what),
        })
    }

    fn from_number(value: usize, what: Number) -> Self {
        match what {
            Number::Whole => Self::First,
            Number::NameIndex if value == 0 => Self::Length(Text::Name),
            Number::NameIndex => Self::Length(Text::Value(value == AUTHORITY_INDEX)),
            Number::Length(Text::Name, is_compressed) => Self::name(value, (!is_compressed).then_some(0)),
            Number::Length(Text::Value(is_name), is_compressed) => Self::value(value, is_name && !is_compressed),
        }
    }

    fn name(left: usize, same: Option<usize>) -> Self {
        match left {
            0 => Self::Length(Text::Value(same == Some(AUTHORITY.len()))),
            _ => Self::Name { left, same },
        }
    }

    fn value(left: usize, is_name: bool) -> Self {
        match left {
            0 => Self::First,
            _ => Self::Value { left, is_name },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = length[1..].to_vec();
        frame.extend([kind, flags, 0, 0, 0, 1]);
        frame.extend(payload);
        frame
    }

    /// A field whose name is written out, to be kept in the table.
    fn literal(name: &str, value: &str) -> Vec<u8> {
        let mut field = vec![0x40];
        for text in [name, value] {
            assert!(text.len() < 127);
            field.push(u8::try_from(text.len()).unwrap());
            field.extend(text.as_bytes());
        }
        field
    }

    /// Passes a connection on in pieces, and returns it as it leaves.
    fn passed(bytes: &[u8], size: usize) -> Vec<u8> {
        let mut scanner = Scanner::default();
        let mut bytes = bytes.to_vec();
        for piece in bytes.chunks_mut(size) {
            scanner.pass(piece);
        }
        bytes
    }

    /// Checks what becomes of frames after the preface.
    fn check(frames: &[Vec<u8>], expected: &[Vec<u8>]) {
        let whole = |frames: &[Vec<u8>]| [PREFACE, &frames.concat()].concat();
        for size in [1, 2, 7, 1000] {
            assert_eq!(passed(&whole(frames), size), whole(expected), "in pieces of {size}");
        }
    }

    #[test]
    fn only_the_name_of_the_socket_changes() {
        let settings = frame(4, 0, &[0, 3, 0, 0, 0, 100]);
        let others = [
            // `:method: POST` and `:scheme: http` of the table, a new size of it, a path in full.
            vec![0x83, 0x86, 0x3f, 0xe1, 0x1f],
            literal(":path", "/a%2Fb"),
        ]
        .concat();
        let block = |name: &str| [others.clone(), literal(":authority", name), literal("x-note", "100%")].concat();
        let (sent, got) = (block("run%2Fs%20t"), block("run-2Fs-20t"));
        let data = frame(0, 1, &literal(":authority", "a%2Fb"));
        check(
            &[settings.clone(), frame(HEADERS, 4, &sent), data.clone()],
            &[settings, frame(HEADERS, 4, &got), data],
        );

        // By its place in the table, of one that is not to be kept, after a field that begins with a long number.
        let indexed = |name: &[u8]| [&[0x7f, 0x80, 0x01, 1, b'%', 0x11, 5], name].concat();
        check(
            &[frame(HEADERS, 4, &indexed(b"a%2Fb"))],
            &[frame(HEADERS, 4, &indexed(b"a-2Fb"))],
        );

        // Padded, with a priority, and in two frames.
        let prefixed = |block: &[u8]| [&[3, 0, 0, 0, 0, 9], block, &[b'%'; 3]].concat();
        for cut in 0..sent.len() {
            let split = |block: &[u8]| {
                let first = frame(HEADERS, PADDED | PRIORITY, &prefixed(&block[..cut]));
                vec![first, frame(CONTINUATION, 4, &block[cut..])]
            };
            check(&split(&sent), &split(&got));
        }
    }

    #[test]
    fn what_is_not_understood_passes() {
        let field = literal(":authority", "a%2Fb");
        let http1 = b"GET /a%2Fb HTTP/1.1\r\nHost: %2F\r\n\r\n".to_vec();
        assert_eq!(passed(&http1, 3), http1);
        // More padding than payload, a number without an end.
        for frames in [
            [frame(HEADERS, PADDED, &[200]), frame(HEADERS, 4, &field)],
            [frame(HEADERS, 4, &[0xff; 12]), frame(HEADERS, 4, &field)],
        ] {
            check(&frames, &frames);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_end_it(bytes in proptest::collection::vec(any::<u8>(), 0..300), size in 1usize..50) {
            let sent = [PREFACE, &bytes].concat();
            let got = passed(&sent, size);
            prop_assert_eq!(got.len(), sent.len());
            for (before, after) in sent.iter().zip(&got) {
                prop_assert!(before == after || (*before, *after) == (b'%', b'-'));
            }
        }
    }
}
