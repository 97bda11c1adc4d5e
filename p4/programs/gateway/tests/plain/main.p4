// SPDX-License-Identifier: Apache-2.0
// A serving gateway whose tunnels are lost with the switch.

#define PLAIN
#include "../../main.p4"
