//! Packet generators as text: `NUMBER:period=TIME,port=PORT,...`, in packet tests and on command lines.

use pointsman_v1model::units::nanoseconds;
use pointsman_v1model::{Generator, Trigger};
use std::collections::BTreeSet;
use std::fmt;

/// A packet generator and its number; without the generator, the one of this number ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// The number, as it is in the header of its packets.
    pub number: u16,
    /// What it makes.
    pub generator: Option<Generator>,
}

/// How it is written.
pub const USAGE: &str = "NUMBER:period=TIME,port=PORT[,packets=N][,header=no],template=HEX, such as \
                         1:period=1ms,port=68,template=0200000000010200000000020800; `port-down` in the place of `period=TIME` \
                         for packets when a port goes down; NUMBER:off to end it";

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| Some(c.to_digit(16)? as u8)).collect();
    let digits = digits.filter(|d| d.len() % 2 == 0)?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

/// Text that is not a packet generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeneratorError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub wrong: Wrong,
}

/// What is wrong with the text of a packet generator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// Nothing separates the number from the settings.
    NoColon,
    /// It does not begin with a number of 16 bits.
    Number,
    /// The period is not a time.
    Period,
    /// The port is not a number.
    Port,
    /// The number of packets is not a number of 16 bits.
    Packets,
    /// The header is neither wanted nor unwanted.
    Header,
    /// The template is not hexadecimal.
    Template,
    /// No setting has this name.
    Setting(String),
    /// It does not say when packets are made.
    NoTrigger,
    /// It has no port.
    NoPort,
    /// It has no template.
    NoTemplate,
    /// Something is set twice: also a period and `port-down`.
    Twice(String),
}

impl fmt::Display for GeneratorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}' ", self.text)?;
        match &self.wrong {
            Wrong::NoColon => f.write_str("has no `:`"),
            Wrong::Number => f.write_str("does not begin with a number up to 65535"),
            Wrong::Period => f.write_str("has a period that is not like 1ms"),
            Wrong::Port => f.write_str("has a port that is not a number"),
            Wrong::Packets => f.write_str("has a number of packets that is not 1 to 65535"),
            Wrong::Header => f.write_str("has a header that is neither `yes` nor `no`"),
            Wrong::Template => f.write_str("has a template that is not hexadecimal"),
            Wrong::Setting(name) => write!(f, "has the unknown setting `{name}`"),
            Wrong::NoTrigger => f.write_str("has neither a period nor `port-down`"),
            Wrong::NoPort => f.write_str("has no port"),
            Wrong::NoTemplate => f.write_str("has no template"),
            Wrong::Twice(name) => write!(f, "sets `{name}` twice"),
        }?;
        write!(f, ": write {USAGE}")
    }
}

impl std::error::Error for GeneratorError {}

/// As [`USAGE`] has it.
impl fmt::Display for Numbered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Generator { trigger, packets, port, header, template }) = &self.generator else {
            return write!(f, "{}:off", self.number);
        };
        write!(f, "{}:", self.number)?;
        match trigger {
            Trigger::Period(ns) => write!(f, "period={ns}ns"),
            Trigger::PortDown => f.write_str("port-down"),
        }?;
        let header = if *header { "yes" } else { "no" };
        write!(f, ",port={port},packets={packets},header={header},template=")?;
        template.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for Numbered {
    type Err = GeneratorError;

    fn from_str(text: &str) -> Result<Self, GeneratorError> {
        let wrong = |wrong| GeneratorError { text: text.to_string(), wrong };
        let (number, settings) = text.split_once(':').ok_or_else(|| wrong(Wrong::NoColon))?;
        let number = number.trim().parse().map_err(|_| wrong(Wrong::Number))?;
        if settings.trim() == "off" {
            return Ok(Numbered { number, generator: None });
        }
        let (mut trigger, mut port, mut packets, mut header, mut template) = (None, None, 1, true, None);
        let mut set = BTreeSet::new();
        for setting in settings.split(',').map(str::trim) {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            if !set.insert(if key == "port-down" { "period" } else { key }) {
                return Err(wrong(Wrong::Twice(key.to_string())));
            }
            match key {
                "period" => {
                    let ns = nanoseconds(value).ok_or_else(|| wrong(Wrong::Period))?;
                    trigger = Some(Trigger::Period(ns));
                }
                "port-down" if value.is_empty() => trigger = Some(Trigger::PortDown),
                "port" => port = Some(value.parse().map_err(|_| wrong(Wrong::Port))?),
                "packets" => {
                    packets = value.parse().map_err(|_| wrong(Wrong::Packets))?;
                }
                "header" => {
                    header = match value {
                        "yes" => true,
                        "no" => false,
                        _ => return Err(wrong(Wrong::Header)),
                    }
                }
                "template" => {
                    template = Some(bytes(value).ok_or_else(|| wrong(Wrong::Template))?);
                }
                other => return Err(wrong(Wrong::Setting(other.to_string()))),
            }
        }
        let trigger = trigger.ok_or_else(|| wrong(Wrong::NoTrigger))?;
        let port = port.ok_or_else(|| wrong(Wrong::NoPort))?;
        let template = template.ok_or_else(|| wrong(Wrong::NoTemplate))?;
        let generator = Generator { trigger, packets, port, header, template };
        Ok(Numbered { number, generator: Some(generator) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_text() {
        let full = Generator {
            trigger: Trigger::Period(1_000_000),
            packets: 2,
            port: 68,
            header: false,
            template: vec![0, 0xaa, 0xbb],
        };
        let read = |text: &str| text.parse::<Numbered>();
        let numbered = |number, generator| Ok(Numbered { number, generator });
        assert_eq!(
            read("1:period=1ms,port=68,packets=2,header=no,template=00AAbb"),
            numbered(1, Some(full.clone()))
        );
        let down = Generator { trigger: Trigger::PortDown, packets: 1, header: true, ..full };
        assert_eq!(read("7: port-down, port=68 ,template=00aabb"), numbered(7, Some(down)));
        assert_eq!(read("7:off"), numbered(7, None));
        for written in [
            "1:period=1000000ns,port=68,packets=2,header=no,template=00aabb",
            "7:port-down,port=68,packets=1,header=yes,template=",
            "7:off",
        ] {
            assert_eq!(read(written).map(|n| n.to_string()), Ok(written.into()));
        }
        for (text, part) in [
            ("1", "no `:`"),
            ("x:off", "up to 65535"),
            ("65536:off", "up to 65535"),
            ("1:port=1", "neither a period"),
            ("1:port-down", "no port"),
            ("1:period=1,port=1", "not like 1ms"),
            ("1:period=0ms,port=1", "not like 1ms"),
            ("1:period=99999999999999s,port=1", "not like 1ms"),
            ("1:period=1ms,port=x", "port that is not a number"),
            ("1:period=1ms,port=1,packets=70000", "1 to 65535"),
            ("1:period=1ms,port=1,header=maybe", "neither `yes` nor `no`"),
            ("1:period=1ms,port=1,template=abc", "not hexadecimal"),
            ("1:period=1ms,port=1,speed=3", "unknown setting `speed`"),
            ("1:period=1ms,port=1", "no template"),
            ("1:period=1ms,port=1,port=2,template=00", "`port` twice"),
            ("1:period=1ms,port-down,port=1,template=00", "`port-down` twice"),
        ] {
            let said = read(text).unwrap_err().to_string();
            assert!(said.contains(part) && said.contains("NUMBER:off"), "{text}: {said}");
        }
    }
}
