// SPDX-License-Identifier: Apache-2.0
// Heavy hitters whose counts are lost with the switch.

#define PLAIN
#include "../../main.p4"
