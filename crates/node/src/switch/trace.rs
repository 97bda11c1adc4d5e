//! Traces of packets of a running switch: `--trace`, and the gRPC service behind `pointsman p4 trace --follow`.

use super::runtime::{Gone, Handle, Told};
use crate::log::Log;
use pb::trace_server::Trace;
use pointsman_control::proto::trace as pb;
use pointsman_explain::filter::Filter;
use pointsman_explain::{Describer, show};
use std::io::{self, Write};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// Messages that may wait for a client.
const WAITING: usize = 4;

/// The flags.
#[derive(clap::Args)]
pub struct TraceArgs {
    /// Print, on standard output, the steps of packets for which all these words are true: port=N (ingress port), src=, dst= or host=
    /// NETWORK, proto=NAME|N, sport= or dport= N or N-M, smac= or dmac= ADDRESS, type=NAME|N, vlan=N, bytes=OFFSET:HEX, or `all`; `!=` for
    /// what must not be. count=N (10) ends after N packets, rate=N (100) limits packets a second. See docs/trace.md.
    #[arg(long, value_name = "FILTER", value_parser = Filter::parse)]
    pub trace: Option<Filter>,
    /// With --trace: print JSON instead of text.
    #[arg(long, requires = "trace")]
    pub trace_json: bool,
}

/// The form of a trace.
#[derive(Clone, Copy)]
struct Form {
    json: bool,
    /// Also writes that change nothing.
    all: bool,
}

fn rendered(told: &Told, form: Form) -> String {
    let describer = Describer { program: &told.program, map: &told.map, statements: false };
    let file = told.map.files.first().map_or("", |file| file.path.as_str());
    match form.json {
        true => show::json(file, &describer, &told.steps),
        false => show::text(&describer, &told.steps, form.all),
    }
}

/// A note about packets that are missing in the trace.
pub fn note(skipped: u64) -> String {
    format!("{skipped} more packets were not followed: there were too many a second")
}

/// Prints traces of at most `count` packets until they end, or standard output is closed.
pub async fn print(mut told: Receiver<Told>, count: u64, json: bool, log: Log) {
    let mut printed = 0;
    while let Some(told) = told.recv().await {
        if told.skipped > 0 {
            log.warn(&note(told.skipped));
        }
        let written = tokio::task::spawn_blocking(move || {
            let text = rendered(&told, Form { json, all: false });
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush())
        });
        if let Ok(Err(e)) = written.await {
            log.warn(&format!("--trace: cannot write to standard output: {e}; the trace ends"));
            return;
        }
        printed += 1;
    }
    // A switch that ends sooner has nothing to add.
    if printed >= count {
        log.info(&format!(
            "--trace: count={count} is reached; `pointsman p4 trace --live` follows more packets"
        ));
    }
}

/// The gRPC service.
pub struct Service {
    handle: Handle,
}

impl Service {
    /// Of the switch behind `handle`.
    pub fn new(handle: Handle) -> Self {
        Service { handle }
    }
}

/// Ends a trace when its client is gone.
struct Ends(Handle, u64);

impl Drop for Ends {
    fn drop(&mut self) {
        let number = self.1;
        // A switch that has ended follows nothing.
        let _ = self.0.post(move |core| core.unfollow(number));
    }
}

async fn tell(
    mut told: Receiver<Told>,
    form: Form,
    to: Sender<Result<pb::FollowResponse, Status>>,
    _ends: Ends,
) {
    loop {
        let next = tokio::select! {
            next = told.recv() => next,
            () = to.closed() => None,
        };
        let Some(told) = next else { return };
        let skipped = told.skipped;
        let Ok(text) = tokio::task::spawn_blocking(move || rendered(&told, form)).await else { return };
        if to.send(Ok(pb::FollowResponse { text, skipped })).await.is_err() {
            return;
        }
    }
}

#[tonic::async_trait]
impl Trace for Service {
    type FollowStream = ReceiverStream<Result<pb::FollowResponse, Status>>;

    async fn follow(
        &self,
        request: Request<pb::FollowRequest>,
    ) -> Result<Response<Self::FollowStream>, Status> {
        let peer = request.remote_addr();
        let pb::FollowRequest { device_id, filter, json, all } = request.into_inner();
        let filter = Filter::parse(&filter).map_err(|e| Status::invalid_argument(e.to_string()))?;
        let who = peer.map_or("a client".to_string(), |peer| peer.to_string());
        let begun = self.handle.call(move |core| {
            core.server().check_device(device_id).map_err(Status::from)?;
            core.follow(&filter, &who).map_err(|busy| Status::failed_precondition(busy.to_string()))
        });
        let (number, told) = begun.await.map_err(|gone: Gone| Status::from(gone))??;
        let (to, items) = channel(WAITING);
        tokio::spawn(tell(told, Form { json, all }, to, Ends(self.handle.clone(), number)));
        Ok(Response::new(ReceiverStream::new(items)))
    }
}
