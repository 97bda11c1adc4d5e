// SPDX-License-Identifier: Apache-2.0
// The same with its entries in the switch.

#define PLAIN
#include "../../main.p4"
