// SPDX-License-Identifier: Apache-2.0
// A router whose counters are in the switch.

#define FLOWS 65536
#define PLAIN
#include "../../main.p4"
