//! Commands of simple_switch_CLI on registers, counters and meters, as P4Runtime's updates.

use crate::commands::CommandError;
use crate::entries::{Names, number_of_text, of_name, preamble, update, width};
use crate::runtime::Placed;
use pointsman_control::bytestring::of_number;
use pointsman_control::proto::p4info::{self, P4Info};
use pointsman_control::proto::p4rt;
use pointsman_control::proto::p4rt::entity::Entity;

/// The commands that are carried out.
pub(crate) const COMMANDS: &str =
    "register_write, register_reset, counter_write, counter_reset, meter_set_rates, meter_array_set_rates";

/// Meters have rates per second here, and per microsecond in BMv2.
const PER_SECOND: f64 = 1e6;

/// Carries out a command on an array. `None`: it is another command. `before` has the updates of the lines above: commands on direct
/// meters are for the entries there.
///
/// # Errors
/// The program has no such array, or the values do not fit.
pub(crate) fn command(
    names: &Names<'_>,
    words: &[&str],
    before: &[Placed],
) -> Option<Result<Vec<p4rt::Update>, CommandError>> {
    let info = names.0;
    Some(match words {
        ["register_write", name, index, value] => register(info, name, Some(index), value),
        ["register_reset", name] => register(info, name, None, "0"),
        ["counter_write", name, index, packets, bytes] => counter(info, name, Some(index), [packets, bytes]),
        ["counter_reset", name] => counter(info, name, None, ["0", "0"]),
        ["meter_set_rates", name, index, rates @ ..] => meter(info, name, Some(index), rates, before),
        ["meter_array_set_rates", name, rates @ ..] => meter(info, name, None, rates, before),
        _ => return None,
    })
}

fn modified(entity: Entity) -> Vec<p4rt::Update> {
    vec![update(p4rt::update::Type::Modify, entity)]
}

fn id(of: &Option<p4info::Preamble>) -> u32 {
    preamble(of).2
}

/// A cell; without one, all of them.
fn cell(index: Option<&str>) -> Result<Option<p4rt::Index>, CommandError> {
    let number = |text| Ok(p4rt::Index { index: number_of_text(text, 31)? as i64 });
    index.map(number).transpose()
}

fn register(
    info: &P4Info,
    name: &str,
    index: Option<&str>,
    value: &str,
) -> Result<Vec<p4rt::Update>, CommandError> {
    let register = of_name("register", &info.registers, |r| &r.preamble, name)?;
    let value = number_of_text(value, register_width(register)?)?;
    let data = p4rt::P4Data { data: Some(p4rt::p4_data::Data::Bitstring(of_number(value))) };
    let entry =
        p4rt::RegisterEntry { register_id: id(&register.preamble), index: cell(index)?, data: Some(data) };
    Ok(modified(Entity::RegisterEntry(entry)))
}

/// The width of a register's cells, in bits.
fn register_width(register: &p4info::Register) -> Result<u32, CommandError> {
    use p4info::p4_bitstring_like_type_spec::TypeSpec as Bits;
    use p4info::p4_data_type_spec::TypeSpec;
    let spec = register.type_spec.as_ref().and_then(|spec| spec.type_spec.as_ref());
    let Some(TypeSpec::Bitstring(spec)) = spec else {
        return Err(CommandError::NotNumbers);
    };
    match &spec.type_spec {
        Some(Bits::Bit(bits)) => Ok(width(bits.bitwidth)?),
        Some(Bits::Int(bits)) => Ok(width(bits.bitwidth)?),
        _ => Err(CommandError::NoWidth),
    }
}

fn counter(
    info: &P4Info,
    name: &str,
    index: Option<&str>,
    values: [&str; 2],
) -> Result<Vec<p4rt::Update>, CommandError> {
    let counter = of_name("counter", &info.counters, |c| &c.preamble, name)?;
    let number = |text| number_of_text(text, 63).map(|n| n as i64);
    let data = p4rt::CounterData { packet_count: number(values[0])?, byte_count: number(values[1])? };
    let entry =
        p4rt::CounterEntry { counter_id: id(&counter.preamble), index: cell(index)?, data: Some(data) };
    Ok(modified(Entity::CounterEntry(entry)))
}

fn meter(
    info: &P4Info,
    name: &str,
    index: Option<&str>,
    rates: &[&str],
    before: &[Placed],
) -> Result<Vec<p4rt::Update>, CommandError> {
    let config = Some(config(rates)?);
    let is_direct = of_name("meter", &info.direct_meters, |m| &m.preamble, name);
    let Ok(direct) = is_direct else {
        let meter = of_name("meter", &info.meters, |m| &m.preamble, name)?;
        let meter_id = id(&meter.preamble);
        let entry = p4rt::MeterEntry { meter_id, index: cell(index)?, config, ..Default::default() };
        return Ok(modified(Entity::MeterEntry(entry)));
    };
    let entries: Vec<&p4rt::TableEntry> =
        before.iter().filter_map(|(_, u)| entry_of(u, direct.direct_table_id)).collect();
    let chosen = match index {
        None => &entries[..],
        Some(text) => {
            let at = number_of_text(text, 31)? as usize;
            entries.get(at..=at).ok_or(CommandError::NoEntry(at, entries.len()))?
        }
    };
    let of = |entry: &&p4rt::TableEntry| {
        let key = p4rt::TableEntry { action: None, ..(*entry).clone() };
        let entry = p4rt::DirectMeterEntry { table_entry: Some(key), config, ..Default::default() };
        update(p4rt::update::Type::Modify, Entity::DirectMeterEntry(entry))
    };
    Ok(chosen.iter().map(of).collect())
}

/// The entry that an update adds to this table.
fn entry_of(update: &p4rt::Update, table: u32) -> Option<&p4rt::TableEntry> {
    match update.entity.as_ref()?.entity.as_ref()? {
        Entity::TableEntry(e) if e.table_id == table && !e.is_default_action => Some(e),
        _ => None,
    }
}

/// `RATE:BURST RATE:BURST`: the committed rate and the peak rate, in units per microsecond.
fn config(rates: &[&str]) -> Result<p4rt::MeterConfig, CommandError> {
    let one = |word: &str| {
        let (rate, burst) = word.split_once(':')?;
        let rate: f64 = rate.parse().ok().filter(|r: &f64| (0.0..=1e12).contains(r))?;
        Some(((rate * PER_SECOND).round() as i64, number_of_text(burst, 63).ok()? as i64))
    };
    let read: Option<Vec<(i64, i64)>> = rates.iter().map(|word| one(word)).collect();
    match read.as_deref() {
        Some([(cir, cburst), (pir, pburst)]) => Ok(p4rt::MeterConfig {
            cir: *cir,
            cburst: *cburst,
            pir: *pir,
            pburst: *pburst,
            ..Default::default()
        }),
        _ => Err(CommandError::Rates),
    }
}
