// Packets that the switch's generators make (docs/v1model.md, "Packet generators").

#ifndef POINTSMAN_GENERATOR_P4
#define POINTSMAN_GENERATOR_P4

/// The header in front of a generator's template.
header generated_t {
    /// Number of the generator.
    bit<16> generator;
    /// The port that went down; 0 of a periodic generator.
    bit<16> port;
    /// How often the generator made packets before this time.
    bit<32> batch;
    /// Number of the packet among those made at the same time, from 0.
    bit<16> packet;
}

#endif
