//! The query client against a server that answers over a real socket.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Write},
    net::TcpListener,
    thread,
};

use synod_telemetry::{Result, sources::prometheus::PrometheusServer};

/// Answers as many requests as there are bodies, and returns the request lines.
fn serve(status: &'static str, bodies: Vec<String>) -> (String, thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/prom/", listener.local_addr().expect("an address"));
    let server = thread::spawn(move || {
        let answer = |body: String| {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut lines = BufReader::new(stream.try_clone().expect("a stream")).lines();
            let first = lines.next().expect("a line").expect("a line");
            while lines.next().is_some_and(|line| !line.expect("a line").is_empty()) {}
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .expect("sent");
            first
        };
        bodies.into_iter().map(answer).collect()
    });
    (url, server)
}

fn matrix(time: i64) -> String {
    format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[
        {{"metric":{{"__name__":"up","instance":"n1:9100"}},"values":[[{time},"1"]]}}]}}}}"#
    )
}

#[test]
fn long_ranges_are_asked_for_in_parts_that_do_not_overlap() -> Result<()> {
    let (url, server) = serve("200 OK", vec![matrix(0), matrix(150_000), matrix(300_000)]);
    let mut samples = Vec::new();
    let mut sink = |s: synod_telemetry::sources::Sample<'_>| {
        samples.push((s.node.to_owned(), s.time));
        Ok(())
    };
    let report =
        PrometheusServer::new(&url)?.range("up == 1", (0, 300_000), 15, &BTreeMap::new(), &mut sink)?;
    assert_eq!((report.series, report.samples), (1, 3));
    assert_eq!(samples[2], ("n1".to_owned(), 300_000_000));
    let asked = server.join().expect("the server ends");
    let path = "GET /prom/api/v1/query_range?query=up%20%3D%3D%201&start=";
    assert_eq!(
        asked,
        ["0&end=149985", "150000&end=299985", "300000&end=300000"]
            .map(|rest| format!("{path}{rest}&step=15 HTTP/1.1"))
    );
    Ok(())
}

#[test]
fn what_the_server_refuses_is_said_in_its_words() -> Result<()> {
    let refusal = r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#;
    let (url, server) = serve("400 Bad Request", vec![refusal.to_owned()]);
    let error = PrometheusServer::new(&url)?
        .kinds()
        .expect_err("refused")
        .to_string();
    assert!(
        error.contains("parse error") && error.contains("127.0.0.1"),
        "{error}"
    );
    server.join().expect("the server ends");
    let (url, server) = serve("404 Not Found", vec![String::new()]);
    let error = PrometheusServer::new(&url)?
        .kinds()
        .expect_err("not found")
        .to_string();
    assert!(error.contains("404"), "{error}");
    server.join().expect("the server ends");
    Ok(())
}

#[test]
fn a_server_that_is_not_there_is_an_error() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    assert!(PrometheusServer::new(&url)?.kinds().is_err());
    assert!(PrometheusServer::new("https://secure").is_err());
    Ok(())
}
