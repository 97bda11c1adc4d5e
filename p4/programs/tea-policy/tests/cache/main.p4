// SPDX-License-Identifier: Apache-2.0
// The same with a cache of four entries.

#define TEA_CACHE 4
#include "../../main.p4"
