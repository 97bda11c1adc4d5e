// The leaf-spine network of a Pointsman scenario in ns-3, with the same flows: an independent simulator to compare with.
// ns3.py beside it compiles and runs it.
//
// Usage: fabric LEAVES SPINES HOSTS_PER_LEAF HOST_GBIT_S FABRIC_GBIT_S DELAY_US QUEUE_KIB_HOST QUEUE_KIB_FABRIC ECN_KIB SEED END_S < FLOWS
// FLOWS: a line for each flow: start in s, source, destination, bytes. Output: a line for each flow, its bytes and its time in ms; then
// the number of packets that switches received.

#include <ns3/core-module.h>
#include <ns3/internet-module.h>
#include <ns3/network-module.h>
#include <ns3/point-to-point-module.h>
#include <ns3/traffic-control-module.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

using namespace ns3;

namespace {

// A full packet has 1,538 bytes on an Ethernet and 1,502 on ns-3's point-to-point links: these are slower by so much.
constexpr double WIRE = 1502.0 / 1538.0;
constexpr uint64_t LATENCY_NS = 500;

uint64_t packets = 0;

uint64_t mix(uint64_t x) {
    x += 0x9e3779b97f4a7c15;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
}

// Forwards by destination to one of some interfaces, which a hash of the connection chooses. Hosts have one interface.
class HashRouting : public Ipv4RoutingProtocol {
  public:
    uint64_t seed = 0;
    bool is_switch = false;
    std::map<uint32_t, std::vector<uint32_t>> next;

    void SetIpv4(Ptr<Ipv4> ipv4) override { ip = ipv4; }
    void NotifyInterfaceUp(uint32_t) override {}
    void NotifyInterfaceDown(uint32_t) override {}
    void NotifyAddAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void NotifyRemoveAddress(uint32_t, Ipv4InterfaceAddress) override {}
    void PrintRoutingTable(Ptr<OutputStreamWrapper>, Time::Unit) const override {}

    Ptr<Ipv4Route> RouteOutput(Ptr<Packet>, const Ipv4Header& header, Ptr<NetDevice>, Socket::SocketErrno& error) override {
        error = Socket::ERROR_NOTERROR;
        return over(1, header.GetDestination());
    }

    bool RouteInput(Ptr<const Packet> packet, const Ipv4Header& header, Ptr<const NetDevice> device, UnicastForwardCallback forward,
                    MulticastForwardCallback, LocalDeliverCallback local, ErrorCallback) override {
        if (!is_switch) {
            local(packet, header, ip->GetInterfaceForDevice(device));
            return true;
        }
        packets++;
        const auto& ways = next[header.GetDestination().Get()];
        uint8_t ports[4] = {};
        packet->CopyData(ports, 4);
        uint64_t h = mix(seed ^ (uint64_t(header.GetSource().Get()) << 32 | header.GetDestination().Get()));
        h = mix(h ^ (uint64_t(ports[0]) << 24 | ports[1] << 16 | ports[2] << 8 | ports[3]));
        forward(over(ways[h % ways.size()], header.GetDestination()), packet, header);
        return true;
    }

  private:
    Ptr<Ipv4> ip;

    Ptr<Ipv4Route> over(uint32_t interface, Ipv4Address to) {
        auto route = Create<Ipv4Route>();
        route->SetDestination(to);
        route->SetSource(ip->GetAddress(interface, 0).GetLocal());
        route->SetGateway(Ipv4Address::GetZero());
        route->SetOutputDevice(ip->GetNetDevice(interface));
        return route;
    }
};

struct Flow {
    double at;
    uint32_t from, to;
    uint64_t bytes;
    uint64_t sent = 0, received = 0;
    double end = -1;
};

std::vector<Flow> flows;
std::vector<Ptr<Node>> hosts;
std::vector<Ipv4Address> addresses;
size_t finished = 0;

void receive(uint32_t n, Ptr<Socket> socket) {
    while (auto packet = socket->Recv()) {
        if (packet->GetSize() == 0) break;
        flows[n].received += packet->GetSize();
    }
    if (flows[n].received >= flows[n].bytes && flows[n].end < 0) {
        flows[n].end = Simulator::Now().GetSeconds();
        if (++finished == flows.size()) Simulator::Stop();
    }
}

void send(uint32_t n, Ptr<Socket> socket, uint32_t) {
    Flow& f = flows[n];
    while (f.sent < f.bytes) {
        uint32_t size = std::min<uint64_t>({f.bytes - f.sent, socket->GetTxAvailable(), 1 << 16});
        if (size == 0) return;
        int done = socket->Send(Create<Packet>(size));
        if (done <= 0) return;
        f.sent += done;
    }
    socket->Close();
}

void connected(uint32_t n, Ptr<Socket> socket) { send(n, socket, 0); }

void accepted(uint32_t n, Ptr<Socket> socket, const Address&) { socket->SetRecvCallback(MakeBoundCallback(&receive, n)); }

void start(uint32_t n) {
    const Flow& f = flows[n];
    // Ports differ from flow to flow, as far as there are enough.
    uint16_t port = 10000 + n % 50000;
    auto listener = Socket::CreateSocket(hosts[f.to], TcpSocketFactory::GetTypeId());
    listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
    listener->Listen();
    listener->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(), MakeBoundCallback(&accepted, n));
    auto socket = Socket::CreateSocket(hosts[f.from], TcpSocketFactory::GetTypeId());
    socket->Bind();
    socket->SetConnectCallback(MakeBoundCallback(&connected, n), MakeNullCallback<void, Ptr<Socket>>());
    socket->SetSendCallback(MakeBoundCallback(&send, n));
    socket->Connect(InetSocketAddress(addresses[f.to], port));
}

std::string bytes(double kib) { return std::to_string(uint64_t(kib * 1024)) + "B"; }

// A queue in front of a device. A host's connections take turns and none of their packets is lost or marked, as those of Pointsman's hosts,
// whose TCP waits for its interface. Those of switches are in bytes; with a threshold, packets of ECN connections are marked above it.
void queue(Ptr<NetDevice> device, bool is_switch, double kib, double ecn_kib, double gbit_s) {
    TrafficControlHelper helper;
    if (!is_switch) {
        helper.SetRootQueueDisc("ns3::FqCoDelQueueDisc", "MaxSize", StringValue("1000000p"), "Target", StringValue("100s"), "Interval",
                                StringValue("100s"), "UseEcn", BooleanValue(false), "DropBatchSize", UintegerValue(1));
    } else if (ecn_kib > 0) {
        helper.SetRootQueueDisc("ns3::RedQueueDisc", "MaxSize", QueueSizeValue(QueueSize(bytes(kib))), "MinTh", DoubleValue(ecn_kib * 1024),
                                "MaxTh", DoubleValue(ecn_kib * 1024 + 1), "QW", DoubleValue(1), "Gentle", BooleanValue(false), "UseEcn",
                                BooleanValue(true), "UseHardDrop", BooleanValue(false), "MeanPktSize", UintegerValue(1500),
                                "LinkBandwidth", DataRateValue(DataRate(uint64_t(gbit_s * 1e9))));
    } else {
        helper.SetRootQueueDisc("ns3::FifoQueueDisc", "MaxSize", QueueSizeValue(QueueSize(bytes(kib))));
    }
    helper.Install(device);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 12) return std::fprintf(stderr, "usage: see the head of fabric.cc\n"), 2;
    auto number = [&](int i) { return std::atof(argv[i]); };
    const uint32_t leaves = number(1), spines = number(2), per_leaf = number(3);
    const double host_gbit = number(4), fabric_gbit = number(5), delay_us = number(6);
    const double host_kib = number(7), fabric_kib = number(8), ecn_kib = number(9), end = number(11);
    const uint64_t seed = number(10);

    auto set = [](const char* name, const AttributeValue& value) { Config::SetDefault(name, value); };
    set("ns3::TcpL4Protocol::SocketType", TypeIdValue(TypeId::LookupByName("ns3::TcpDctcp")));
    set("ns3::TcpSocket::SegmentSize", UintegerValue(1460));
    set("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    set("ns3::TcpSocket::SndBufSize", UintegerValue(4 << 20));
    set("ns3::TcpSocket::RcvBufSize", UintegerValue(4 << 20));
    set("ns3::TcpSocket::DelAckCount", UintegerValue(2));
    set("ns3::TcpSocket::DelAckTimeout", TimeValue(MicroSeconds(500)));
    set("ns3::TcpSocket::ConnTimeout", TimeValue(MilliSeconds(10)));
    set("ns3::TcpSocket::ConnCount", UintegerValue(60));
    set("ns3::TcpSocketBase::MinRto", TimeValue(MilliSeconds(5)));
    set("ns3::TcpSocketBase::ClockGranularity", TimeValue(MicroSeconds(1)));
    set("ns3::TcpSocketBase::Timestamp", BooleanValue(false));
    set("ns3::RttEstimator::InitialEstimation", TimeValue(MilliSeconds(5)));

    NodeContainer leaf, spine, host;
    leaf.Create(leaves);
    spine.Create(spines);
    host.Create(leaves * per_leaf);
    std::map<Ptr<Node>, Ptr<HashRouting>> routing;
    for (const auto& all : {leaf, spine, host}) {
        for (auto it = all.Begin(); it != all.End(); ++it) {
            InternetStackHelper().Install(*it);
            auto own = Create<HashRouting>();
            own->seed = mix(seed * 1000 + (*it)->GetId());
            own->is_switch = (*it)->GetId() < leaves + spines;
            (*it)->GetObject<Ipv4>()->SetRoutingProtocol(own);
            routing[*it] = own;
        }
    }
    uint32_t subnet = 0;
    // Returns the interfaces at both ends.
    auto join = [&](Ptr<Node> a, Ptr<Node> b, double gbit, double kib) {
        PointToPointHelper link;
        link.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(gbit * 1e9 * WIRE))));
        link.SetChannelAttribute("Delay", TimeValue(NanoSeconds(uint64_t(delay_us * 1000) + LATENCY_NS)));
        link.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p"));
        auto devices = link.Install(a, b);
        for (uint32_t i = 0; i < 2; i++) {
            bool is_switch = devices.Get(i)->GetNode()->GetId() < leaves + spines;
            queue(devices.Get(i), is_switch, kib, ecn_kib, gbit);
        }
        Ipv4AddressHelper address(Ipv4Address(0x0a000000 + 4 * subnet++), Ipv4Mask(0xfffffffc));
        auto interfaces = address.Assign(devices);
        return std::make_pair(interfaces.Get(0), interfaces.Get(1));
    };
    std::vector<std::vector<uint32_t>> up(leaves), down(spines);
    for (uint32_t l = 0; l < leaves; l++) {
        for (uint32_t s = 0; s < spines; s++) {
            auto [a, b] = join(leaf.Get(l), spine.Get(s), fabric_gbit, fabric_kib);
            up[l].push_back(a.second);
            down[s].push_back(b.second);
        }
    }
    for (uint32_t h = 0; h < leaves * per_leaf; h++) {
        uint32_t home = h / per_leaf;
        auto [a, b] = join(leaf.Get(home), host.Get(h), host_gbit, host_kib);
        auto own = b.first->GetAddress(b.second, 0).GetLocal();
        hosts.push_back(host.Get(h));
        addresses.push_back(own);
        for (uint32_t l = 0; l < leaves; l++) {
            routing[leaf.Get(l)]->next[own.Get()] = l == home ? std::vector<uint32_t>{a.second} : up[l];
        }
        for (uint32_t s = 0; s < spines; s++) routing[spine.Get(s)]->next[own.Get()] = {down[s][home]};
    }
    Flow f;
    while (std::scanf("%lf,%u,%u,%lu", &f.at, &f.from, &f.to, &f.bytes) == 4) {
        Simulator::Schedule(Seconds(f.at), &start, uint32_t(flows.size()));
        flows.push_back(f);
    }
    Simulator::Stop(Seconds(end));
    Simulator::Run();
    double now = Simulator::Now().GetSeconds();
    for (const auto& f : flows) std::printf("%lu,%.9f\n", f.bytes, ((f.end < 0 ? now : f.end) - f.at) * 1e3);
    std::printf("packets,%lu\n", packets);
    Simulator::Destroy();
}
