// SPDX-License-Identifier: Apache-2.0
// The same with a scratchpad in each row.

#define TEA_INLINE
#include "../../main.p4"
