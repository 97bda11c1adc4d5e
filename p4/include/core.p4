// SPDX-License-Identifier: Apache-2.0
// The core library of P4_16: what every architecture has (P4_16 specification, appendix D).

// Programs test whether this name is defined.
#ifndef _CORE_P4_
#define _CORE_P4_

// Standard errors. The order gives their numbers; programs add theirs behind.
error {
    NoError,             // no error
    PacketTooShort,      // extract or lookahead past the end of the packet
    NoMatch,             // a select without a matching case
    StackOutOfBounds,    // next or last outside of a header stack
    HeaderTooShort,      // a varbit field longer than its maximum
    ParserTimeout,       // the parser did not come to an end in time
    ParserInvalidArgument // an argument that the target does not support
}

match_kind {
    exact,   // all bits equal
    ternary, // equal under a mask
    lpm      // longest prefix
}

// The packet as a parser reads it.
extern packet_in {
    // Reads a header of fixed width, sets it valid and advances.
    void extract<T>(out T hdr);
    // The same for a header with one varbit field, which gets that many bits.
    void extract<T>(out T variableSizeHeader, in bit<32> variableFieldSizeInBits);
    // Reads without advancing.
    T lookahead<T>();
    // Skips bits.
    void advance(in bit<32> sizeInBits);
    // Length of the whole packet in bytes.
    bit<32> length();
}

// The packet as a deparser writes it.
extern packet_out {
    // Appends a header if it is valid; structs, stacks and unions element by element.
    void emit<T>(in T hdr);
}

// If the condition is false, sets the parser's error and goes to reject.
@repeatable
extern void verify(in bool check, in error toSignal);

// The action that does nothing.
@noWarn("unused")
action NoAction() {}

// Checked at compile time.
@pure
extern bool static_assert(bool check, string message);
@pure
extern bool static_assert(bool check);

#endif
