//! The flags of `pointsman switch`: ours, and those of simple_switch and simple_switch_grpc, for existing scripts.
//! `docs/switch.md` lists them all in one table; a test compares the two.

use super::Interface;
use super::device::is_json;
use super::queues::Setting;
use super::tls;
use super::trace::TraceArgs;
use crate::listen::address;
use crate::log::{self, Level, Log, LogError, Rotation};
use pointsman_compile::executor::Choice;
use pointsman_compile::sources::parse_define;
use pointsman_frontend::Define;
use pointsman_ports::{PollMode, Want};
use pointsman_stf::generator::Numbered;
use pointsman_v1model::DEFAULT_MAX_DESCENDANTS;
use std::error::Error;
use std::ffi::OsString;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// The argument of `--port-kind`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum PortKind {
    /// AF_XDP if the driver supports it and it does no harm, else AF_PACKET.
    #[default]
    Auto,
    /// AF_XDP or an error.
    AfXdp,
    /// AF_PACKET.
    AfPacket,
}

impl From<PortKind> for Want {
    fn from(kind: PortKind) -> Self {
        match kind {
            PortKind::Auto => Want::Auto,
            PortKind::AfXdp => Want::AfXdp,
            PortKind::AfPacket => Want::AfPacket,
        }
    }
}

/// The argument of `--poll`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Poll {
    /// Sleep soon after the last frame.
    #[default]
    Adaptive,
    /// Never sleep: lowest latency, but occupies a whole processor core.
    Busy,
}

impl From<Poll> for PollMode {
    fn from(poll: Poll) -> Self {
        match poll {
            Poll::Adaptive => PollMode::Adaptive,
            Poll::Busy => PollMode::Busy,
        }
    }
}

/// simple_switch's value for "no port"; in 9 bits it is 511, the drop port.
const NO_PORT: u32 = u32::MAX;

/// A unit of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Timestamps {
    /// Microseconds.
    #[default]
    Us,
    /// Nanoseconds.
    Ns,
}

/// Run a P4 program as a switch on Linux interfaces, with a P4Runtime server.
#[derive(clap::Args)]
pub struct Args {
    /// Program to start with: a P4 file, or `balancer` for the built-in one. Without it the switch waits for a controller to
    /// send a program.
    pub file: Option<PathBuf>,
    /// Port: NUMBER@INTERFACE. Repeatable.
    #[arg(short, long = "interface", value_name = "NUMBER@INTERFACE", allow_hyphen_values = true)]
    pub interface: Vec<Interface>,
    /// Socket type of the ports; the log shows which one was chosen.
    #[arg(long, value_enum, default_value_t)]
    pub port_kind: PortKind,
    /// How the switch waits for frames.
    #[arg(long, value_enum, default_value_t)]
    pub poll: Poll,
    /// Number of packet threads. Each has its own queues on every interface: AF_XDP needs one receive queue per thread,
    /// AF_PACKET distributes flows in the kernel.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub workers: usize,
    /// Listening address of P4Runtime; port 0 picks a free port and logs it. Without --grpc-tls-ca there is no
    /// authentication: do not expose it beyond loopback.
    #[arg(
        long,
        alias = "grpc-server-addr",
        value_name = "ADDRESS:PORT",
        default_value = "127.0.0.1:9559",
        value_parser = address
    )]
    pub p4runtime: SocketAddr,
    /// Serve Prometheus metrics at http://ADDRESS:PORT/metrics.
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Serve P4Runtime over TLS with this certificate: PEM, server certificate first, then intermediates.
    #[arg(long, value_name = "FILE", requires = "grpc_tls_key")]
    pub grpc_tls_cert: Option<PathBuf>,
    /// Private key of the certificate: PEM.
    #[arg(long, value_name = "FILE", requires = "grpc_tls_cert")]
    pub grpc_tls_key: Option<PathBuf>,
    /// Require client certificates signed by one of these CAs (mutual TLS): PEM.
    #[arg(long, value_name = "FILE", requires = "grpc_tls_cert")]
    pub grpc_tls_ca: Option<PathBuf>,
    /// Device id in P4Runtime.
    #[arg(long, default_value_t = 1)]
    pub device_id: u64,
    /// Port number of the control plane: packets sent there become P4Runtime packet-ins.
    #[arg(long, default_value_t = 510)]
    pub cpu_port: u32,
    /// The egress_spec value that means drop.
    #[arg(long, default_value_t = 511)]
    pub drop_port: u32,
    /// Record every port in DIR (default: the current folder): INTERFACE_in.pcap and INTERFACE_out.pcap.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub pcap: Option<PathBuf>,
    /// Capacity of each egress queue, in packets.
    #[arg(long, default_value_t = 1024)]
    pub queue_depth: u32,
    /// Limit on clones, resubmissions and recirculations of one received packet and its descendants together; 0 for no
    /// limit.
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MAX_DESCENDANTS)]
    pub max_descendants: u32,
    /// How programs run: `engine` compiles to native code, `interp` interprets.
    #[arg(long, value_enum, default_value_t)]
    pub executor: Choice,
    /// Queues per port, 1 to 8, selected by standard_metadata.priority; larger numbers are served first.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub priority_queues: u8,
    /// Rate (packets per second, bits such as 10Gbit, or `max`), depth (packets, or bytes such as 200kB), delay, and burst (for a rate in
    /// bits; 10us) of queues: 1=1000,64 for port 1, 1:7=500 for its priority 7 queue, all=max,256 for every port, 1=10Gbit,200kB,delay=5us;
    /// buffer=12MB,100% for a buffer that all queues share, recirculation=10Gbit for recirculated packets. Repeatable.
    #[arg(long, value_name = "PORT[:PRIORITY]=RATE[,DEPTH][,delay=TIME][,burst=TIME]")]
    pub queue: Vec<Setting>,
    /// Unit of the timestamps that programs see: `us`, as in BMv2, or `ns`.
    #[arg(long, value_enum, default_value_t)]
    pub timestamps: Timestamps,
    /// A packet generator: NUMBER:period=1ms,port=68,packets=2,header=no,template=HEX, or with `port-down` in the place of the
    /// period. Repeatable.
    #[arg(long, value_name = "NUMBER:SETTINGS")]
    pub generator: Vec<Numbered>,
    /// File of --queue settings, one per line; reloaded on SIGHUP.
    #[arg(long, value_name = "FILE")]
    pub queue_file: Option<PathBuf>,
    /// Fill the program's tables, registers, clone sessions and multicast groups at the start, as the statements of packet tests in this file
    /// say (`add`, `setdefault`, `mirroring_add`, ...). A state read by --state has them already.
    #[arg(long, value_name = "FILE", requires = "file")]
    pub entries: Option<PathBuf>,
    /// The P4 source that is meant where the command line or a controller names compiler output for BMv2 (JSON).
    #[arg(long, value_name = "FILE")]
    pub p4_for_json: Option<PathBuf>,
    /// Keep the switch's state in this file over a planned restart: it is read at the start, if it exists, and written at SIGINT, SIGTERM
    /// and SIGUSR1.
    #[arg(long, value_name = "FILE", conflicts_with = "no_p4")]
    pub state: Option<PathBuf>,
    /// Folder to search for included files. Repeatable.
    #[arg(short = 'I', value_name = "DIR")]
    pub include: Vec<PathBuf>,
    /// Macro to define.
    #[arg(short = 'D', value_name = "NAME[=VALUE]", value_parser = parse_define)]
    pub define: Vec<Define>,
    /// The form of the log.
    #[command(flatten)]
    pub log: log::Flags,
    /// Log to standard output instead of standard error, each line with time and level.
    #[arg(long, conflicts_with = "log_file")]
    pub log_console: bool,
    /// Log to this file instead of standard error.
    #[arg(long, value_name = "FILE")]
    pub log_file: Option<PathBuf>,
    /// Minimum log level [default: info, or debug with --log-console or --log-file].
    #[arg(short = 'L', long, value_name = "LEVEL", value_enum)]
    pub log_level: Option<Level>,
    /// With --log-file: size in bytes at which the file is rotated to FILE.1.
    #[arg(long, value_name = "BYTES", default_value_t = 5_242_880, value_parser = clap::value_parser!(u64).range(1..))]
    pub log_file_max_size: u64,
    /// With --log-file: number of rotated files kept.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub log_file_max_files: usize,
    /// Log the first BYTES of every packet received or sent.
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    pub dump_packet_data: usize,
    /// Instead of using interfaces, read packets from INTERFACE_in.pcap and write to INTERFACE_out.pcap in the current
    /// folder, starting after SECONDS.
    #[arg(long, value_name = "SECONDS", conflicts_with = "pcap")]
    pub use_files: Option<u32>,
    /// Start without a program.
    #[arg(long)]
    pub no_p4: bool,
    /// Traces of packets.
    #[command(flatten)]
    pub traces: TraceArgs,
    /// Flags of simple_switch.
    #[command(flatten)]
    pub field: Field,
}

/// Flags of simple_switch and simple_switch_grpc that differ or have no effect here: see `review`.
#[derive(clap::Args)]
pub struct Field {
    #[arg(long, hide = true)]
    grpc_server_ssl: bool,
    #[arg(long, value_name = "FILE", hide = true)]
    grpc_server_cert: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true)]
    grpc_server_key: Option<PathBuf>,
    #[arg(long, value_name = "FILE", hide = true)]
    grpc_server_cacert: Option<PathBuf>,
    #[arg(long, hide = true)]
    grpc_server_with_client_auth: bool,
    #[arg(long, value_name = "N", hide = true)]
    max_port_count: Option<usize>,
    #[arg(long, hide = true)]
    log_flush: bool,
    #[arg(long, hide = true)]
    enable_swap: bool,
    #[arg(long, hide = true)]
    disable_swap: bool,
    #[arg(long, value_name = "PORT", hide = true)]
    thrift_port: Option<String>,
    #[arg(long, value_name = "ADDRESS", hide = true)]
    nanolog: Option<String>,
    #[arg(long, value_name = "ADDRESS", hide = true)]
    notifications_addr: Option<String>,
    #[arg(long, value_name = "N", hide = true)]
    max_mc_groups: Option<String>,
    #[arg(long, value_name = "N", hide = true)]
    max_l1_entries: Option<String>,
    #[arg(long, value_name = "N", hide = true)]
    max_l2_entries: Option<String>,
    #[arg(long, value_name = "ADDRESS", hide = true)]
    packet_in: Option<String>,
    #[arg(long, hide = true)]
    debugger: bool,
    #[arg(long, value_name = "ADDRESS", hide = true)]
    debugger_addr: Option<String>,
    #[arg(long, value_name = "FILE", hide = true)]
    restore_state: Option<String>,
    #[arg(long, value_name = "FILES", hide = true)]
    load_modules: Option<String>,
    #[arg(long, value_name = "ADDRESS:PORT", hide = true)]
    dp_grpc_server_addr: Option<String>,
    #[arg(long, hide = true)]
    json_version: bool,
    #[arg(short = 'v', hide = true, action = clap::ArgAction::Version)]
    v: Option<bool>,
}

/// The command line without the `--` between simple_switch's flags and those of its target, which is not needed here.
/// (A file whose name begins with a dash is `./-name`.)
pub fn without_separator(args: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.into_iter().collect();
    if args.get(1).is_some_and(|a| a == "switch")
        && let Some(at) = args.iter().position(|a| a == "--")
    {
        args.remove(at);
    }
    args
}

/// Whether this looks like a program rather than a folder.
fn is_program(path: &Path) -> bool {
    path.is_file() || path.extension().is_some_and(|e| e == "p4" || e == "json")
}

/// The source of `build/x.json`: `build/x.p4`, or `x.p4` in the folder above.
pub fn source_of(json: &Path) -> Option<PathBuf> {
    let next = json.with_extension("p4");
    let above = json.parent()?.parent().map(|folder| folder.join(next.file_name().unwrap_or_default()));
    [Some(next.clone()), above].into_iter().flatten().find(|p| p.is_file())
}

/// Why a switch cannot be started with its flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagError {
    /// The program is compiler output for BMv2.
    Json {
        /// The file.
        file: PathBuf,
        /// The source that it was probably made of.
        source: Option<PathBuf>,
    },
    /// This flag of a port has BMv2's number for "none".
    NonePort(&'static str),
    /// The CPU port is 0.
    CpuPortZero,
    /// There are more interfaces than allowed.
    Interfaces {
        /// So many.
        given: usize,
        /// --max-port-count.
        most: usize,
    },
    /// This flag needs --grpc-server-ssl.
    NoSsl(&'static str),
    /// Certificates are given twice.
    TwoCertificates,
    /// --grpc-server-ssl needs this flag.
    SslNeeds(&'static str),
    /// --grpc-server-with-client-auth needs a CA.
    NoClientCa,
    /// This flag of BMv2 cannot be followed; why, and what else to do.
    Unsupported(&'static str),
}

impl fmt::Display for FlagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlagError::Json { file, source } => {
                let file = file.display();
                write!(f, "{file} is compiler output for BMv2: this switch compiles P4 itself; ")?;
                match source.as_ref().map(|source| source.display()) {
                    Some(source) => {
                        write!(f, "give {source}, or keep the script and add --p4-for-json {source}")
                    }
                    None => {
                        f.write_str("give the .p4 file it was compiled from, or add --p4-for-json with it")
                    }
                }
            }
            FlagError::NonePort(flag) => write!(
                f,
                "{flag} {NO_PORT} means 'none' to BMv2, which still uses its low 9 bits, 511: omit {flag} \
                 or choose a number that fits the program's PortId_t (up to 511)"
            ),
            FlagError::CpuPortZero => {
                f.write_str("--cpu-port 0 is not allowed: choose another number, such as 510")
            }
            FlagError::Interfaces { given, most } => {
                write!(
                    f,
                    "{given} interfaces are more than --max-port-count {most} allows: raise or omit it"
                )
            }
            FlagError::NoSsl(flag) => write!(
                f,
                "{flag} has no effect without --grpc-server-ssl, and P4Runtime would be unencrypted: add it"
            ),
            FlagError::TwoCertificates => {
                f.write_str("--grpc-server-ssl and --grpc-tls-cert are equivalent: give only one")
            }
            FlagError::SslNeeds(flag) => write!(f, "--grpc-server-ssl also needs {flag} FILE"),
            FlagError::NoClientCa => f.write_str(
                "--grpc-server-with-client-auth needs --grpc-server-cacert FILE, the CA of the clients' certificates",
            ),
            FlagError::Unsupported(why) => f.write_str(why),
        }
    }
}

impl Error for FlagError {}

impl Args {
    /// Resolves how the flags combine. Returns warnings about flags without effect.
    ///
    /// # Errors
    /// A flag is not supported and ignoring it would mislead.
    pub fn review(&mut self) -> Result<Vec<String>, FlagError> {
        // `--pcap prog.p4`: simple_switch takes a folder only after `=`.
        if self.file.is_none()
            && let Some(program) = self.pcap.take_if(|p| is_program(p))
        {
            self.file = Some(program);
            self.pcap = Some(".".into());
        }
        let mut warnings = Vec::new();
        self.review_program(&mut warnings)?;
        self.review_ports()?;
        self.review_tls()?;
        if !self.p4runtime.ip().is_loopback() && self.tls().is_none() {
            warnings.push(format!(
                "--p4runtime {}: anyone who can reach this address can change the switch; give --grpc-tls-cert, --grpc-tls-key \
                 and --grpc-tls-ca, or listen on 127.0.0.1",
                self.p4runtime
            ));
        } else if !self.p4runtime.ip().is_loopback() && self.grpc_tls_ca.is_none() {
            warnings.push(format!(
                "--p4runtime {}: clients need no certificate, so anyone who can reach this address can change the switch; give \
                 --grpc-tls-ca",
                self.p4runtime
            ));
        }
        self.field.refuse()?;
        self.field.warn(&mut warnings);
        if self.field.log_flush && self.log_file.is_none() {
            warnings.push("--log-flush does nothing without --log-file".to_string());
        }
        if self.dump_packet_data > 0 && self.level() > Level::Info {
            warnings.push(
                "--dump-packet-data does nothing at this --log-level: choose info or lower".to_string(),
            );
        }
        Ok(warnings)
    }

    fn review_program(&mut self, warnings: &mut Vec<String>) -> Result<(), FlagError> {
        if self.no_p4 {
            if let Some(file) = self.file.take() {
                warnings.push(format!("{} is not used because of --no-p4", file.display()));
            }
            return Ok(());
        }
        let Some(file) = &self.file else { return Ok(()) };
        if file.extension().is_none_or(|e| e != "json") {
            return Ok(());
        }
        // Source text, or what `pointsman p4 compile` wrote.
        if std::fs::read(file).is_ok_and(|text| !is_json(&text)) {
            return Ok(());
        }
        if let Some(source) = &self.p4_for_json {
            warnings.push(format!(
                "{} is compiler output for BMv2; {} is compiled instead",
                file.display(),
                source.display()
            ));
            self.file = Some(source.clone());
            return Ok(());
        }
        Err(FlagError::Json { file: file.clone(), source: source_of(file) })
    }

    fn review_ports(&self) -> Result<(), FlagError> {
        for (flag, port) in [("--cpu-port", self.cpu_port), ("--drop-port", self.drop_port)] {
            if port == NO_PORT {
                return Err(FlagError::NonePort(flag));
            }
        }
        if self.cpu_port == 0 {
            return Err(FlagError::CpuPortZero);
        }
        if let Some(most) = self.field.max_port_count
            && self.interface.len() > most
        {
            return Err(FlagError::Interfaces { given: self.interface.len(), most });
        }
        Ok(())
    }

    fn review_tls(&mut self) -> Result<(), FlagError> {
        let field = &mut self.field;
        let given = [
            ("--grpc-server-cert", field.grpc_server_cert.is_some()),
            ("--grpc-server-key", field.grpc_server_key.is_some()),
            ("--grpc-server-cacert", field.grpc_server_cacert.is_some()),
            ("--grpc-server-with-client-auth", field.grpc_server_with_client_auth),
        ];
        if !field.grpc_server_ssl {
            return match given.iter().find(|(_, given)| *given) {
                Some((flag, _)) => Err(FlagError::NoSsl(flag)),
                None => Ok(()),
            };
        }
        if self.grpc_tls_cert.is_some() {
            return Err(FlagError::TwoCertificates);
        }
        let (cert, key) = (field.grpc_server_cert.take(), field.grpc_server_key.take());
        self.grpc_tls_cert = Some(cert.ok_or(FlagError::SslNeeds("--grpc-server-cert"))?);
        self.grpc_tls_key = Some(key.ok_or(FlagError::SslNeeds("--grpc-server-key"))?);
        if field.grpc_server_with_client_auth {
            self.grpc_tls_ca = Some(field.grpc_server_cacert.take().ok_or(FlagError::NoClientCa)?);
        }
        Ok(())
    }

    /// The TLS files, if TLS is enabled.
    pub fn tls(&self) -> Option<tls::Files> {
        Some(tls::Files {
            cert: self.grpc_tls_cert.clone()?,
            key: self.grpc_tls_key.clone()?,
            client_ca: self.grpc_tls_ca.clone(),
        })
    }

    fn level(&self) -> Level {
        let verbose = self.log_console || self.log_file.is_some();
        self.log_level.unwrap_or(if verbose { Level::Debug } else { Level::Info })
    }

    /// Target of the log.
    ///
    /// # Errors
    /// Its file cannot be written.
    pub fn open_log(&self) -> Result<Log, LogError> {
        let (level, format, component) = (self.level(), self.log.log_format, "switch");
        match &self.log_file {
            Some(path) => {
                let rotation =
                    Rotation { max_bytes: self.log_file_max_size, max_files: self.log_file_max_files };
                Log::file(component, format, level, path, rotation)
            }
            None if self.log_console => Ok(Log::console(component, format, level)),
            None => Ok(Log::plain(component, format, level)),
        }
    }
}

impl Field {
    /// Flags without which the switch would do something else than its user expects.
    fn refuse(&self) -> Result<(), FlagError> {
        let refused = [
            (
                self.packet_in.is_some(),
                "--packet-in: packets cannot be taken from a nanomsg socket; give interfaces with -i, or captures with \
                 --use-files",
            ),
            (
                self.dp_grpc_server_addr.is_some(),
                "--dp-grpc-server-addr: packets cannot be injected over gRPC; give interfaces with -i, captures with \
                 --use-files, or send packet-outs",
            ),
            (
                self.debugger || self.debugger_addr.is_some(),
                "--debugger: there is no debugger; `pointsman p4 trace` traces a packet step by step",
            ),
            (
                self.restore_state.is_some(),
                "--restore-state: files of BMv2 cannot be read; write state from a controller, or keep it with --state",
            ),
            (
                self.load_modules.is_some(),
                "--load-modules: externs cannot be loaded; those of v1model are built in",
            ),
            (
                self.json_version,
                "--json-version: not applicable; this switch takes P4 source (see --version for its own)",
            ),
        ];
        match refused.iter().find(|(given, _)| *given) {
            Some((_, why)) => Err(FlagError::Unsupported(why)),
            None => Ok(()),
        }
    }

    /// Flags that can be left out without harm.
    fn warn(&self, warnings: &mut Vec<String>) {
        let groups =
            self.max_mc_groups.is_some() || self.max_l1_entries.is_some() || self.max_l2_entries.is_some();
        let idle = [
            (self.thrift_port.is_some(), "--thrift-port: there is no Thrift server; use P4Runtime"),
            (
                self.nanolog.is_some(),
                "--nanolog: nanomsg events are not supported; use --log-console or --pcap",
            ),
            (
                self.notifications_addr.is_some(),
                "--notifications-addr: there are no nanomsg notifications; digests and idle entries come over P4Runtime",
            ),
            (self.disable_swap, "--disable-swap: a controller can always replace the program"),
            (groups, "--max-mc-groups, --max-l1-entries, --max-l2-entries: multicast is not limited here"),
            (
                self.grpc_server_cacert.is_some(),
                "--grpc-server-cacert does nothing without --grpc-server-with-client-auth: clients need no certificate",
            ),
        ];
        warnings.extend(idle.iter().filter(|(given, _)| *given).map(|(_, message)| (*message).to_string()));
    }
}
