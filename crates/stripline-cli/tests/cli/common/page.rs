//! A running `stripline web`, and requests to it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use rustix::process::Signal;

use super::waveform::File;
use super::{TIMEOUT, send, stripline};

/// A page. The server is killed when the value is dropped.
pub struct Page {
    child: Child,
    pub port: u16,
    pub token: String,
    #[allow(dead_code, reason = "of the tests in a browser, which are a feature")]
    pub url: String,
}

/// A response of the server.
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Page {
    /// Starts the command and waits until it serves.
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = stripline();
        command.arg("web").args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim_end().to_string();
        let rest = url.strip_prefix("http://127.0.0.1:").unwrap_or_else(|| panic!("no address: {line}"));
        let (port, token) = rest.split_once("/#token=").unwrap();
        let (port, token) = (port.parse().unwrap(), token.to_string());
        Self { child, port, token, url }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the number of threads that serve clients.
    pub fn clients(&self) -> usize {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let names = threads.filter_map(|it| std::fs::read_to_string(it.ok()?.path().join("comm")).ok());
        names.filter(|name| name.trim_end() == "stripline-web").count()
    }

    /// Returns the header field with the host.
    pub fn host(&self) -> String {
        format!("Host: 127.0.0.1:{}\r\n", self.port)
    }

    /// Returns the header field with the token.
    pub fn pass(&self) -> String {
        format!("Authorization: Bearer {}\r\n", self.token)
    }

    /// Returns the header field that the page adds to requests.
    pub fn origin(&self) -> String {
        format!("Origin: http://127.0.0.1:{}\r\n", self.port)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        stream
    }

    /// Sends a whole request, and reads the whole response.
    pub fn request(&self, text: &str) -> Response {
        let mut stream = self.connect();
        // A refusal may arrive before the whole request is sent.
        let _ = stream.write_all(text.as_bytes());
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        let text = String::from_utf8(bytes).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no response: {text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Response { status, head: format!("{head}\r\n"), body: body.into() }
    }

    pub fn get(&self, path: &str) -> Response {
        self.request(&format!("GET {path} HTTP/1.1\r\n{}{}\r\n", self.host(), self.pass()))
    }

    pub fn post(&self, path: &str, origin: &str, content_type: &str, body: &str) -> Response {
        let (host, pass, length) = (self.host(), self.pass(), body.len());
        self.request(&format!(
            "POST {path} HTTP/1.1\r\n{host}{pass}{origin}Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
        ))
    }

    /// Sends a request or a part of it, and reads nothing.
    pub fn open(&self, text: &str) -> TcpStream {
        let mut stream = self.connect();
        stream.write_all(text.as_bytes()).unwrap();
        stream
    }

    /// Opens the stream of events, and reads nothing from it.
    pub fn open_events(&self, file: &File, port: Option<&str>) -> TcpStream {
        let port = port.map_or(String::new(), |port| format!("&port={port}"));
        let (name, host, pass) = (&file.name, self.host(), self.pass());
        self.open(&format!("GET /events?waveform={name}{port} HTTP/1.1\r\n{host}{pass}\r\n"))
    }

    /// Ends the server with Ctrl-C. Returns the exit code.
    pub fn interrupt(mut self) -> Option<i32> {
        send(self.child.id(), Signal::INT);
        self.child.wait().unwrap().code()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
