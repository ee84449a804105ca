//! As much of HTTP/1.1 as asking a Prometheus server takes: one GET per connection, without TLS.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpStream, ToSocketAddrs},
    time::Duration,
};

const MAX_HEAD: u64 = 64 << 10;

/// An address of the form `http://host:port/prefix`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    /// Host and port as they go into the `Host` header.
    pub(super) authority: String,
    /// What every path begins with, without a `/` at its end.
    prefix: String,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Address, String> {
        let rest = url
            .strip_prefix("http://")
            .ok_or("the address does not begin with http://")?;
        let (authority, prefix) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '@' | '"' | '\\');
        if authority.is_empty() || !rest.chars().all(plain) {
            return Err("the address names no host, or has characters that do not belong there".to_owned());
        }
        let bare = authority.rsplit(']').next().unwrap_or_default();
        let port = if bare.contains(':') { "" } else { ":80" };
        Ok(Address {
            authority: format!("{authority}{port}"),
            prefix: prefix.trim_end_matches('/').to_owned(),
        })
    }
}

/// Fetches a path; the error says what went wrong. At most `limit` bytes are accepted as an answer.
pub(super) fn get(
    address: &Address,
    path: &str,
    timeout: Duration,
    limit: u64,
) -> Result<(u16, Vec<u8>), String> {
    let wrong = |e: std::io::Error| e.to_string();
    let mut last = "the name has no address".to_owned();
    for socket in address.authority.to_socket_addrs().map_err(wrong)? {
        match TcpStream::connect_timeout(&socket, timeout) {
            Ok(mut stream) => {
                stream.set_read_timeout(Some(timeout)).map_err(wrong)?;
                stream.set_write_timeout(Some(timeout)).map_err(wrong)?;
                let request = format!(
                    "GET {}{path} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\nConnection: close\r\n\r\n",
                    address.prefix, address.authority
                );
                stream.write_all(request.as_bytes()).map_err(wrong)?;
                return response(BufReader::new(stream), limit);
            }
            Err(e) => last = e.to_string(),
        }
    }
    Err(last)
}

/// Reads an answer: its status and its body.
fn response(mut reader: impl BufRead, limit: u64) -> Result<(u16, Vec<u8>), String> {
    let mut head = (&mut reader).take(MAX_HEAD);
    let status = line(&mut head)?;
    let mut words = status.split(' ');
    let http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let code = words.next().and_then(|code| code.parse().ok()).filter(|_| http);
    let code = code.ok_or_else(|| format!("{status:?} is no HTTP answer"))?;
    let (mut length, mut chunked) = (None, false);
    loop {
        let header = line(&mut head)?;
        if header.is_empty() {
            break;
        }
        let Some((name, value)) = header.split_once(':') else {
            return Err(format!("{header:?} is no header"));
        };
        if name.eq_ignore_ascii_case("content-length") {
            length = Some(
                value
                    .trim()
                    .parse::<u64>()
                    .map_err(|_| "the length is not a number")?,
            );
        } else if name.eq_ignore_ascii_case("transfer-encoding") {
            chunked = value.trim().eq_ignore_ascii_case("chunked");
        }
    }
    let mut body = Vec::new();
    if chunked {
        chunks(&mut reader, limit, &mut body)?;
        return Ok((code, body));
    }
    if length.is_some_and(|length| length > limit) {
        return Err(format!("the answer is longer than {limit} bytes"));
    }
    let read = (&mut reader)
        .take(length.unwrap_or(limit + 1))
        .read_to_end(&mut body);
    read.map_err(|e| e.to_string())?;
    match length {
        Some(length) if body.len() as u64 != length => Err("the answer breaks off".to_owned()),
        None if body.len() as u64 > limit => Err(format!("the answer is longer than {limit} bytes")),
        _ => Ok((code, body)),
    }
}

fn chunks(reader: &mut impl BufRead, limit: u64, body: &mut Vec<u8>) -> Result<(), String> {
    loop {
        let head = line(&mut (&mut *reader).take(MAX_HEAD))?;
        let size = head.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| format!("{head:?} is no chunk"))?;
        if size == 0 {
            return Ok(());
        }
        if size > limit.saturating_sub(body.len() as u64) {
            return Err(format!("the answer is longer than {limit} bytes"));
        }
        let read = (&mut *reader)
            .take(size)
            .read_to_end(body)
            .map_err(|e| e.to_string())?;
        if read as u64 != size || !line(&mut (&mut *reader).take(2))?.is_empty() {
            return Err("the answer breaks off".to_owned());
        }
    }
}

fn line(reader: &mut impl BufRead) -> Result<String, String> {
    let mut bytes = Vec::new();
    reader.read_until(b'\n', &mut bytes).map_err(|e| e.to_string())?;
    if bytes.pop() != Some(b'\n') {
        return Err("the answer breaks off".to_owned());
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A text as part of a query.
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 3);
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_get_a_port_and_lose_their_last_slash() {
        let parts = |url| Address::parse(url).map(|a| (a.authority, a.prefix));
        assert_eq!(parts("http://h"), Ok(("h:80".into(), "".into())));
        assert_eq!(
            parts("http://[::1]:9090/p/"),
            Ok(("[::1]:9090".into(), "/p".into()))
        );
        for wrong in ["https://h", "h:9090", "http://", "http://h\r\nX: y", "http://u@h"] {
            assert!(parts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bodies_come_with_a_length_in_chunks_or_until_the_end() {
        let body = |text: &str| {
            response(text.as_bytes(), 10).map(|(code, body)| (code, String::from_utf8(body).expect("text")))
        };
        let ok = Ok((200, "hello".to_owned()));
        assert_eq!(
            body("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello and more"),
            ok
        );
        assert_eq!(
            body("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\n\r\n"),
            ok
        );
        assert_eq!(body("HTTP/1.0 200 OK\r\n\r\nhello"), ok);
        for wrong in [
            "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhe",
            "HTTP/1.0 200 OK\r\n\r\nhello world",
            "SSH-2.0\r\n",
            "",
        ] {
            assert!(body(wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn no_answer_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), head in any::<bool>()) {
            let mut answer = if head { b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec() } else { Vec::new() };
            answer.extend(bytes);
            let _ = response(answer.as_slice(), 100);
        }
    }
}
