//! HalfSipHash-2-4 with a digest of 64 bits: it signs load reports and RedPlane's messages, and the data plane verifies it.
//!
//! A keyed hash in words of 32 bits, made for short messages (Aumasson and Bernstein, "SipHash: a fast short-input
//! PRF", 2012; the half variant is that of the reference implementation). Its key has 64 bits, the most that a switch
//! can afford; an attacker who can try 2^64 keys can forge reports.

fn round(v: &mut [u32; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(5) ^ v[0];
    v[0] = v[0].rotate_left(16);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(8) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(7) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[2];
    v[2] = v[2].rotate_left(16);
}

fn word(v: &mut [u32; 4], word: u32) {
    v[3] ^= word;
    round(v);
    round(v);
    v[0] ^= word;
}

/// The digest that `key` makes of `message`.
pub fn half_sip_hash(key: [u8; 8], message: &[u8]) -> [u8; 8] {
    let [a, b, c, d, e, f, g, h] = key;
    let (k0, k1) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
    // The 0xee selects a digest of 64 bits.
    let mut v = [k0, k1 ^ 0xee, 0x6c79_6765 ^ k0, 0x7465_6462 ^ k1];
    let (words, rest) = message.as_chunks::<4>();
    for w in words {
        word(&mut v, u32::from_le_bytes(*w));
    }
    // The length modulo 256 in the high byte, the remaining bytes below it.
    let mut last = (message.len() as u32) << 24;
    for (i, byte) in rest.iter().enumerate() {
        last |= u32::from(*byte) << (8 * i);
    }
    word(&mut v, last);
    let half = |v: &mut [u32; 4]| {
        for _ in 0..4 {
            round(v);
        }
        (v[1] ^ v[3]).to_le_bytes()
    };
    v[2] ^= 0xee;
    let low = half(&mut v);
    v[1] ^= 0xdd;
    let high = half(&mut v);
    let mut out = [0; 8];
    out[..4].copy_from_slice(&low);
    out[4..].copy_from_slice(&high);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published vectors: the digest of 0, 1, 2 ... n-1 under the key 0, 1 ... 7, for n from 0 to 63.
    #[rustfmt::skip]
    const VECTORS: [u64; 64] = [
        0x218d1f59b9b83cc8, 0xbe552412f8387315, 0x064f39ef7c50eb57, 0xce0f1a45f7060679,
        0xd5e78a175be52ea1, 0xcb9d7c3f2f3db580, 0xce3e91358aa2bc25, 0xff202728b07bc684,
        0xedfee820bce4858c, 0x5b51cccc13888307, 0x95b0469f06a6f2ee, 0xae26333994ddcd48,
        0x7bc71f9faef5c799, 0x5a2352d75a0c3744, 0x3bb1a870eae8e658, 0x217d0bcb4e81c902,
        0x7336aad25f7bf3b5, 0x37adc0641c4c4f6a, 0xc9b2db2b9a3e42f9, 0xf910e48020ab363c,
        0x1bf52b0a6feea7db, 0x00741dc269e8b3ef, 0xe20103fa1ba776ef, 0x4c2210e54b681d73,
        0x70741045ae3fa6f1, 0x0c86403739714038, 0x0d899ed8112923f0, 0x226bf5fab81ee1b8,
        0x2d925ffb1e0016b5, 0x361958d52cee10f1, 0x291aaf864898179d, 0x863c7f155c34117c,
        0x28709d46d811626c, 0x248477681d28f89c, 0x8324e4d7528f9830, 0xf9efd4e13aea6bd8,
        0x86d67a40ec4276dc, 0x3f6292eccca97e35, 0xcbd92ee724d42109, 0x368df6808d403d79,
        0x5b38c81c67c8ae4c, 0x95ab7189d439acb3, 0xa91a52c025327024, 0x5b0087c69528acea,
        0x1e30f3ad27dcb15a, 0x697f5c9a90324ed4, 0x495c0f995557dc38, 0x9427202a3c29f94d,
        0xa9eaa8c04ba93e3e, 0xeea4c1737d011218, 0x912d568fd8f65a49, 0x56919596b0ff5c97,
        0x02445a7998f550e1, 0x86ec466ce71d1fb2, 0x359569e7d289e3bc, 0x871b05ca62bb7c96,
        0xa1a492f942f15f1d, 0x12ec267ff6095b6e, 0x5d1b5ea1b231d89d, 0xd8cfb4453f92ee54,
        0xd6762890bf26e460, 0x313563a4b7ed5cf3, 0xf90b3ab572d46693, 0x2ea63c71bf326087,
    ];

    #[test]
    fn published_vectors() {
        let message: Vec<u8> = (0..64).collect();
        for (n, expected) in VECTORS.iter().enumerate() {
            let digest = half_sip_hash([0, 1, 2, 3, 4, 5, 6, 7], &message[..n]);
            assert_eq!(digest, expected.to_be_bytes(), "{n} bytes");
        }
    }
}
