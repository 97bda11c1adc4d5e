//! The kernel's own description of its types (BTF), as far as finding a function goes.

/// The number by which BPF programs call the kernel's function `name`, looked up in the contents of
/// `/sys/kernel/btf/vmlinux`. `None` if the function does not exist, or the contents make no sense.
pub(crate) fn function(btf: &[u8], name: &str) -> Option<i32> {
    let word = |at: usize| {
        let bytes = btf.get(at..at + 4)?;
        Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) as usize)
    };
    const MAGIC: u16 = 0xeb9f;
    if btf.get(..2)? != MAGIC.to_ne_bytes() {
        return None;
    }
    let header = word(4)?;
    let types = btf.get(header + word(8)?..)?.get(..word(12)?)?;
    let names = btf.get(header + word(16)?..)?.get(..word(20)?)?;
    let word = |at: usize| {
        let bytes = types.get(at..at + 4)?;
        Some(u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
    };
    let (mut at, mut number) = (0, 1);
    while at < types.len() {
        let info = word(at + 4)?;
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        const FUNCTION: u32 = 12;
        if kind == FUNCTION {
            let start = word(at)? as usize;
            let rest = names.get(start..)?;
            if rest.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.first() == Some(&0)) {
                return Some(number);
            }
        }
        // The data after the three words of every type depends on its kind (Documentation/bpf/btf.rst).
        at += 12
            + match kind {
                1 | 14 | 17 => 4,
                3 => 12,
                4 | 5 | 15 | 19 => count * 12,
                6 | 13 => count * 8,
                2 | 7..=12 | 16 | 18 => 0,
                _ => return None,
            };
        number += 1;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three types: an int, a structure with a member, and the function `found`.
    fn sample() -> Vec<u8> {
        let names = b"\0int\0found\0";
        let types: [u32; 3 + 1 + 3 + 3 + 3] = [1, 1 << 24, 4, 32, 0, 4 << 24 | 1, 4, 1, 1, 0, 5, 12 << 24, 7];
        let mut btf = [&0xeb9f_u16.to_ne_bytes()[..], &[1, 0]].concat();
        let types_bytes = size_of_val(&types) as u32;
        for word in [24, 0, types_bytes, types_bytes, names.len() as u32].into_iter().chain(types) {
            btf.extend_from_slice(&word.to_ne_bytes());
        }
        btf.extend_from_slice(names);
        btf
    }

    #[test]
    fn functions_are_found_by_name() {
        let btf = sample();
        assert_eq!(function(&btf, "found"), Some(3));
        for name in ["foun", "found2", "int", ""] {
            assert_eq!(function(&btf, name), None, "{name}");
        }
    }

    #[test]
    fn damaged_contents_do_no_harm() {
        let btf = sample();
        for length in 0..btf.len() {
            assert_eq!(function(&btf[..length], "found"), None, "{length} bytes");
        }
        for at in 0..btf.len() {
            for value in [0, 0x7f, 0xff] {
                let mut btf = btf.clone();
                btf[at] = value;
                function(&btf, "found");
            }
        }
    }
}
