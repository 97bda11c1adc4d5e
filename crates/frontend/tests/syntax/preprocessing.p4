// Directives and macros.
#include <nowhere.p4> //~ ERROR P0111 cannot find the file `nowhere.p4`
#include "here.p4" //~ ERROR P0111 cannot find the file `here.p4`
#include //~ ERROR P0110 expected a file name
#define TWICE(x) ((x) * 2)
#define TWICE(x) ((x) + (x)) //~ WARNING P0119 defined again
const bit<8> a = TWICE(3);
const bit<8> b = TWICE(3, 4); //~ ERROR P0120 takes 1 argument, not 2
//~^ ERROR P0201 expected an expression
#if defined(TWICE) && (1 << 3) == 8
#warning yes //~ WARNING P0114 yes
#else
#error no
#endif
#if 1 / 0 //~ ERROR P0117 division by zero
#elif (2 //~ ERROR P0117 expected `)`
#endif
#else //~ ERROR P0116 `#else` without `#if`
#inclde <core.p4> //~ WARNING P0110 unknown directive `#inclde`
#error give up //~ ERROR P0113 give up
#ifdef NEVER //~ ERROR P0115 this conditional is not terminated
text that is not looked at ' " §
