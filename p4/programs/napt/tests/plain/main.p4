// SPDX-License-Identifier: Apache-2.0
// Address translation whose connections are lost with the switch.

#define PLAIN
#include "../../main.p4"
