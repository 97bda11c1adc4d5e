// SPDX-License-Identifier: Apache-2.0
// A key-value store whose values are lost with the switch.

#define PLAIN
#include "../../main.p4"
