use super::*;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Three GPUs; the third is divided into two instances, and cannot read its power limit.
const LIBRARY: &str = include_str!("../../../tests/data/nvml.c");

/// A folder that is removed.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn folder(name: &str) -> Folder {
    let path = std::env::temp_dir().join(format!("pointsman-nvml-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&path).expect("a folder");
    Folder(path)
}

/// The library, built with these macros, which looks for its files in the same folder.
fn built(folder: &Path, macros: &[&str]) -> PathBuf {
    let (source, library) = (folder.join("nvml.c"), folder.join("libnvml.so"));
    std::fs::write(&source, LIBRARY).expect("a file");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", &format!("-DFOLDER=\"{}\"", folder.display())])
        .args(macros)
        .arg("-o")
        .args([&library, &source])
        .status();
    assert!(built.expect("a C compiler").success());
    library
}

fn loaded(now: Instant, library: &Path) -> Result<Nvml, NvmlError> {
    Nvml::load_from(now, vec![library.into()])
}

fn values(nvml: &Nvml, now: Instant, gpu: &str, names: &[&str]) -> Result<Vec<f64>, String> {
    let gpu = gpu.parse().expect("a GPU");
    let values = nvml.values(now, &gpu, names).map_err(|e| e.to_string())?;
    Ok(values.into_iter().map(|(_, value)| value).collect())
}

#[test]
fn values_of_gpus() {
    let (folder, now) = (folder("values"), Instant::now());
    let nvml = loaded(now, &built(&folder.0, &[])).expect("it loads");
    let all = pointsman_balance::agent::source::VALUES;
    // The same GPU, three times.
    for gpu in ["0", "GPU-aaaa", "0000:3b:00.0"] {
        assert_eq!(values(&nvml, now, gpu, &all), Ok(vec![70.0, 20.0, 25.0, 50.0, 350.0, 40.0]), "{gpu}");
    }
    assert_eq!(values(&nvml, now, "1", &["utilization", "memory"]), Ok(vec![71.0, 50.0]));
    assert_eq!(values(&nvml, now, "MIG-2222", &["memory"]), Ok(vec![12.5]));
    let error = |gpu, name| values(&nvml, now, gpu, &[name]).expect_err("no value");
    assert_eq!(error("3", "memory"), "not found: this machine has 0, 1, 2");
    assert_eq!(error("GPU-dddd", "memory"), "not found: this machine has GPU-aaaa, GPU-bbbb, GPU-cccc");
    assert_eq!(error("MIG-dddd", "memory"), "not found: this machine has MIG-1111, MIG-2222");
    let addresses = "not found: this machine has 00000000:3B:00.0, 00000000:5E:00.0, 00010000:AF:00.0";
    assert_eq!(error("00:00.0", "memory"), addresses);
    assert_eq!(error("GPU-cccc", "power"), "no `power`: NVIDIA's management library: Not Supported");
    let divided = error("GPU-cccc", "utilization");
    assert!(
        divided.starts_with("no `utilization`: NVIDIA's management library: Not Supported; it is divided"),
        "{divided}"
    );
    assert!(divided.contains("DCGM_FI_PROF_GR_ENGINE_ACTIVE"), "{divided}");
}

#[test]
fn a_list() {
    let folder = folder("list");
    let nvml = loaded(Instant::now(), &built(&folder.0, &[])).expect("it loads");
    std::fs::write(folder.0.join("lost"), "").expect("a file");
    let list = nvml.list().expect("a list");
    let [a, b, c] = &list[..] else { panic!("{list:?}") };
    let a = a.found.as_ref().expect("it is there");
    assert_eq!(
        (a.uuid.as_str(), a.address.as_str(), a.name.as_str()),
        ("GPU-aaaa", "00000000:3B:00.0", "Fake 80GB")
    );
    assert_eq!((&a.use_percent[..], &a.instances), (&[("utilization", 70.0), ("memory", 25.0)][..], &None));
    assert_eq!((b.index, b.found.as_ref().err()), (1, Some(&NvmlError::Refused(LOST, "GPU is lost".into()))));
    let c = c.found.as_ref().expect("it is there").instances.as_ref().expect("it is divided");
    let instance = |uuid: &str, id, memory| Instance {
        uuid: uuid.into(),
        name: "Fake 80GB MIG 1g.10gb".into(),
        id: Some(id),
        use_percent: vec![("memory", memory)],
    };
    assert_eq!(c[..], [instance("MIG-1111", 7, 25.0), instance("MIG-2222", 8, 12.5)]);
}

/// A GPU that is lost leaves the others alone, and comes back.
#[test]
fn a_gpu_is_lost() {
    let (folder, now) = (folder("lost"), Instant::now());
    let nvml = loaded(now, &built(&folder.0, &[])).expect("it loads");
    let use_of = |gpu| values(&nvml, now, gpu, &["utilization"]);
    let lost = folder.0.join("lost");
    std::fs::write(&lost, "").expect("a file");
    for gpu in ["1", "GPU-bbbb"] {
        let error = use_of(gpu).expect_err("it is lost");
        assert!(error.starts_with("GPU is lost; the kernel's log has the reason"), "{error}");
    }
    assert_eq!(use_of("0"), Ok(vec![70.0]));
    std::fs::remove_file(&lost).expect("it was there");
    assert_eq!(use_of("GPU-bbbb"), Ok(vec![71.0]));
}

/// A driver that was restarted needs the library to be loaded again; while one GPU answers that is left alone.
#[test]
fn the_driver_restarts() {
    let (folder, start) = (folder("restart"), Instant::now());
    let library = built(&folder.0, &[]);
    let nvml = loaded(start, &library).expect("it loads");
    let at = |seconds| start + Duration::from_secs(seconds);
    let use_of = |gpu, seconds| values(&nvml, at(seconds), gpu, &["utilization"]);
    let starts = || std::fs::read_to_string(folder.0.join("starts")).expect("it started").len();
    std::fs::write(folder.0.join("lost"), "").expect("a file");
    for second in 0..30 {
        assert!(use_of("0", second).is_ok() && use_of("1", second).is_err());
    }
    assert_eq!(starts(), 1);
    // No driver: every call fails, and starting does too, until it is there again.
    std::fs::write(folder.0.join("start"), "9").expect("a file");
    assert!(use_of("0", 30).expect_err("it has gone").ends_with("Driver Not Loaded"));
    assert!(use_of("0", 39).is_err() && use_of("0", 41).is_err() && use_of("1", 42).is_err());
    assert_eq!(starts(), 2);
    let error = use_of("0", 43).expect_err("it did not start");
    assert_eq!(error, "NVIDIA's management library is not available: Driver Not Loaded");
    std::fs::remove_file(folder.0.join("start")).expect("it was there");
    assert!(use_of("0", 48).is_err(), "too early");
    assert!(use_of("0", 49).is_err(), "it is loaded after this");
    assert_eq!((use_of("0", 50), starts()), (Ok(vec![70.0]), 3));
}

#[test]
fn an_old_library() {
    let (folder, now) = (folder("old"), Instant::now());
    let nvml = loaded(now, &built(&folder.0, &["-DOLD"])).expect("it loads");
    assert_eq!(values(&nvml, now, "0", &["utilization"]), Ok(vec![70.0]));
    assert_eq!(
        values(&nvml, now, "GPU-aaaa", &["utilization"]),
        Err("NVIDIA's management library is too old: it has no nvmlDeviceGetHandleByUUID; update the driver"
            .into())
    );
    let list = nvml.list().expect("a list");
    assert!(list.iter().all(|l| l.found.as_ref().is_ok_and(|f| f.instances.is_none())), "{list:?}");
}

#[test]
fn without_a_driver_the_reason_is_clear() {
    let (folder, now) = (folder("without"), Instant::now());
    let error = loaded(now, Path::new("libpointsman-has-no-such-library.so")).err().expect("an error");
    assert!(error.to_string().starts_with("NVIDIA's management library is not available: "), "{error}");
    std::fs::write(folder.0.join("start"), "9").expect("a file");
    let error = loaded(now, &built(&folder.0, &[])).err();
    assert_eq!(error, Some(NvmlError::Unavailable("Driver Not Loaded".into())));
}
