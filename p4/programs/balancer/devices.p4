// SPDX-License-Identifier: Apache-2.0
// How many devices a server can have, and how something is written once for all of them.
//
// The program is compiled for eight devices a server or, with `-D SERVER_DEVICES=16`, for sixteen. P4 has no arrays to compute with, and a
// pipeline stage no loops: what there is of every device (an array of registers, a field, a bit of a bitmap, an instance of a control) has
// the number of its slot in its name. The macros below take the name of another macro, which says what is written for one slot, `i`.

#ifndef BALANCER_DEVICES_P4
#define BALANCER_DEVICES_P4

#ifndef SERVER_DEVICES
#define SERVER_DEVICES 8
#endif

typedef bit<13> server_t;
typedef bit<SERVER_DEVICES> devices_t; // a bit for every device of a server

#if SERVER_DEVICES == 8
#define SLOT_BITS 3
#define DEVICE_BITS 16
// All slots: as declarations or statements, as a list, as a bitmap; and every slot with the next one (the first step is apart).
#define EACH_DEVICE(f) f(0); f(1); f(2); f(3); f(4); f(5); f(6); f(7)
#define DEVICE_LIST(f) f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7)
#define DEVICE_BITMAP(f) f(7) ++ f(6) ++ f(5) ++ f(4) ++ f(3) ++ f(2) ++ f(1) ++ f(0)
#define LATER_STEPS(f) f(1, 2) f(2, 3) f(3, 4) f(4, 5) f(5, 6) f(6, 7)
#define LAST_DEVICE(f) f(7)
// As many as there are steps, for nested choices.
#define END_STEPS )))))))
// A device's number, and what it is made of.
#define DEVICE_NUMBER(server, slot) server ++ slot
#define SLOT_OF(device) device[2:0]
// Where a field has sixteen bits for a device's number, or three for a slot: those, the highest bit in another field of `width` bits, and
// both together.
#define DEVICE_LOW(device) device
#define DEVICE_HIGH(device, width) width##w0
#define WITH_HIGH(low, high) low
// Where eight devices are named: those of the first or second half of a server.
#define OF_HALF(half, devices) devices

#elif SERVER_DEVICES == 16
#define SLOT_BITS 4
#define DEVICE_BITS 17
#define EACH_DEVICE(f) \
    f(0); f(1); f(2); f(3); f(4); f(5); f(6); f(7); f(8); f(9); f(10); f(11); f(12); f(13); f(14); f(15)
#define DEVICE_LIST(f) \
    f(0), f(1), f(2), f(3), f(4), f(5), f(6), f(7), f(8), f(9), f(10), f(11), f(12), f(13), f(14), f(15)
#define DEVICE_BITMAP(f) f(15) ++ f(14) ++ f(13) ++ f(12) ++ f(11) ++ f(10) ++ f(9) ++ f(8) \
    ++ f(7) ++ f(6) ++ f(5) ++ f(4) ++ f(3) ++ f(2) ++ f(1) ++ f(0)
#define LATER_STEPS(f) f(1, 2) f(2, 3) f(3, 4) f(4, 5) f(5, 6) f(6, 7) f(7, 8) f(8, 9) f(9, 10) f(10, 11) \
    f(11, 12) f(12, 13) f(13, 14) f(14, 15)
#define LAST_DEVICE(f) f(15)
#define END_STEPS )))))))))))))))
#define DEVICE_NUMBER(server, slot) slot[3:3] ++ server ++ slot[2:0]
#define SLOT_OF(device) (device[16:16] ++ device[2:0])
#define DEVICE_LOW(device) device[15:0]
#define DEVICE_HIGH(device, width) (bit<width>)device[16:16]
#define WITH_HIGH(low, high) (high ++ low)
#define OF_HALF(half, devices) ((half) == 1 ? devices ++ 8w0 : 8w0 ++ devices)

#else
#error "SERVER_DEVICES is 8 or 16"
#endif

#define EACH_STEP(f) f(0, 1) LATER_STEPS(f)
#define SERVER_OF(device) device[15:3]

typedef bit<SLOT_BITS> slot_t; // the place of a device in its server
// A device: server ++ slot. Of sixteen slots, the highest bit is the highest of all, so that a device in one of the first eight has the same
// number whatever the program was compiled for.
typedef bit<DEVICE_BITS> device_t;

const bit<32> DEVICE_NUMBERS = 32w1 << DEVICE_BITS;

#define SET_OF(slot) (devices_t)1 << (bit<8>)slot

#endif
