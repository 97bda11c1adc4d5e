//! Device configurations inside a `p4.tmp.P4DeviceConfig`, a message that clients of the PI library put around them.

use prost::Message;
use std::borrow::Cow;

/// `p4.tmp.P4DeviceConfig`, with all fields but the data left undecoded.
#[derive(Clone, PartialEq, Message)]
struct Wrapper {
    #[prost(bool, tag = "1")]
    reassign: bool,
    #[prost(bytes = "vec", tag = "2")]
    extras: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    device_data: Vec<u8>,
}

/// First bytes of such messages: field 1, a number, and fields 2 and 3, of any length. No text starts with them.
const FIRST: [u8; 3] = [0x08, 0x12, 0x1a];

/// The device configuration in `bytes`: their `device_data` if they are such a message, else all of them.
pub(crate) fn unwrap(bytes: &[u8]) -> Cow<'_, [u8]> {
    if !bytes.first().is_some_and(|b| FIRST.contains(b)) {
        return Cow::Borrowed(bytes);
    }
    match Wrapper::decode(bytes) {
        Ok(wrapper) => Cow::Owned(wrapper.device_data),
        Err(_) => Cow::Borrowed(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(device_data: &str) -> Vec<u8> {
        let extras = vec![0x0a, 2, 0x0a, 0];
        Wrapper { reassign: true, extras, device_data: device_data.into() }.encode_to_vec()
    }

    #[test]
    fn gives_the_data_inside() {
        let data = "control C() { apply { } }".repeat(20);
        assert_eq!(wrapped(&data)[..2], [8, 1]);
        assert_eq!(unwrap(&wrapped(&data)), data.as_bytes());
        // Only the data, as one of the fields may be missing.
        let bare = Wrapper { device_data: data.clone().into(), ..Wrapper::default() }.encode_to_vec();
        assert_eq!(unwrap(&bare), data.as_bytes());
    }

    #[test]
    fn leaves_everything_else() {
        for bytes in ["", "header h_t { }", "{\"header_types\": []}", "\u{1a}"] {
            assert_eq!(unwrap(bytes.as_bytes()), bytes.as_bytes());
        }
        let mut cut = wrapped("control");
        cut.pop();
        assert_eq!(unwrap(&cut), cut);
    }
}
