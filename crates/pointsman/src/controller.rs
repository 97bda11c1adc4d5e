//! `pointsman controller`: carries the controller's messages over gRPC, and its configuration from the file.

use crate::console::say;
use crate::rack_file;
use crate::sources::{self, Sources};
use pointsman_balance::config::Program as ProgramName;
use pointsman_balance::controller::{Controller, Event, Input, Output, Program, Request, Response, Status};
use pointsman_control::p4info::p4info;
use pointsman_control::proto::p4rt;
use pointsman_control::proto::p4rt::p4_runtime_client::P4RuntimeClient;
use pointsman_control::{Code, RpcError};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{mpsc, watch};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::{Channel, Endpoint};

/// How long a connection attempt and a request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How often the file is looked at for changes.
const WATCH: Duration = Duration::from_millis(500);

/// Install a rack's description on its switch and keep it there.
#[derive(clap::Args)]
pub struct Args {
    /// The rack's description. Changes to it are applied as they are made, or at SIGHUP.
    rack: PathBuf,
    /// Only check the description.
    #[arg(long)]
    check: bool,
}

/// What happened to a connection, with its number: news of connections given up are ignored.
enum News {
    Up(u64, Connection),
    Input(u64, Input),
}

/// A live connection.
struct Connection {
    client: P4RuntimeClient<Channel>,
    stream: mpsc::UnboundedSender<p4rt::StreamMessageRequest>,
}

/// The program of a rack, compiled: its text for the switch, its P4Info for the controller.
pub fn program(name: &ProgramName) -> Result<Program, String> {
    let (path, text) = match name {
        ProgramName::BuiltIn => ("balancer".to_string(), sources::balancer()),
        ProgramName::File(file) => {
            let path = Path::new(file);
            let text = sources::flatten_file(path, &Sources::default(), &[])
                .map_err(|e| format!("switch.program: cannot read {file}: {e}"))?;
            (file.clone(), text)
        }
    };
    let compiled = crate::compiler::compile(&path, &text, &Sources::default(), &[])
        .map_err(|failure| crate::compiler::rendered(&failure))?;
    let p4info = p4info(&compiled.program).map_err(|e| format!("{path}: {e}"))?;
    Ok(Program { p4info, device_config: text.into_bytes() })
}

/// How a controller stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Whether the switch holds what is known.
    pub status: Status,
    /// How many MAC addresses are not known yet.
    pub unresolved: usize,
}

impl Standing {
    /// Before it has done anything.
    pub const START: Self = Standing { status: Status::Disconnected, unresolved: 0 };

    /// Whether all that is configured works, from the first packet on.
    pub fn is_complete(&self) -> bool {
        self.status == Status::InSync && self.unresolved == 0
    }
}

/// Runs a controller until `inputs` ends. `status` follows how it stands; `tell` gets its events.
pub async fn pump(
    mut controller: Controller,
    mut inputs: mpsc::UnboundedReceiver<Input>,
    status: watch::Sender<Standing>,
    mut tell: impl FnMut(&Event),
) {
    let start = Instant::now();
    let (news_tx, mut news) = mpsc::unbounded_channel();
    let mut number = 0u64;
    let mut connection: Option<Connection> = None;
    loop {
        let wait = async {
            match controller.next_deadline() {
                Some(at) => tokio::time::sleep_until((start + at).into()).await,
                None => std::future::pending().await,
            }
        };
        let input = tokio::select! {
            biased;
            input = inputs.recv() => match input {
                Some(input) => input,
                None => return,
            },
            Some(item) = news.recv() => match item {
                News::Up(n, live) if n == number => {
                    connection = Some(live);
                    Input::Connected
                }
                News::Input(n, input) if n == number => input,
                _ => continue,
            },
            () = wait => Input::Tick,
        };
        for output in controller.step(start.elapsed(), input) {
            match output {
                Output::Connect(address) => {
                    number += 1;
                    connection = None;
                    tokio::spawn(connect(address, number, news_tx.clone()));
                }
                Output::Disconnect => {
                    number += 1;
                    connection = None;
                }
                Output::Send(message) => {
                    if let Some(live) = &connection {
                        // A dead channel is reported by its reader.
                        let _ = live.stream.send(message);
                    }
                }
                Output::Request { id, request } => {
                    if let Some(live) = &connection {
                        let (client, news, n) = (live.client.clone(), news_tx.clone(), number);
                        tokio::spawn(async move {
                            let result = perform(client, request).await;
                            let _ = news.send(News::Input(n, Input::Response { id, result }));
                        });
                    }
                }
                Output::Event(event) => tell(&event),
            }
        }
        // Nobody may be watching.
        status.send_replace(Standing {
            status: controller.status(),
            unresolved: controller.unresolved().len(),
        });
    }
}

/// Connects, opens the stream channel and passes on what comes down it.
async fn connect(address: String, number: u64, news: mpsc::UnboundedSender<News>) {
    let lost = |reason: String| News::Input(number, Input::Disconnected(reason));
    let attempt = async {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .map_err(|e| format!("switch.p4runtime = \"{address}\" is no address: {e}"))?;
        let channel =
            endpoint.connect_timeout(PATIENCE).tcp_nodelay(true).connect().await.map_err(|e| reason(&e))?;
        let mut client = P4RuntimeClient::new(channel)
            .max_decoding_message_size(crate::switch::grpc::MAX_MESSAGE_BYTES)
            .max_encoding_message_size(crate::switch::grpc::MAX_MESSAGE_BYTES);
        let (stream, requests) = mpsc::unbounded_channel();
        let responses = client
            .stream_channel(UnboundedReceiverStream::new(requests))
            .await
            .map_err(|e| e.message().to_string())?
            .into_inner();
        Ok::<_, String>((Connection { client, stream }, responses))
    };
    match tokio::time::timeout(PATIENCE, attempt).await {
        Ok(Ok((live, mut responses))) => {
            if news.send(News::Up(number, live)).is_err() {
                return;
            }
            loop {
                let item = match responses.next().await {
                    Some(Ok(message)) => News::Input(number, Input::Stream(message)),
                    Some(Err(status)) => lost(status.message().to_string()),
                    None => lost("the switch closed the connection".into()),
                };
                let over = matches!(item, News::Input(_, Input::Disconnected(_)));
                if news.send(item).is_err() || over {
                    return;
                }
            }
        }
        Ok(Err(reason)) => {
            let _ = news.send(lost(reason));
        }
        Err(_) => {
            let _ = news.send(lost(format!("no answer within {} s", PATIENCE.as_secs())));
        }
    }
}

/// The innermost reason of an error: gRPC's outer ones say only "transport error".
fn reason(error: &dyn std::error::Error) -> String {
    let mut inner = error;
    while let Some(next) = inner.source() {
        inner = next;
    }
    inner.to_string()
}

async fn perform(mut client: P4RuntimeClient<Channel>, request: Request) -> Result<Response, RpcError> {
    let call = async {
        Ok(match request {
            Request::GetPipeline(r) => {
                Response::GetPipeline(Box::new(client.get_forwarding_pipeline_config(r).await?.into_inner()))
            }
            Request::SetPipeline(r) => {
                client.set_forwarding_pipeline_config(*r).await?;
                Response::SetPipeline
            }
            Request::Write(r) => {
                client.write(r).await?;
                Response::Write
            }
            Request::Read(r) => {
                let mut stream = client.read(r).await?.into_inner();
                let mut entities = Vec::new();
                while let Some(message) = stream.message().await? {
                    entities.extend(message.entities);
                }
                Response::Read(entities)
            }
        })
    };
    match tokio::time::timeout(PATIENCE, call).await {
        Ok(result) => result.map_err(|status: tonic::Status| RpcError::from(status)),
        Err(_) => Err(RpcError::new(Code::Unavailable, format!("no answer within {} s", PATIENCE.as_secs()))),
    }
}

/// Sends the rack again whenever its file or that of its keys changes or SIGHUP comes. A file that is wrong is told of and changes nothing.
async fn follow(path: PathBuf, mut keys: Option<PathBuf>, inputs: mpsc::UnboundedSender<Input>) {
    let of = |path: &Path| -> Option<(SystemTime, u64)> {
        let meta = std::fs::metadata(path).ok()?;
        Some((meta.modified().ok()?, meta.len()))
    };
    let mut seen = (of(&path), keys.as_deref().and_then(of));
    let Ok(mut hangup) = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()) else {
        return;
    };
    loop {
        let asked = tokio::select! {
            _ = hangup.recv() => true,
            () = tokio::time::sleep(WATCH) => false,
        };
        let now = (of(&path), keys.as_deref().and_then(of));
        if !asked && (now == seen || now.0.is_none()) {
            continue;
        }
        seen = now;
        match rack_file::read_complete(&path) {
            Ok(rack) => {
                keys = rack_file::key_file(&path, &rack);
                if inputs.send(Input::Config(Box::new(rack))).is_err() {
                    return;
                }
            }
            Err(message) => say(&format!("{message}\npointsman: the configuration before stays in force")),
        }
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<ExitCode, String> {
    // The keys are elsewhere, perhaps, where the description is only checked.
    let rack =
        if args.check { rack_file::describe(&args.rack)? } else { rack_file::read_complete(&args.rack)? };
    let program = program(&rack.switch.program)?;
    let keys = rack_file::key_file(&args.rack, &rack);
    let controller = Controller::new(rack, program)?;
    if args.check {
        return Ok(ExitCode::SUCCESS);
    }
    let tokio = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|e| format!("cannot start: {e}"))?;
    tokio.block_on(async {
        let (tx, rx) = mpsc::unbounded_channel();
        let (status, _) = watch::channel(Standing::START);
        tokio::spawn(follow(args.rack, keys, tx));
        tokio::select! {
            () = pump(controller, rx, status, |event| say(&event.to_string())) => {}
            () = crate::signals::wait_for_stop() => {}
        }
    });
    Ok(ExitCode::SUCCESS)
}
