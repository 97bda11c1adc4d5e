// Text that is not P4: characters, comments, strings, integers.
const bit<8> a = 'x'; //~ ERROR P0101 unexpected `'` //~ ERROR P0101 unexpected `'`
const bit<8> größe = 1; //~ ERROR P0101 unexpected `öß` //~ ERROR P0201 expected `=`
const bit<8> b = 0b102; //~ ERROR P0103 `2` is not a binary digit
const bit<8> c = 8w0x; //~ ERROR P0103 no digits
const bit<8> d = 12ab; //~ ERROR P0103
const bit<8> e = 99999999999w1; //~ ERROR P0103 width is too large
const bit<8> f = 1 \ + 2; //~ ERROR P0101 unexpected `\`
const bit<8> g = 3; // fine
@text(it's anything, "but strings" $ § 12ab)
const bit<8> h = 4;
const string s = "two
lines \" ";
const string t = "three; //~ ERROR P0104 this string is not terminated
const string u = 3 +; //~ ERROR P0201
