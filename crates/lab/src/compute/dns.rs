//! DNS: a query is written, parsed, looked up in a zone and answered, in the wire format of RFC 1035.

use super::{Answer, query_numbers};
use crate::error::{Error, Result};
use crate::rng::Rng;
use simple_dns::rdata::{A, RData};
use simple_dns::{CLASS, Name, Packet, QCLASS, QTYPE, Question, RCODE, ResourceRecord, TYPE};
use std::collections::HashMap;

/// Names with an address each.
pub struct Zone {
    addresses: HashMap<String, u32>,
    names: u64,
}

fn name(number: u64) -> String {
    format!("host{number}.rack{}.example", number % 64)
}

/// One in this many queries asks for a missing name.
const ABSENT: u64 = 20;

impl Zone {
    pub fn new(names: usize, seed: u64) -> Result<Self> {
        let mut rng = Rng::for_part(seed, "dns");
        let addresses = (0..names as u64).map(|n| (name(n), 0x0a00_0000 | (rng.next_u64() as u32 >> 8)));
        let zone = Zone { addresses: addresses.collect(), names: names as u64 };
        // So that what could be wrong with messages is known before the first request.
        let query = zone.query(0).map_err(|e| Error::new(format!("dns: cannot write a query: {e}")))?;
        zone.response(&query).map_err(|e| Error::new(format!("dns: cannot answer a query: {e}")))?;
        Ok(zone)
    }

    /// The message that asks.
    fn query(&self, query: u64) -> simple_dns::Result<Vec<u8>> {
        let mut rng = query_numbers(query);
        let absent = rng.next_u64().is_multiple_of(ABSENT);
        let number = rng.next_u64() % self.names + if absent { self.names } else { 0 };
        let name = name(number);
        let mut packet = Packet::new_query(query as u16);
        let question =
            Question::new(Name::new(&name)?, QTYPE::TYPE(TYPE::A), QCLASS::CLASS(CLASS::IN), false);
        packet.questions.push(question);
        packet.build_bytes_vec()
    }

    /// The message that answers, and how many addresses it has.
    fn response(&self, query: &[u8]) -> simple_dns::Result<(Vec<u8>, usize)> {
        let asked = Packet::parse(query)?;
        let mut packet = Packet::new_reply(asked.id());
        for question in &asked.questions {
            packet.questions.push(question.clone());
            match self.addresses.get(&question.qname.to_string()) {
                Some(address) => {
                    let data = RData::A(A { address: *address });
                    packet.answers.push(ResourceRecord::new(question.qname.clone(), CLASS::IN, 300, data));
                }
                None => *packet.rcode_mut() = RCODE::NameError,
            }
        }
        let found = packet.answers.len();
        Ok((packet.build_bytes_vec_compressed()?, found))
    }
}

impl Answer for Zone {
    /// How many addresses were found, and a sum over the response.
    fn answer(&self, query: u64) -> (u64, f64) {
        let Ok(asked) = self.query(query) else { return (0, 0.0) };
        let Ok((bytes, found)) = self.response(&asked) else { return (0, 0.0) };
        (found as u64, bytes.iter().map(|b| f64::from(*b)).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        let zone = Zone::new(50, 3).expect("a zone");
        let mut absent = 0;
        for number in 0..400 {
            let query = zone.query(number).expect("a query");
            let (bytes, found) = zone.response(&query).expect("a response");
            let (asked, answer) =
                (Packet::parse(&query).expect("good"), Packet::parse(&bytes).expect("good"));
            assert_eq!((asked.id(), answer.questions.len()), (answer.id(), 1));
            let name = asked.questions[0].qname.to_string();
            let wanted = zone.addresses.get(&name).copied();
            let got = answer.answers.first().and_then(|r| match &r.rdata {
                RData::A(a) => Some(a.address),
                _ => None,
            });
            assert_eq!((got, found), (wanted, usize::from(wanted.is_some())));
            absent += usize::from(answer.rcode() == RCODE::NameError);
        }
        assert!((5..60).contains(&absent), "{absent}");
        assert!(zone.response(&[1, 2, 3]).is_err());
    }
}
