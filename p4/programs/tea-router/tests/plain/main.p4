// SPDX-License-Identifier: Apache-2.0
// The same with its routes in the switch.

#define PLAIN
#include "../../main.p4"
