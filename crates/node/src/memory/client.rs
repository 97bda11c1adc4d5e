//! A controller's side of the set-up channel.

use pointsman_roce::setup::{GreetingError, LineError, MAX_LINE, Memory, Reply, Request, Secret, Session};
use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::time::Duration;
use std::{fmt, io};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to a memory server. Calls wait for the answer.
#[derive(Debug)]
pub struct Client {
    at: SocketAddr,
    stream: BufReader<TcpStream>,
    session: Session,
}

/// Why a memory server did not do what was asked for.
#[derive(Debug)]
pub enum ClientError {
    /// Not connected, or the connection is lost.
    Lost(SocketAddr, io::Error),
    /// It is not a memory server that this controller can use.
    Greeting(SocketAddr, GreetingError),
    /// It said something else than an answer.
    Foreign(SocketAddr, LineError),
    /// It refused.
    Refused(SocketAddr, String),
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Lost(at, e) => {
                write!(f, "memory server {at}: {e}; is `pointsman memory --listen {at}` running?")
            }
            ClientError::Greeting(at, e) => write!(f, "memory server {at}: {e}"),
            ClientError::Foreign(at, e) => write!(f, "memory server {at}: {e}"),
            ClientError::Refused(at, why) => write!(f, "memory server {at}: {why}"),
        }
    }
}

impl Error for ClientError {}

fn read(stream: &mut BufReader<TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    stream.take(MAX_LINE as u64 + 1).read_line(&mut line)?;
    match line.strip_suffix('\n') {
        Some(line) => Ok(line.to_string()),
        None => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended")),
    }
}

impl Client {
    /// Connects from the calling thread's network namespace.
    ///
    /// # Errors
    /// No answer from a memory server at this address, or only one side has a secret.
    pub fn connect(at: SocketAddr, secret: Option<Secret>) -> Result<Self, ClientError> {
        let lost = |e| ClientError::Lost(at, e);
        let stream = TcpStream::connect_timeout(&at, PATIENCE).map_err(lost)?;
        stream.set_nodelay(true).map_err(lost)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
        let mut stream = BufReader::new(stream);
        let greeting = read(&mut stream).map_err(lost)?;
        let session = Session::greeted(&greeting, secret).map_err(|e| ClientError::Greeting(at, e))?;
        Ok(Client { at, stream, session })
    }

    fn ask(&mut self, request: &Request) -> Result<Reply, ClientError> {
        let lost = |e| ClientError::Lost(self.at, e);
        let line = self.session.line(request) + "\n";
        self.stream.get_mut().write_all(line.as_bytes()).map_err(lost)?;
        let reply = read(&mut self.stream).map_err(lost)?;
        match reply.parse().map_err(|e| ClientError::Foreign(self.at, e))? {
            Reply::Refused(why) => Err(ClientError::Refused(self.at, why)),
            reply => Ok(reply),
        }
    }

    fn unexpected(&self, reply: &Reply) -> ClientError {
        ClientError::Refused(self.at, format!("unexpected answer `{reply}`"))
    }

    /// The server's memory. To be called at least once a minute: a controller that says nothing is taken for gone.
    ///
    /// # Errors
    /// The connection is lost.
    pub fn memory(&mut self) -> Result<Memory, ClientError> {
        match self.ask(&Request::Memory)? {
            Reply::Memory(memory) => Ok(memory),
            other => Err(self.unexpected(&other)),
        }
    }

    /// A queue pair for the requester's `peer` at this address, whose first packet has the number `psn`.
    ///
    /// # Errors
    /// The server refuses, or the connection is lost.
    pub fn pair(&mut self, peer: u32, psn: u32, from: IpAddr) -> Result<u32, ClientError> {
        match self.ask(&Request::Pair { peer, psn, from })? {
            Reply::Pair(pair) => Ok(pair),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Ends a queue pair.
    ///
    /// # Errors
    /// The server refuses, or the connection is lost.
    pub fn remove(&mut self, pair: u32) -> Result<(), ClientError> {
        match self.ask(&Request::Remove(pair))? {
            Reply::Removed => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }
}
