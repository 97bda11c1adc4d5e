// SPDX-License-Identifier: Apache-2.0
// A VPN gateway whose entries are in the switch.

#define PLAIN
#include "../../main.p4"
