//! P4Runtime over TLS: generated certificates, good and bad; our own client, and finsy.

use crate::support::certificates::{authority, issue};
use crate::support::python::Client;
use crate::support::{Running, Scratch, Switch, assert_no_panic, file, finish, get, pointsman, root, run};
use nix::sys::signal::Signal;
use pointsman_control::proto::p4rt as pb;
use rcgen::{CertificateParams, date_time_ymd};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

/// Everything that a test needs, in files: `ca.pem`; `server`, `client`, `stranger`, `expired`, `early`, each `.pem` and
/// `.key`.
struct Files {
    dir: Scratch,
    ca: String,
}

impl Files {
    fn new(name: &str) -> Files {
        let dir = Scratch::new(name);
        let (ours, other) = (authority("ours"), authority("another"));
        let ca = dir.write("ca.pem", ours.pem());
        dir.write("other-ca.pem", other.pem());
        let plain = |_: &mut CertificateParams| {};
        for (name, (certificate, key)) in [
            ("server", issue(&ours, plain)),
            ("client", issue(&ours, plain)),
            ("stranger", issue(&other, plain)),
            ("expired", issue(&ours, |p| p.not_after = date_time_ymd(2020, 2, 3))),
            (
                "early",
                issue(&ours, |p| {
                    (p.not_before, p.not_after) = (date_time_ymd(4000, 1, 1), date_time_ymd(4000, 1, 2));
                }),
            ),
        ] {
            dir.write(&format!("{name}.pem"), certificate);
            dir.write(&format!("{name}.key"), key);
        }
        Files { dir, ca }
    }

    fn path(&self, name: &str) -> String {
        self.dir.path(name)
    }

    /// A switch with the server's certificate.
    fn switch(&self, mutual: bool) -> Switch {
        let (cert, key) = (self.path("server.pem"), self.path("server.key"));
        let program = file("tests/programs/controlled.p4");
        let metrics = ["--metrics", "127.0.0.1:0"];
        let mut args = vec![program.as_str(), "--grpc-tls-cert", &cert, "--grpc-tls-key", &key];
        args.extend(metrics);
        if mutual {
            args.extend(["--grpc-tls-ca", &self.ca]);
        }
        Switch::start(&args)
    }

    /// The result of a client that trusts `ca` and has this certificate.
    fn call(&self, switch: &Switch, ca: &str, identity: Option<&str>) -> Result<String, String> {
        let read = |name: &str| std::fs::read(self.path(name)).unwrap();
        let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca)));
        if let Some(name) = identity {
            let [cert, key] = ["pem", "key"].map(|end| read(&format!("{name}.{end}")));
            tls = tls.identity(Identity::from_pem(cert, key));
        }
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio.block_on(async {
            let endpoint = Channel::from_shared(format!("https://{}", switch.address)).unwrap();
            let channel = endpoint.tls_config(tls).unwrap().connect().await.map_err(|e| format!("{e:?}"))?;
            let mut client = pb::p4_runtime_client::P4RuntimeClient::new(channel);
            let answer = client.capabilities(pb::CapabilitiesRequest::default()).await;
            answer.map(|a| a.into_inner().p4runtime_api_version).map_err(|e| format!("{e:?}"))
        })
    }
}

#[test]
fn the_server_proves_who_it_is() {
    let files = Files::new("tls");
    let switch = files.switch(false);
    switch.wait_for("device 1, TLS");
    assert_eq!(files.call(&switch, "ca.pem", None).as_deref(), Ok("1.5.0"));
    let e = files.call(&switch, "other-ca.pem", None).unwrap_err();
    assert!(e.contains("UnknownIssuer"), "{e}");
    let line = switch.wait_for("was refused");
    assert!(
        line.contains("a client at 127.0.0.1") && line.contains("does not accept this switch's"),
        "{line}"
    );
    // Without TLS no request is answered.
    let endpoint = Channel::from_shared(format!("http://{}", switch.address)).unwrap();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let plain = tokio.block_on(async {
        let mut client = pb::p4_runtime_client::P4RuntimeClient::new(endpoint.connect().await.ok()?);
        client.capabilities(pb::CapabilitiesRequest::default()).await.ok()
    });
    assert!(plain.is_none());
    switch.wait_for("it does not speak TLS");
    // The others are served as before.
    assert!(files.call(&switch, "ca.pem", None).is_ok());
    let finished = switch.stop(Signal::SIGTERM);
    assert_eq!(finished.code, Some(0));
    assert_no_panic(&finished);
}

#[test]
fn clients_prove_who_they_are() {
    let files = Files::new("mtls");
    let switch = files.switch(true);
    switch.wait_for("device 1, mutual TLS");
    assert_eq!(files.call(&switch, "ca.pem", Some("client")).as_deref(), Ok("1.5.0"));
    for (identity, why) in [
        (None, "it sent no certificate, but --grpc-tls-ca requires one"),
        (Some("stranger"), "its certificate is not accepted: its issuer is not in --grpc-tls-ca"),
        (Some("expired"), "it has expired"),
        (Some("early"), "it is not valid yet"),
    ] {
        files.call(&switch, "ca.pem", identity).expect_err(why);
        switch.wait_for(why);
    }
    assert!(files.call(&switch, "ca.pem", Some("client")).is_ok());
    // Our own command.
    let (address, [cert, key]) =
        (switch.address.to_string(), ["client.pem", "client.key"].map(|n| files.path(n)));
    let dump = ["p4", "dump", "--address", &address];
    let trusted = [&dump[..], &["--ca", &files.ca, "--cert", &cert, "--key", &key]].concat();
    let done = finish(pointsman(&trusted));
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""));
    let done = finish(pointsman(&dump));
    assert!(done.code == Some(1) && done.stderr.contains("and its CA with --ca"), "{done:?}");
    assert_eq!(switch.stop(Signal::SIGTERM).code, Some(0));
}

/// Connects from an address of this machine, and says something.
async fn connected(switch: &Switch, from: &str, text: &[u8]) -> tokio::net::TcpStream {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let mut stream = socket.connect(switch.address.to_string().parse().unwrap()).await.unwrap();
    stream.write_all(text).await.unwrap();
    stream
}

#[test]
fn strangers_keep_no_client_out_and_do_not_fill_the_log() {
    let files = Files::new("strangers-tls");
    let switch = files.switch(true);
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        for n in 0..200 {
            let mut stream = connected(&switch, ["127.0.0.1", "127.0.0.2"][n % 2], b"GET /\r\n\r\n").await;
            // An alert, or the end.
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
    });
    switch.wait_for("a client at 127.0.0.2 was refused: it does not speak TLS");
    let lines = switch.lines("was refused").len();
    assert!((2..=20).contains(&lines), "{lines}");
    let silent: Vec<_> = tokio.block_on(async {
        let mut silent = Vec::new();
        for _ in 0..200 {
            silent.push(connected(&switch, "127.0.0.1", b"").await);
        }
        silent
    });
    let start = Instant::now();
    assert_eq!(files.call(&switch, "ca.pem", Some("client")).as_deref(), Ok("1.5.0"));
    // Half the time that a handshake may take.
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    drop(silent);
    assert_eq!(switch.stop(Signal::SIGTERM).code, Some(0));
}

/// Checks that the metrics of a part, which logs their address, have this end of a certificate, in seconds since 1970.
fn expires(metrics: &str, purpose: &str, file: &str, at: f64) {
    let url = metrics.split("metrics on ").nth(1).expect("an address").trim();
    let name = "pointsman_certificate_expiry_timestamp_seconds";
    let line = format!("\n{name}{{purpose=\"{purpose}\",file=\"{file}\"}} {at:?}\n");
    let page = get(url).1;
    assert!(page.contains(&line), "no {line} in {page}");
}

/// A switch starts with a certificate that is not valid now, says so, and takes the next one without a restart.
#[test]
fn certificates_are_renewed_while_the_switch_runs() {
    let files = Files::new("renewed-tls");
    let take = |name: &str| {
        for end in ["pem", "key"] {
            let bytes = std::fs::read(files.path(&format!("{name}.{end}"))).expect("a file");
            files.dir.write(&format!("server.{end}"), bytes);
        }
    };
    std::fs::copy(files.path("server.pem"), files.path("good.pem")).expect("copied");
    std::fs::copy(files.path("server.key"), files.path("good.key")).expect("copied");
    take("early");
    let switch = files.switch(false);
    switch.wait_for("server.pem is not valid before 4000-01-01");
    let metrics = switch.wait_for("metrics on ");
    let expires = |at| expires(&metrics, "p4runtime-server", &files.path("server.pem"), at);
    expires(64_060_675_200.0);
    let e = files.call(&switch, "ca.pem", None).unwrap_err();
    assert!(e.contains("NotValidYet"), "{e}");
    // The log of its controller has the reason and the remedy.
    let example = std::fs::read_to_string(file("examples/rack.toml")).expect("the example");
    let rack = example.replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1);
    let rack = rack.replacen("tokens = ", "listen = \"127.0.0.1:0\"\ntokens = ", 1);
    let rack = files.dir.write("rack.toml", rack.replacen("127.0.0.1:9559", &switch.address.to_string(), 1));
    assert_eq!(run(&["keys", &rack]).code, Some(0), "a token for the API");
    let controller = Running::start(&["controller", &rack, "--switch-ca", &files.ca]);
    controller.wait_for("is not valid before 4000-01-01T00:00:00.000Z, and this machine's clock says");
    take("good");
    switch.wait_for("server.pem was read again: it is valid until");
    expires(67_090_118_400.0);
    assert_eq!(files.call(&switch, "ca.pem", None).as_deref(), Ok("1.5.0"));
    controller.wait_for("the switch is up to date");
    // What cannot be used changes nothing.
    take("expired");
    switch.wait_for("server.pem expired at 2020-02-03T00:00:00Z: no client accepts it; renew it; new connections have the previous files");
    files.dir.write("server.pem", "no certificate");
    switch.wait_for("no -----BEGIN CERTIFICATE-----; new connections have the previous files");
    assert!(files.call(&switch, "ca.pem", None).is_ok());
    expires(67_090_118_400.0);
}

/// The controller of a rack, too, speaks TLS with its switch.
#[test]
fn a_rack_over_tls() {
    let files = Files::new("rack-tls");
    let switch = files.switch(true);
    let example = std::fs::read_to_string(file("examples/rack.toml")).expect("the example");
    let example = example.replacen("report_keys = \"report-keys.txt\"", "reports = \"unauthenticated\"", 1);
    let api = "listen = \"127.0.0.1:0\"\ntls_cert = \"server.pem\"\ntls_key = \"server.key\"\ntokens = ";
    let example = example.replacen("tokens = ", api, 1);
    let rack = example.replacen("127.0.0.1:9559", &switch.address.to_string(), 1);
    let rack = files.dir.write("rack.toml", rack);
    assert_eq!(run(&["keys", &rack]).code, Some(0), "a token for the API");
    let [cert, key] = ["client.pem", "client.key"].map(|n| files.path(n));
    let flags = ["--switch-ca", &files.ca, "--switch-cert", &cert, "--switch-key", &key];
    let controller =
        Running::start(&[&["controller", &rack, "--metrics", "127.0.0.1:0"][..], &flags].concat());
    controller.wait_for("the switch is up to date");
    let metrics = controller.wait_for("metrics on ");
    expires(&metrics, "api-server", &files.path("server.pem"), 67_090_118_400.0);
    expires(&metrics, "switch-client", &cert, 67_090_118_400.0);
}

#[test]
fn flags_of_simple_switch_grpc() {
    let files = Files::new("field-tls");
    let [cert, key] = ["server.pem", "server.key"].map(|n| files.path(n));
    let given = ["--", "--grpc-server-ssl", "--grpc-server-cert", &cert, "--grpc-server-key", &key];
    let switch = Switch::start(&[&given[..], &["--grpc-server-cacert", &files.ca]].concat());
    switch.wait_for("--grpc-server-cacert does nothing without --grpc-server-with-client-auth");
    assert!(files.call(&switch, "ca.pem", None).is_ok());
    let mutual = ["--grpc-server-cacert", &files.ca, "--grpc-server-with-client-auth"];
    let switch = Switch::start(&[&given[..], &mutual].concat());
    files.call(&switch, "ca.pem", None).expect_err("a certificate is demanded");
    assert!(files.call(&switch, "ca.pem", Some("client")).is_ok());
}

#[test]
fn files_that_will_not_do() {
    let files = Files::new("bad-tls");
    let check = |cert: &str, key: &str, more: &[&str], code: i32, parts: &[&str]| {
        let (cert, key) = (files.path(cert), files.path(key));
        let mut command = pointsman(&["switch", "--p4runtime", "127.0.0.1:0"]);
        command.args(["--grpc-tls-cert", &cert, "--grpc-tls-key", &key]).args(more);
        let finished = finish(command);
        assert_eq!(finished.code, Some(code), "{finished:?}");
        assert_no_panic(&finished);
        for part in parts {
            assert!(finished.stderr.contains(part), "no '{part}' in:\n{}", finished.stderr);
        }
    };
    files.dir.write("empty.pem", "");
    files.dir.write("broken.pem", "-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----\n");
    files.dir.write("cut.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    files.dir.write(
        "locked.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIIB\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    check("none.pem", "server.key", &[], 1, &["none.pem for the server certificate", "PEM"]);
    check("server.pem", "none.key", &[], 1, &["none.key for the server key", "PEM"]);
    check("empty.pem", "server.key", &[], 1, &["empty.pem", "no -----BEGIN CERTIFICATE-----"]);
    check("broken.pem", "server.key", &[], 1, &["broken.pem"]);
    check("cut.pem", "server.key", &[], 1, &["cut.pem cannot be read"]);
    check("server.key", "server.key", &[], 1, &["server.key", "no -----BEGIN CERTIFICATE-----"]);
    check("server.pem", "server.pem", &[], 1, &["server.pem", "no -----BEGIN PRIVATE KEY-----"]);
    check("server.pem", "locked.key", &[], 1, &["locked.key", "passphrase", "openssl pkey"]);
    check("server.pem", "client.key", &[], 1, &["client.key does not match", "server.pem"]);
    let key = files.path("server.key");
    check("server.pem", "server.key", &["--grpc-tls-ca", &key], 1, &["server.key", "client CA"]);
    // Incomplete flags.
    for (flags, part) in [
        (&["--grpc-tls-cert", "x"][..], "--grpc-tls-key"),
        (&["--grpc-tls-key", "x"], "--grpc-tls-cert"),
        (&["--grpc-tls-ca", "x"], "--grpc-tls-cert"),
        (&["--grpc-server-cert", "x"], "unencrypted: add it"),
        (&["--grpc-server-with-client-auth"], "without --grpc-server-ssl"),
        (&["--grpc-server-ssl", "--grpc-server-key", "x"], "needs --grpc-server-cert FILE"),
        (&["--grpc-server-ssl", "--grpc-server-cert", "x"], "needs --grpc-server-key FILE"),
        (
            &[
                "--grpc-server-ssl",
                "--grpc-server-cert=x",
                "--grpc-server-key=x",
                "--grpc-server-with-client-auth",
            ],
            "needs --grpc-server-cacert FILE",
        ),
    ] {
        let mut command = pointsman(&["switch"]);
        command.args(flags);
        let finished = finish(command);
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert!(finished.stderr.contains(part), "{flags:?}: {}", finished.stderr);
    }
}

/// finsy with TLS and mutual TLS, a wrong authority and no certificate.
#[test]
fn finsy_over_tls() {
    let Some(python) = Client::Finsy.python("finsy_over_tls") else { return };
    let files = Files::new("finsy-tls");
    for (class, mutual) in [("test_tls.Tls", false), ("test_tls.MutualTls", true)] {
        let switch = files.switch(mutual);
        let mut command = Command::new(&python);
        command
            .args(["-m", "unittest", "--quiet", class])
            .current_dir(root().join("tests/clients"))
            .env("POINTSMAN_TARGET", switch.address.to_string())
            .env("POINTSMAN_CERTIFICATES", files.path(""))
            .env("PYTHONDONTWRITEBYTECODE", "1");
        let python = finish(command);
        let switch = switch.stop(Signal::SIGTERM);
        assert_eq!(python.code, Some(0), "{}\nThe switch said:\n{}", python.stderr, switch.stderr);
        assert!(
            python.stderr.contains("\nOK") && !python.stderr.contains("Ran 0 tests"),
            "{}",
            python.stderr
        );
    }
}
