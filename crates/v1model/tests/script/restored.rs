//! States that are taken out of one switch and put into another.

use super::*;
use pointsman_v1model::{Generator, RestoreError, SwitchState, Trigger};

/// The queues of [`limited`], and packets that the switch makes by itself.
fn busy(switch: &mut Switch<Tested>) -> Result<(), ConfigError> {
    limited(switch)?;
    let periodic = Generator {
        trigger: Trigger::Period(5_777_777),
        packets: 2,
        port: 3,
        header: true,
        template: vec![0x15, 0x2a, 0x3f, 1, 2, 3, 4, 5],
    };
    let at_loss = Generator { trigger: Trigger::PortDown, header: false, ..periodic.clone() };
    switch.set_generator(Time(5), 7, Some(periodic))?;
    switch.set_generator(Time(6), 9, Some(at_loss))?;
    switch.set_port_status(6, false);
    Ok(())
}

fn config(seed: u64) -> SwitchConfig {
    let config = SwitchConfig { cpu_port: Some(500), queues_per_port: 2, seed, ..SwitchConfig::default() };
    // So that it comes to rest.
    SwitchConfig { max_descendants: Some(50), ..config }
}

fn exported(switch: &Switch<Tested>, now: Time) -> Outcome<SwitchState> {
    switch.export(now).ok_or_else(|| "no program".into())
}

/// Lets a switch come to rest: no packet is inside. Generators' packets come in all the time, so this ends when none is inside.
fn rest(rig: &mut Rig) -> Outcome {
    for _ in 0..1000 {
        if rig.switch.stats().queued == 0 {
            return Ok(());
        }
        rig.pass(rig.now.plus_ns(50_000))?;
    }
    Err("it does not come to rest".into())
}

/// A new switch with the state of another one, some time later, by way of bytes. Its own seed does not matter.
fn copy(rig: &Rig, pipeline: &Pipeline, later_ns: u64) -> Outcome<Rig> {
    let saved = exported(&rig.switch, rig.now)?;
    same(saved.in_flight(), 0)?;
    let bytes = saved.to_bytes();
    let read = SwitchState::from_bytes(&bytes).map_err(|e| e.to_string())?;
    same(&read, &saved)?;
    let mut new = Rig::new(config(99), pipeline.clone())?;
    new.now = rig.now.plus_ns(later_ns);
    new.switch.restore(new.now, &read).map_err(|e| e.to_string())?;
    same(exported(&new.switch, new.now)?.hash(), saved.hash())?;
    Ok(new)
}

/// Gives the same random packets to a switch that runs `NAME.p4`, and to one that got its state: they do the same, and end in the
/// same state. Then the second one is the first one.
pub fn feed(dir: &Path, name: &str, packets: u64) -> Outcome {
    let pipeline = load(&dir.join(format!("{name}.p4")))?;
    let text = std::fs::read_to_string(dir.join(format!("{name}.test"))).map_err(|e| e.to_string())?;
    let mut random = Random::new(packets);
    let mut rig = rig_of(&pipeline, &text, config(1), busy)?;
    let mut fed = 0;
    while fed < packets {
        rest(&mut rig)?;
        // Messages that wait are not part of the state.
        seen_since(&mut rig, 0);
        let later_ns = random.below(10_000_000);
        let mut new = copy(&rig, &pipeline, later_ns)?;
        for _ in 0..30 {
            fed += 1;
            let bytes: Vec<u8> = (0..random.below(64)).map(|_| random.next_u64() as u8 & 0x3f).collect();
            let (port, pause) = (random.below(8) as u32, random.below(100_000));
            for rig in [&mut rig, &mut new] {
                rig.pass(rig.now.plus_ns(pause))?;
                rig.switch.receive(rig.now, port, &bytes);
                rig.pass(rig.now)?;
            }
            compare(&mut rig, &mut new, later_ns).map_err(|e| format!("after {fed} packets: {e}"))?;
        }
        rest(&mut rig)?;
        rest(&mut new)?;
        compare(&mut rig, &mut new, later_ns)?;
        same(exported(&new.switch, new.now)?.hash(), exported(&rig.switch, rig.now)?.hash())?;
        rig = new;
    }
    Ok(())
}

/// Everything that left since the last call, and the messages to the control plane; all times as if `shift_ns` had not passed.
fn seen_since(rig: &mut Rig, shift_ns: u64) -> String {
    let at = |time: Time| time.0 - shift_ns;
    let left: Vec<_> = rig.outputs.left.drain(..).map(|l| (l.to, l.packet, at(l.at))).collect();
    let digests: Vec<_> = rig.switch.take_digests().into_iter().map(|d| (at(d.time), d.ty, d.data)).collect();
    let events: Vec<_> = rig.switch.take_events().into_iter().map(|e| (at(e.time), e.kind)).collect();
    format!("{:?}", (at(rig.now), left, digests, events, std::mem::take(&mut rig.idle)))
}

/// Compares what two switches did.
fn compare(rig: &mut Rig, new: &mut Rig, later_ns: u64) -> Outcome {
    let (want, got) = (seen_since(rig, 0), seen_since(new, later_ns));
    if got == want { Ok(()) } else { Err(format!("it is {got}, not {want}")) }
}

/// A state of `NAME.p4` with something in every part of it.
fn sample(dir: &Path, name: &str) -> Outcome<(Rig, SwitchState)> {
    let pipeline = load(&dir.join(format!("{name}.p4")))?;
    let text = std::fs::read_to_string(dir.join(format!("{name}.test"))).map_err(|e| e.to_string())?;
    let mut rig = rig_of(&pipeline, &text, config(1), busy)?;
    let mut random = Random::new(3);
    for _ in 0..50 {
        let bytes: Vec<u8> = (0..20).map(|_| random.next_u64() as u8 & 0x3f).collect();
        rig.pass(rig.now.plus_ns(10_000))?;
        rig.switch.receive(rig.now, random.below(8) as u32, &bytes);
    }
    rest(&mut rig)?;
    let mut saved = exported(&rig.switch, rig.now)?;
    saved.attachment = vec![1, 2, 3];
    Ok((rig, saved))
}

/// Flips bytes of a state, cuts it, and gives it right checksums again: errors, or another state, but nothing worse.
pub fn damage(dir: &Path, name: &str) -> Outcome {
    let (mut rig, saved) = sample(dir, name)?;
    let bytes = saved.to_bytes();
    let before = exported(&rig.switch, rig.now)?.hash();
    for cut in 0..bytes.len() {
        match SwitchState::from_bytes(&bytes[..cut]) {
            Err(RestoreError::NotAState | RestoreError::Truncated { .. }) => {}
            other => return Err(format!("cut to {cut} bytes: {other:?}")),
        }
    }
    let mut random = Random::new(8);
    let mut refused = 0;
    for round in 0..4000 {
        let mut wrong = bytes.clone();
        let at = random.below(bytes.len() as u64) as usize;
        wrong[at] ^= 1 + random.below(255) as u8;
        if let Ok(read) = SwitchState::from_bytes(&wrong) {
            return Err(format!("byte {at} is wrong, and it is read: {read:?}"));
        }
        // One that was forged: its checksum is right.
        let forged = SwitchState::from_bytes(&forge(&bytes, &mut random));
        match forged.and_then(|forged| rig.switch.restore(rig.now, &forged)) {
            Err(_) => {
                refused += 1;
                same(exported(&rig.switch, rig.now)?.hash(), before)?;
            }
            Ok(()) => {
                // What it accepts, it can run, and gives again.
                exported(&rig.switch, rig.now)?;
                rig.switch.receive(rig.now, round % 8, &[0x15; 30]);
                rig.switch.poll(rig.now, 100, &mut rig.outputs);
                rig.switch.restore(rig.now, &saved).map_err(|e| e.to_string())?;
                rig.outputs.left.clear();
            }
        }
    }
    if refused < 1000 { Err(format!("only {refused} were refused")) } else { Ok(()) }
}

/// Some other bytes, and the checksum (FNV-1a) that goes with them.
fn forge(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut forged = bytes[..bytes.len() - 16].to_vec();
    for _ in 0..1 + random.below(3) {
        // Behind magic number, version and length.
        let at = 20 + random.below(forged.len() as u64 - 20) as usize;
        match random.below(3) {
            0 => forged[at] = 0xff,
            1 => forged[at] = 0,
            _ => forged[at] ^= 1 << random.below(8),
        }
    }
    let step = |sum: u128, byte: &u8| (sum ^ u128::from(*byte)).wrapping_mul(1 << 88 | 0x13b);
    let sum = forged.iter().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step);
    forged.extend(u128::to_be_bytes(sum));
    forged
}

/// Errors that say what is wrong.
pub fn refusals(dir: &Path) -> Outcome {
    let (rig, saved) = sample(dir, "objects")?;
    let bytes = saved.to_bytes();
    same(SwitchState::from_bytes(b"").err(), Some(RestoreError::NotAState))?;
    same(SwitchState::from_bytes(b"#include <core.p4>").err(), Some(RestoreError::NotAState))?;
    let mut newer = bytes.clone();
    newer[11] = 9;
    same(SwitchState::from_bytes(&newer).err(), Some(RestoreError::Version { found: 9, known: 2 }))?;
    let longer = [&bytes[..], &[0]].concat();
    same(SwitchState::from_bytes(&longer).err(), Some(RestoreError::Damaged))?;
    let (mut other, _) = sample(dir, "selector")?;
    let error = other.switch.restore(other.now, &saved).err().ok_or("it is of another program")?;
    let text = error.to_string();
    let names = [saved.program(), other.switch.pipeline().ok_or("no program")?.program_id()];
    for name in names {
        if !text.contains(&name.to_string()) {
            return Err(format!("{name} is not in: {text}"));
        }
    }
    let mut empty = Switch::<Tested>::new(config(1)).map_err(|e| e.to_string())?;
    same(empty.export(Time::ZERO).is_none(), true)?;
    let error = empty.restore(Time::ZERO, &saved).err().ok_or("it has no program")?;
    same(error, RestoreError::OtherProgram { saved: saved.program().clone(), running: None })?;
    let pipeline = load(&dir.join("objects.p4"))?;
    let mut single = Rig::new(SwitchConfig::default(), pipeline)?;
    let error = single.switch.restore(rig.now, &saved).err().ok_or("it has other queues")?;
    same(error.to_string(), "queues: 2 queues per port, the switch has 1".into())?;
    // A program with idle timeouts.
    let (rig, saved) = sample(dir, "externs")?;
    let early = Rig::new(config(1), load(&dir.join("externs.p4"))?)?.switch.restore(Time(1), &saved);
    same(early, Err(RestoreError::TooEarly { now_ns: 1, least_ns: rig.now.0 }))?;
    // A program that reads timestamps.
    let (rig, saved) = sample(dir, "queues")?;
    let nanoseconds = SwitchConfig { nanoseconds: true, ..config(1) };
    let mut other = Rig::new(nanoseconds, load(&dir.join("queues.p4"))?)?;
    let error = other.switch.restore(rig.now, &saved).err().ok_or("its clock has another unit")?;
    same(error.to_string(), "clock: timestamps have another unit (microseconds, nanoseconds)".into())
}
