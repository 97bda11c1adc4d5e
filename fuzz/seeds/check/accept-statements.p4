// Statements (P4_16 chapter 12).
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<8> b;
}

struct headers_t {
    h_t h;
    h_t[4] stack;
}

enum Color {
    Red,
    Green,
    Blue
}

struct metadata_t {
    bit<8> n;
    Color color;
    bit<32> sum;
}

bit<8> next(inout bit<8> counter) {
    counter = counter + 1;
    return counter;
}

bit<8> larger(in bit<8> a, in bit<8> b) {
    if (a > b) {
        return a;
    } else {
        return b;
    }
}

void clear(out bit<8> x) {
    x = 0;
    return;
}

control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard_metadata) {
    action stop() {
        exit;
    }

    action count(in bit<8> step, bit<8> limit) {
        meta.n = meta.n + step;
        if (meta.n > limit) {
            return;
        }
        meta.n = 0;
    }

    bit<8> local = 5;

    apply {
        const bit<8> TOP = 200;
        bit<8> n;
        n = next(n) + n * next(n);
        hdr.stack[next(n) & 3].a += next(n);
        if (n > 3 && next(n) == 5 || n == 0) {
            n = next(n) > 2 ? next(n) : larger(b = n, a = 3);
        } else if (n == TOP)
            n = 1;
        else {
        }
        switch (n) {
            1:
            2: {
                n = 7;
            }
            3: {
                bit<8> n = 4;
                meta.n = n;
            }
            4:
            default: {
                n |= 1;
            }
        }
        switch (meta.color) {
            Color.Red: {
                meta.color = Color.Blue;
            }
            Color.Green:
        }
        for (bit<8> i = 0; i < 4; i += 1) {
            bit<8> fresh;
            fresh += i;
            if (i == 2)
                continue;
            for (bit<8> j in i .. 250) {
                if (j == 9)
                    break;
                meta.sum = meta.sum + (bit<32>)(j + fresh);
            }
        }
        for (bit<8> v in { n, 3, next(n) }) {
            meta.sum += (bit<32>)v;
        }
        for (h_t v in hdr.stack) {
            if (v.isValid())
                meta.sum += (bit<32>)v.a;
        }
        bit<8> k;
        for (k = 0, n = 1; next(k) < 5; n <<= 1) {
            meta.n = k;
        }
        clear(n);
        clear(_);
        count(next(n), 5);
        count(limit = 3, step = n);
        stop();
        {
            bit<4> local = 3;
            meta.n[3:0] = local;
        }
        ;
        if (local == 0) {
            return;
        }
        exit;
    }
}

#include "include/skeleton.p4"
