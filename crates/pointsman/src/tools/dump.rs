//! `pointsman p4 dump`: the state of a running switch as STF statements, read over P4Runtime.
//!
//! The entities are written into a switch of this process with the same program, by the same server code as on the wire; its state is
//! what [`pointsman_stf::dump`] writes.

use clap::Args as ClapArgs;
use pb::entity::Entity as Kind;
use pb::p4_runtime_client::P4RuntimeClient;
use pb::packet_replication_engine_entry::Type as Replication;
use pb::update::Type as UpdateType;
use pointsman_compile::executor::Choice;
use pointsman_compile::sources::Sources;
use pointsman_compile::{compile, rendered};
use pointsman_console::{print, results, say};
use pointsman_control::device::SwitchDevice;
use pointsman_control::proto::p4rt as pb;
use pointsman_control::server::{ConnId, Server, ServerConfig};
use pointsman_control::{CompileError, RpcError};
use pointsman_ir::{Program, TableId};
use pointsman_node::http::credentials::Files;
use pointsman_stf::{Dump, Part, dump};
use pointsman_v1model::{State, SwitchConfig, Time};
use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// Write the state of a running switch as STF statements.
///
/// Tables, members and groups, value sets, registers, counters, the configuration of meters, clone sessions and multicast groups are read over
/// P4Runtime. `switch --entries` and `p4 test` read the file. What statements cannot express is named in comments and on standard error.
#[derive(ClapArgs)]
pub struct Args {
    /// Address of the switch's P4Runtime server.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9559")]
    address: String,
    /// Device id of the switch.
    #[arg(long, value_name = "N", default_value_t = 1)]
    device_id: u64,
    /// The file to write [default: standard output].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also write the program, as the switch got it, to this file.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    /// Leave a part out. Repeatable.
    #[arg(long, value_enum, value_name = "PART")]
    without: Vec<Without>,
    /// Folder to search for included files, as the switch's own. Repeatable.
    #[arg(short = 'I', long = "include", value_name = "DIR")]
    include: Vec<PathBuf>,
    #[command(flatten)]
    tls: Tls,
}

/// How to reach a switch that serves TLS.
#[derive(ClapArgs, Default)]
pub struct Tls {
    /// PEM file with the CA of a switch that serves TLS.
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// PEM file with the client certificate, if the switch requires one.
    #[arg(long, value_name = "FILE", requires = "key", requires = "ca")]
    cert: Option<PathBuf>,
    /// PEM file with the key of --cert.
    #[arg(long, value_name = "FILE", requires = "cert")]
    key: Option<PathBuf>,
}

/// The argument of `--without`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Without {
    /// Registers.
    Registers,
    /// Counters, also those of entries.
    Counters,
    /// Configurations of meters, also those of entries.
    Meters,
}

/// Why the state of a switch cannot be written.
#[derive(Debug)]
pub enum DumpError {
    /// No connection; the address and the reason.
    Connect(String, String),
    /// The switch refuses a request.
    Refused(String),
    /// It has no program.
    NoProgram,
    /// Its program does not compile here.
    Program(String),
}

impl fmt::Display for DumpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DumpError::Connect(address, e) => write!(
                f,
                "cannot connect to the switch at {address}: {e}; give the address of its P4Runtime server, and its CA with --ca if it \
                 serves TLS"
            ),
            DumpError::Refused(e) => write!(f, "the switch refuses to be read: {e}"),
            DumpError::NoProgram => f.write_str("the switch has no program, so there is no state to write"),
            DumpError::Program(e) => {
                write!(
                    f,
                    "the switch's program does not compile here; name its include folders with -I:\n{e}"
                )
            }
        }
    }
}

impl Error for DumpError {}

/// Reads the switch and writes the statements.
///
/// # Errors
/// The switch cannot be reached or read, or a file cannot be written.
pub fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let without: BTreeSet<Part> = args
        .without
        .iter()
        .map(|w| match w {
            Without::Registers => Part::Registers,
            Without::Counters => Part::Counters,
            Without::Meters => Part::Meters,
        })
        .collect();
    let switch = Target { address: &args.address, device_id: args.device_id, tls: &args.tls };
    let sources = Sources { include_dirs: args.include.clone() };
    let (source, text) = of_switch(&switch, &sources, &args.without, &without)?;
    if let Some(path) = &args.program {
        results::write(path, "--program", &source)?;
    }
    let text = format!("# state of the switch at {}\n{text}", args.address);
    match &args.output {
        Some(path) => results::write(path, "--output", text)?,
        None => print(&text)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A running switch.
pub struct Target<'a> {
    /// Of its P4Runtime server.
    pub address: &'a str,
    /// In P4Runtime.
    pub device_id: u64,
    /// How it is reached.
    pub tls: &'a Tls,
}

/// The program's text and the state of a switch, as statements; for a packet test or a trace.
///
/// # Errors
/// The switch cannot be reached or read.
pub fn live(switch: &Target<'_>, sources: &Sources) -> Result<(Vec<u8>, String), Box<dyn Error>> {
    of_switch(switch, sources, &[], &BTreeSet::new())
}

/// The same without some parts. What cannot be expressed is named on standard error.
fn of_switch(
    switch: &Target<'_>,
    sources: &Sources,
    unread: &[Without],
    without: &BTreeSet<Part>,
) -> Result<(Vec<u8>, String), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (source, entities) = runtime.block_on(fetch(switch, unread))?;
    let Dump { text, lost } = rebuild(&source, entities, sources, without)?;
    for what in lost {
        say(&format!("warning: not written: {what}"));
    }
    Ok((source, text))
}

async fn connect(args: &Target<'_>) -> Result<P4RuntimeClient<Channel>, Box<dyn Error>> {
    Ok(P4RuntimeClient::new(channel(args).await?)
        .max_decoding_message_size(pointsman_node::switch::grpc::MAX_MESSAGE_BYTES))
}

/// A connection.
///
/// # Errors
/// The switch cannot be reached.
pub async fn channel(args: &Target<'_>) -> Result<Channel, Box<dyn Error>> {
    let wrong = |e: &dyn Error| {
        let mut inner = e;
        while let Some(next) = inner.source() {
            inner = next;
        }
        DumpError::Connect(args.address.to_string(), inner.to_string())
    };
    let scheme = if args.tls.ca.is_some() { "https" } else { "http" };
    let mut endpoint =
        Endpoint::from_shared(format!("{scheme}://{}", args.address)).map_err(|e| wrong(&e))?;
    let files = Files { ca: args.tls.ca.clone(), identity: args.tls.cert.clone().zip(args.tls.key.clone()) };
    if let Some(tls) = files.grpc()? {
        endpoint = endpoint.tls_config(tls).map_err(|e| wrong(&e))?;
    }
    let endpoint = endpoint.connect_timeout(Duration::from_secs(5));
    Ok(endpoint.connect().await.map_err(|e| wrong(&e))?)
}

/// The error if the connection broke: a switch that serves TLS ends one without.
pub fn broken(switch: &Target<'_>, status: &tonic::Status) -> Option<DumpError> {
    status.source()?;
    Some(DumpError::Connect(switch.address.to_string(), status.message().to_string()))
}

/// The program's text and every entity.
async fn fetch(args: &Target<'_>, without: &[Without]) -> Result<(Vec<u8>, Vec<pb::Entity>), Box<dyn Error>> {
    let mut client = connect(args).await?;
    let refused =
        |e: tonic::Status| broken(args, &e).unwrap_or_else(|| DumpError::Refused(e.message().to_string()));
    let request = pb::GetForwardingPipelineConfigRequest { device_id: args.device_id, ..Default::default() };
    let config = client.get_forwarding_pipeline_config(request).await.map_err(refused)?.into_inner().config;
    let source = config.ok_or(DumpError::NoProgram)?.p4_device_config;
    let mut entities = Vec::new();
    for kind in everything(without) {
        let request = pb::ReadRequest {
            device_id: args.device_id,
            entities: vec![pb::Entity { entity: Some(kind) }],
            ..Default::default()
        };
        let mut stream = client.read(request).await.map_err(refused)?.into_inner();
        while let Some(message) = stream.message().await.map_err(refused)? {
            entities.extend(message.entities);
        }
    }
    Ok((source, entities))
}

/// A wildcard for every kind of entity that is wanted, in the order in which they can be written.
fn everything(without: &[Without]) -> Vec<Kind> {
    let replication =
        |kind| Kind::PacketReplicationEngineEntry(pb::PacketReplicationEngineEntry { r#type: Some(kind) });
    let table = |is_default_action| {
        Kind::TableEntry(pb::TableEntry {
            is_default_action,
            counter_data: Some(pb::CounterData::default()),
            meter_config: Some(pb::MeterConfig::default()),
            ..Default::default()
        })
    };
    let wanted = |kind: &Kind| match kind {
        Kind::RegisterEntry(_) => !without.contains(&Without::Registers),
        Kind::CounterEntry(_) => !without.contains(&Without::Counters),
        Kind::MeterEntry(_) => !without.contains(&Without::Meters),
        _ => true,
    };
    let all = vec![
        Kind::ValueSetEntry(pb::ValueSetEntry::default()),
        Kind::ActionProfileMember(pb::ActionProfileMember::default()),
        Kind::ActionProfileGroup(pb::ActionProfileGroup::default()),
        table(false),
        table(true),
        Kind::RegisterEntry(pb::RegisterEntry::default()),
        Kind::CounterEntry(pb::CounterEntry::default()),
        Kind::MeterEntry(pb::MeterEntry::default()),
        replication(Replication::MulticastGroupEntry(pb::MulticastGroupEntry::default())),
        replication(Replication::CloneSessionEntry(pb::CloneSessionEntry::default())),
    ];
    all.into_iter().filter(wanted).collect()
}

/// The update that writes an entity that was read, if it is one that clients write.
fn update(entity: pb::Entity) -> Option<pb::Update> {
    let kind = match entity.entity.as_ref()? {
        Kind::TableEntry(e) if e.is_const => return None,
        Kind::TableEntry(e) if e.is_default_action && e.action.is_none() => return None,
        Kind::TableEntry(e) if e.is_default_action => UpdateType::Modify,
        Kind::RegisterEntry(_) | Kind::CounterEntry(_) | Kind::MeterEntry(_) | Kind::ValueSetEntry(_) => {
            UpdateType::Modify
        }
        _ => UpdateType::Insert,
    };
    Some(pb::Update { r#type: kind.into(), entity: Some(entity) })
}

/// The statements for a switch whose program has this text and that gave these entities.
fn rebuild(
    source: &[u8],
    entities: Vec<pb::Entity>,
    sources: &Sources,
    without: &BTreeSet<Part>,
) -> Result<Dump, DumpError> {
    let program = |e: RpcError| DumpError::Program(e.message);
    let switch = Choice::Interp.switch(SwitchConfig::default());
    let mut switch = switch.map_err(|e| DumpError::Program(e.to_string()))?;
    let compiled = |source: &[u8]| -> Result<Program, CompileError> {
        let text = std::str::from_utf8(source).map_err(CompileError::NotText)?;
        let compiled = compile("p4_device_config", text, sources, &[]);
        compiled.map(|c| c.program).map_err(|e| CompileError::Diagnostics(rendered(&e)))
    };
    let mut device = SwitchDevice { switch: &mut switch, compile: compiled };
    let mut server = Server::new(ServerConfig::default());
    let now = Time::from_millis(1);
    server.boot(&mut device, source, now).map_err(program)?;
    if let Some(state) = device.switch.state_mut() {
        empty(state);
    }
    let election_id = Some(pb::Uint128 { high: 0, low: 1 });
    let arbitration = pb::MasterArbitrationUpdate { device_id: 1, election_id, ..Default::default() };
    let arbitration = pb::stream_message_request::Update::Arbitration(arbitration);
    server.stream_message(ConnId(1), &pb::StreamMessageRequest { update: Some(arbitration) });
    let updates: Vec<pb::Update> = entities.into_iter().filter_map(update).collect();
    let request = pb::WriteRequest { device_id: 1, election_id, updates, ..Default::default() };
    // An entity that a client could not write, such as a range in a value set, is refused alone.
    let refused = match server.write(&mut device, &request, now) {
        Ok(_) => Vec::new(),
        Err(e) if e.details.is_empty() => return Err(DumpError::Program(e.message)),
        Err(e) => e.details.into_iter().filter(|d| d.canonical_code != 0).map(|d| d.message).collect(),
    };
    let mut dumped = dump(switch.state().ok_or(DumpError::NoProgram)?, without);
    for why in refused {
        dumped.text.push_str(&format!("# not in this file: {why}\n"));
        dumped.lost.push(why);
    }
    Ok(dumped)
}

/// Removes the entries that the program brings and a client may remove.
fn empty(state: &mut State) {
    for i in 0..state.program().tables.len() as u32 {
        let entries: Vec<_> = state.entries(TableId(i)).filter(|(_, e)| !e.is_const).collect();
        for (_, entry) in entries {
            // A table with constant entries keeps them.
            let _ = state.delete(TableId(i), &entry.matches, entry.priority);
        }
    }
}
