#!/usr/bin/env python3
"""Judges captures of RoCEv2 (`pointsman tea --pcap DIR`): tshark finds no malformed frame, and scapy the same check value (iCRC) in every N-th one.
With --tunnels, captures of packets in tunnels (GRE with a key), with --messages those of RedPlane's messages (`pointsman failover --pcap DIR`): scapy builds every
N-th one again, with the same lengths and checksums. With --fabric, those of a switch of a fabric: tshark and scapy judge the lengths and checksums of TCP over IPv4,
also behind notes, and probes are whole frames.

    check_captures.py [--every N] [--first N] [--tunnels | --messages | --fabric] FILE.pcap...     exit code 1: a frame is wrong, or there are none
    check_captures.py --self-test"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import GRE, Ether
from scapy.packet import Raw
from scapy.utils import PcapReader, wrpcap

# Frames that tshark cannot take apart, or that break a protocol's rules.
WRONG = "_ws.malformed || _ws.expert.severity >= 8388608"
PORT = 4791
# Between switches of a fabric: HULA's probes, and P4TE's notes: a kind, a byte and an EtherType before a packet. Verdicts have lost the data, not their sum.
OURS = 0x88B5
VERDICTS = (2, 3)
NEXT_SWITCH = "01:80:c2:00:00:0e"
LEAST_FRAME = 60


def tshark(path, display_filter, first, options):
    """Numbers of the frames that fit a filter, among so many."""
    command = ["tshark", "-n", *options, "-r", str(path), "-c", str(first), "-Y", display_filter, "-T", "fields", "-e", "frame.number"]
    result = subprocess.run(command, capture_output=True, text=True)
    # The last frame of a switch that was stopped may not be there as a whole.
    if result.returncode and "cut short" not in result.stderr:
        sys.exit(f"tshark: {result.stderr}")
    return result.stdout.split()


def icrc_is_right(frame):
    """Whether scapy gives the frame's packet the same check value."""
    packet = Ether(frame)
    if BTH not in packet:
        return False
    packet[BTH].icrc = None
    return bytes(packet)[-4:] == frame[-4:]


def is_roce(packet):
    return UDP in packet and packet[UDP].dport == PORT


def is_built_again(frame):
    """Whether scapy gives a packet in a tunnel, and the one inside, the same lengths and checksums."""
    packet = Ether(frame)
    layers = packet.layers()
    if layers.count(GRE) != 1 or UDP not in packet or not packet[GRE].key_present:
        return False
    for n, kind in enumerate(layers):
        for field in {IP: ["len", "chksum"], IPv6: ["plen"], UDP: ["len", "chksum"]}.get(kind, []):
            packet.getlayer(n).delfieldval(field)
    return bytes(packet) == frame


def is_in_tunnel(packet):
    return GRE in packet


def is_message(packet):
    return UDP in packet and packet[UDP].dport == packet[UDP].sport == PORT


def is_summed(frame):
    """Whether scapy gives a datagram the same lengths and checksums. Over IPv4 it may have none."""
    packet = Ether(frame)
    ip = packet.payload
    datagram = bytes(ip.payload)
    if isinstance(ip, IPv6):
        ip.delfieldval("plen")
    else:
        ip.delfieldval("len")
        ip.delfieldval("chksum")
    udp = UDP(sport=packet[UDP].sport, dport=packet[UDP].dport)
    if isinstance(ip, IP) and packet[UDP].chksum == 0:
        udp.chksum = 0
    ip.remove_payload()
    return bytes(Ether(frame[:14]) / ip / udp / Raw(datagram[8:])) == frame


def is_fabric(packet):
    return TCP in packet or packet.type == OURS


def is_fabric_right(frame):
    """Whether a probe is a whole frame, and scapy gives a segment, also behind a note, the same lengths and checksums."""
    packet = Ether(frame)
    if packet.type == OURS and packet.dst == NEXT_SWITCH:
        return len(frame) >= LEAST_FRAME
    ip = IP(frame[18:]) if packet.type == OURS else packet[IP]
    original = bytes(ip.original)
    if TCP not in ip:
        return False
    ip.delfieldval("len")
    ip.delfieldval("chksum")
    if packet.type != OURS or frame[14] not in VERDICTS:
        ip[TCP].delfieldval("chksum")
    return bytes(ip) == original


# What frames are judged, how scapy judges one, tshark's filter for them, and its options: messages have the port of RoCEv2, and are not taken apart.
ROCE = (is_roce, icrc_is_right, "infiniband", [])
TUNNELS = (is_in_tunnel, is_built_again, "gre", [])
MESSAGES = (
    is_message,
    is_summed,
    f"udp.srcport == {PORT} && udp.dstport == {PORT}",
    ["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-d", f"udp.port=={PORT},data"],
)
FABRIC = (is_fabric, is_fabric_right, f"tcp || eth.type == {OURS}", ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"])


def check(path, every, first=1000000, kind=ROCE):
    """Frames of a kind among so many, those that scapy saw, and sentences about what is wrong."""
    is_judged, is_right, display_filter, options = kind
    wrong = [f"{path}: frame {n}: tshark: malformed" for n in tshark(path, WRONG, first, options)]
    judged, seen = 0, 0
    with PcapReader(str(path)) as reader:
        for n, packet in enumerate(reader, 1):
            if n > first or len(packet.original) < packet.wirelen:
                break
            if not is_judged(packet):
                continue
            judged += 1
            if judged % every == 1 or every == 1:
                seen += 1
                if not is_right(bytes(packet.original)):
                    wrong.append(f"{path}: frame {n}: scapy: wrong check value, length or checksum")
    dissected = len(tshark(path, display_filter, first, options))
    if dissected != judged:
        wrong.append(f"{path}: tshark knows {dissected} of {judged} frames ({display_filter})")
    return judged, seen, wrong


def self_test():
    """Wrong frames are found."""
    # An acknowledgment: opcode 17, to queue pair 256, number 7, with its four bytes.
    front = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src="10.9.0.2", dst="10.9.0.1", flags="DF")
    good = bytes(front / UDP(sport=49152, dport=PORT, chksum=0) / BTH(opcode=17, dqpn=256, psn=7) / Raw(b"\x1f\0\0\1"))
    bad_bit = good[:-6] + bytes([good[-6] ^ 1]) + good[-5:]
    # Ends in the base header; lengths of IP and UDP fit.
    bad_cut = bytes(front / UDP(sport=49152, dport=PORT, chksum=0) / Raw(good[42:50]))
    with tempfile.TemporaryDirectory() as folder:
        for name, frames, expected in [("good", [good], 0), ("bit", [good, bad_bit], 1), ("cut", [good, bad_cut], 2)]:
            path = Path(folder) / f"{name}.pcap"
            wrpcap(str(path), [Ether(f) for f in frames])
            roce, seen, wrong = check(path, 1)
            assert (roce, seen) == (len(frames), len(frames)), (name, roce, seen)
            assert bool(wrong) == bool(expected), (name, wrong)
        inner = IPv6(src="fd00::5", dst="fd10::1") / UDP(sport=50000, dport=50001) / Raw(b"number")
        tunnel = bytes(Ether(dst="02:00:00:00:00:02") / IP(src="192.0.2.1", dst="11.0.0.1", flags="DF") / GRE(key_present=1, key=7, proto=0x86DD) / inner)
        for name, at in [("right", None), ("length", 17), ("checksum", 25), ("inside", -7)]:
            frame = bytearray(tunnel)
            if at is not None:
                frame[at] ^= 1
            path = Path(folder) / f"{name}.pcap"
            wrpcap(str(path), [Ether(bytes(frame))])
            judged, _, wrong = check(path, 1, kind=TUNNELS)
            assert judged == 1 and bool(wrong) == (at is not None), (name, judged, wrong)
        for source, target, least in [("10.9.1.2", "10.9.1.1", 0), ("fd09::2", "fd09::1", 1)]:
            ip = IPv6(src=source, dst=target) if ":" in source else IP(src=source, dst=target)
            for name, checksum, length, expected in [("right", None, None, 0), ("none", 0, None, least), ("checksum", 7, None, 1), ("length", None, 9, 1)]:
                frame = Ether(dst="02:00:00:00:00:02") / ip / UDP(sport=PORT, dport=PORT, chksum=checksum, len=length) / Raw(b"\x01\x01 message")
                path = Path(folder) / f"{name}.pcap"
                wrpcap(str(path), [frame])
                judged, _, wrong = check(path, 1, kind=MESSAGES)
                assert judged == 1 and bool(wrong) == bool(expected), (source, name, judged, wrong)
        segment = IP(src="10.0.2.2", dst="10.0.1.1") / TCP(sport=80, dport=1024, flags="A", seq=7, ack=9, window=500)
        switches = Ether(src="02:50:4d:00:00:01", dst="02:50:4d:00:00:02", type=OURS)
        probe = Ether(dst=NEXT_SWITCH, type=OURS) / Raw(bytes(46))
        noted, verdict = [switches / Raw(bytes([kind]) + b"\x00\x08\x00" + bytes(segment)) for kind in (1, 2)]
        acknowledgment = Ether(dst="02:00:00:00:00:02") / segment
        cases = [
            ("probe", probe, []),
            ("noted", noted, [18 + 10, 18 + 24, 18 + 34]),
            ("verdict", verdict, [18 + 3, 18 + 10, 18 + 19]),
            ("acknowledgment", acknowledgment, [14 + 10, 14 + 17, 14 + 28, 14 + 33, 14 + 35, 14 + 36]),
        ]
        for name, packet, damages in cases:
            for at in [None, *damages, len(bytes(packet))]:
                frame = bytearray(bytes(packet))
                if at is not None and at < len(frame):
                    frame[at] ^= 1
                elif at is not None:
                    del frame[-1]
                path = Path(folder) / f"{name}.pcap"
                wrpcap(str(path), [Ether(bytes(frame))])
                judged, _, wrong = check(path, 1, kind=FABRIC)
                # A segment without its last byte is none.
                assert judged == int(name != "acknowledgment" or at != 54) and bool(wrong) == (at is not None), (name, at, judged, wrong)
        path = Path(folder) / "good.pcap"
        whole = path.read_bytes()
        path.write_bytes(whole + whole[24:-1])
        assert check(path, 1) == (1, 1, []), "a frame that is cut short"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="let scapy judge every N-th frame")
    parser.add_argument("--first", type=int, default=1000000, metavar="N", help="only so many frames of each file")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--tunnels", action="store_true", help="the frames are packets in tunnels")
    kinds.add_argument("--messages", action="store_true", help="the frames are RedPlane's messages")
    kinds.add_argument("--fabric", action="store_true", help="the frames leave a switch of a fabric")
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        self_test()
        return 0
    kind = TUNNELS if args.tunnels else MESSAGES if args.messages else FABRIC if args.fabric else ROCE
    total, total_seen, all_wrong = 0, 0, []
    for path in args.files:
        judged, seen, wrong = check(path, max(args.every, 1), args.first, kind)
        total, total_seen, all_wrong = total + judged, total_seen + seen, all_wrong + wrong
    for line in all_wrong[:20]:
        print(line)
    print(f"check_captures: {total} frames, {total_seen} of them by scapy, {len(all_wrong)} wrong")
    return 0 if total and not all_wrong else 1


if __name__ == "__main__":
    sys.exit(main())
