// Part of a parser with the parameters `packet` and `h`: states that extract the filling of data, from `fill3`, `fill2` or `fill1` on, and continue in the state
// ROCE_FILLED.

state fill3 {
    packet.extract(h.fill1);
    transition fill2;
}

state fill2 {
    packet.extract(h.fill2);
    transition ROCE_FILLED;
}

state fill1 {
    packet.extract(h.fill1);
    transition ROCE_FILLED;
}
