//! The little of eBPF (RFC 9669) that the programs of this crate are made of.

use std::os::fd::{AsRawFd, OwnedFd};

use crate::sys::bpf::Instruction;

/// A register. R1 to R5 are the arguments of calls and lost in them, R0 is the result, R10 the end of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register(u8);

pub(crate) const R0: Register = Register(0);
pub(crate) const R1: Register = Register(1);
pub(crate) const R2: Register = Register(2);
pub(crate) const R3: Register = Register(3);
pub(crate) const R6: Register = Register(6);
pub(crate) const R7: Register = Register(7);
pub(crate) const R8: Register = Register(8);
pub(crate) const R9: Register = Register(9);
pub(crate) const R10: Register = Register(10);

/// A place to jump to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label(usize);

/// A program in the making.
#[derive(Default)]
pub(crate) struct Assembler {
    code: Vec<Instruction>,
    /// Jumps and where they lead.
    jumps: Vec<(usize, Label)>,
    /// Where the labels are, once they have been put.
    labels: Vec<Option<usize>>,
}

/// Source is the immediate in these, or with [`FROM_REGISTER`] added a register.
const FROM_REGISTER: u8 = 0x08;

impl Assembler {
    fn push(&mut self, code: u8, to: Register, from: u8, offset: i16, immediate: i32) {
        self.code.push(Instruction { code, registers: to.0 | from << 4, offset, immediate });
    }

    /// `to = *(u32 *)(from + offset)`
    pub fn load32(&mut self, to: Register, from: Register, offset: i16) {
        self.push(0x61, to, from.0, offset, 0);
    }

    /// `to = *(u64 *)(from + offset)`
    pub fn load64(&mut self, to: Register, from: Register, offset: i16) {
        self.push(0x79, to, from.0, offset, 0);
    }

    /// `to = *(u16 *)(from + offset)`
    pub fn load16(&mut self, to: Register, from: Register, offset: i16) {
        self.push(0x69, to, from.0, offset, 0);
    }

    /// `*(u16 *)(to + offset) = from`
    pub fn store16(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0x6b, to, from.0, offset, 0);
    }

    /// `*(u32 *)(to + offset) = from`
    pub fn store32(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0x63, to, from.0, offset, 0);
    }

    /// `*(u64 *)(to + offset) = from`
    pub fn store64(&mut self, to: Register, offset: i16, from: Register) {
        self.push(0x7b, to, from.0, offset, 0);
    }

    /// `to = value`
    pub fn set(&mut self, to: Register, value: i32) {
        self.push(0xb7, to, 0, 0, value);
    }

    /// `to = from`
    pub fn copy(&mut self, to: Register, from: Register) {
        self.push(0xb7 | FROM_REGISTER, to, from.0, 0, 0);
    }

    /// `to += value`
    pub fn add(&mut self, to: Register, value: i32) {
        self.push(0x07, to, 0, 0, value);
    }

    /// `to += from`
    pub fn add_register(&mut self, to: Register, from: Register) {
        self.push(0x07 | FROM_REGISTER, to, from.0, 0, 0);
    }

    /// `to -= from`
    pub fn subtract_register(&mut self, to: Register, from: Register) {
        self.push(0x17 | FROM_REGISTER, to, from.0, 0, 0);
    }

    /// `to <<= bits`
    pub fn shift_left(&mut self, to: Register, bits: i32) {
        self.push(0x67, to, 0, 0, bits);
    }

    /// `to %= from`, unsigned
    pub fn modulo_register(&mut self, to: Register, from: Register) {
        self.push(0x97 | FROM_REGISTER, to, from.0, 0, 0);
    }

    /// `to = htons(to)`
    pub fn big_endian16(&mut self, to: Register) {
        self.push(0xdc, to, 0, 0, 16);
    }

    /// `to` = the map
    pub fn map(&mut self, to: Register, map: &OwnedFd) {
        const PSEUDO_MAP_FD: u8 = 1;
        self.load_map(to, PSEUDO_MAP_FD, map);
    }

    /// `to` = the address of the only entry of an array
    pub fn map_value(&mut self, to: Register, map: &OwnedFd) {
        const PSEUDO_MAP_VALUE: u8 = 2;
        self.load_map(to, PSEUDO_MAP_VALUE, map);
    }

    fn load_map(&mut self, to: Register, what: u8, map: &OwnedFd) {
        self.push(0x18, to, what, 0, map.as_raw_fd());
        self.push(0, R0, 0, 0, 0);
    }

    /// Calls a helper of the kernel.
    pub fn call(&mut self, helper: i32) {
        self.push(0x85, R0, 0, 0, helper);
    }

    /// Calls a kernel function other than a helper, by its number.
    pub fn call_function(&mut self, number: i32) {
        const PSEUDO_KFUNC_CALL: u8 = 2;
        self.push(0x85, R0, PSEUDO_KFUNC_CALL, 0, number);
    }

    /// Returns R0.
    pub fn exit(&mut self) {
        self.push(0x95, R0, 0, 0, 0);
    }

    /// A place that is still unknown.
    pub fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// The place is here.
    pub fn here(&mut self, label: Label) {
        self.labels[label.0] = Some(self.code.len());
    }

    fn jump(&mut self, code: u8, left: Register, right: u8, immediate: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(code, left, right, 0, immediate);
    }

    /// Jumps to the label if `left` is `value`.
    pub fn jump_if_equal(&mut self, left: Register, value: i32, label: Label) {
        self.jump(0x15, left, 0, value, label);
    }

    /// Jumps to the label if `left` is not `value`.
    pub fn jump_if_not_equal(&mut self, left: Register, value: i32, label: Label) {
        self.jump(0x55, left, 0, value, label);
    }

    /// Jumps to the label if `left > right`, unsigned.
    pub fn jump_if_greater(&mut self, left: Register, right: Register, label: Label) {
        self.jump(0x25 | FROM_REGISTER, left, right.0, 0, label);
    }

    /// The program. A jump to a label that was never put leads to the next instruction.
    pub fn finish(mut self) -> Vec<Instruction> {
        for (from, label) in self.jumps {
            let to = self.labels.get(label.0).copied().flatten().unwrap_or(from + 1);
            self.code[from].offset = (to as i64 - from as i64 - 1) as i16;
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_lead_to_their_labels() {
        let mut program = Assembler::default();
        let (back, end) = (program.label(), program.label());
        program.here(back);
        program.set(R0, 1);
        program.jump_if_equal(R0, 2, end);
        program.jump_if_greater(R6, R7, back);
        program.here(end);
        program.exit();
        let code = program.finish();
        let instruction =
            |code, registers, offset, immediate| Instruction { code, registers, offset, immediate };
        assert_eq!(
            code,
            [
                instruction(0xb7, 0, 0, 1),
                instruction(0x15, 0, 1, 2),
                instruction(0x2d, 0x76, -3, 0),
                instruction(0x95, 0, 0, 0),
            ]
        );
    }
}
