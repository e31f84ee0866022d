package monitors

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"windsock"
)

// elsewhere is where an API listens that is not on loopback, and not on this host.
var elsewhere = netip.MustParseAddrPort("192.0.2.1:8080")

func rules(texts ...string) (all []Rule) {
	for _, text := range texts {
		var r Rule
		if err := r.UnmarshalText([]byte(text)); err != nil {
			panic(err)
		}
		all = append(all, r)
	}
	return all
}

func TestWhatEachProfileRefuses(t *testing.T) {
	for _, c := range []struct{ address, internal, strict string }{
		{"8.8.8.8", "", ""},
		{"2606:4700:4700::1111", "", ""},
		{"10.1.2.3", "", "private"},
		{"172.31.255.255", "", "private"},
		{"192.168.0.1", "", "private"},
		{"fd12:3456::1", "", "private"},
		{"fec0::1", "", "private"},
		{"100.64.0.1", "", "carrier NAT"},
		{"192.0.0.1", "", "special purpose"},
		{"198.18.0.1", "", "benchmarks"},
		{"192.52.193.1", "", "special purpose"},
		{"2001:20::1", "", "special purpose"},
		{"2001:2::1", "", "benchmarks"},
		{"2001::f5ff:fffe", "", "IPv4 within IPv6"},
		{"203.0.113.7", "", "documentation"},
		{"2001:db8::1", "", "documentation"},
		{"4000::1", "", "not global"},
		{"100::1", "", "not global"},
		{"127.0.0.1", "loopback", "loopback"},
		{"127.255.255.254", "loopback", "loopback"},
		{"::1", "loopback", "loopback"},
		{"0.0.0.0", "unspecified", "unspecified"},
		{"0.1.2.3", "unspecified", "unspecified"},
		{"::", "unspecified", "unspecified"},
		{"169.254.169.254", "link-local", "link-local"},
		{"fe80::1", "link-local", "link-local"},
		{"fe80::1%eth0", "link-local", "link-local"},
		{"fd00:ec2::254", "cloud metadata", "cloud metadata"},
		{"100.100.100.200", "cloud metadata", "cloud metadata"},
		{"224.0.0.1", "multicast", "multicast"},
		{"ff02::1", "multicast", "multicast"},
		{"240.0.0.1", "reserved", "reserved"},
		{"255.255.255.255", "broadcast", "broadcast"},
		{"::ffff:127.0.0.1", "loopback", "loopback"},
		{"::ffff:10.0.0.1", "", "private"},
		{"::127.0.0.1", "loopback", "IPv4 within IPv6"},
		{"::ffff:0:127.0.0.1", "loopback", "IPv4 within IPv6"},
		{"64:ff9b::169.254.169.254", "link-local", "IPv4 within IPv6"},
		{"64:ff9b::10.0.0.1", "", "IPv4 within IPv6"},
		{"64:ff9b:1::10.0.0.1", "local NAT64", "local NAT64"},
		{"2002:7f00:1::1", "loopback", "IPv4 within IPv6"},
		{"2002:a00:1::1", "", "IPv4 within IPv6"},
		{"2001::80ff:fffe", "loopback", "IPv4 within IPv6"},
	} {
		to := netip.AddrPortFrom(netip.MustParseAddr(c.address), 9090)
		for profile, want := range map[Profile]string{"": c.internal, Internal: c.internal, Strict: c.strict} {
			if got := (Guard{Targets: Targets{Profile: profile}, Self: elsewhere}).refusal(to); got != want {
				t.Errorf("%q: %s is refused as %q, want %q", profile, to, got, want)
			}
		}
	}
}

func TestLoopbackIsCalledWhileTheAPIIsThere(t *testing.T) {
	for _, c := range []struct {
		profile        Profile
		self, to, want string
	}{
		{Internal, "127.0.0.1:8080", "127.0.0.1:9090", ""},
		{Internal, "127.0.0.1:8080", "[::1]:9090", ""},
		{Internal, "[::1]:8080", "127.0.0.1:9090", ""},
		{Internal, "127.0.0.1:8080", "127.0.0.1:8080", "our own API"},
		{Internal, "127.0.0.1:8080", "[::ffff:127.0.0.1]:8080", "our own API"},
		{Internal, "127.0.0.1:8080", "[64:ff9b::127.0.0.1]:8080", "our own API"},
		{Internal, "127.0.0.1:8080", "0.0.0.0:9090", "unspecified"},
		{Internal, "127.0.0.1:8080", "169.254.169.254:80", "link-local"},
		{Internal, "[::]:8080", "127.0.0.1:9090", "loopback"},
		{Internal, "[::]:8080", "127.0.0.1:8080", "our own API"},
		{Internal, "[::]:8080", "10.0.0.1:8080", ""}, // another windsock's
		{Strict, "127.0.0.1:8080", "127.0.0.1:9090", "loopback"},
	} {
		g := Guard{Targets: Targets{Profile: c.profile}, Self: netip.MustParseAddrPort(c.self)}
		if got := g.refusal(netip.MustParseAddrPort(c.to)); got != c.want {
			t.Errorf("%s, API at %s: %s is refused as %q, want %q", c.profile, c.self, c.to, got, c.want)
		}
	}
}

// What holds of where we listen holds of where other processes of this windsock do.
func TestOtherProcessesOfOurs(t *testing.T) {
	at := func(list ...string) (all []netip.AddrPort) {
		for _, a := range list {
			all = append(all, netip.MustParseAddrPort(a))
		}
		return all
	}
	for _, c := range []struct {
		others   []netip.AddrPort
		to, want string
	}{
		{at("127.0.0.1:8081"), "127.0.0.1:8081", "our own API"},
		{at("127.0.0.1:8081"), "127.0.0.1:9090", ""},
		{at("127.0.0.1:8082", "0.0.0.0:8081"), "127.0.0.1:8081", "our own API"},
		{at("127.0.0.1:8082", "0.0.0.0:8081"), "127.0.0.1:9090", "loopback"},
		{at("10.0.0.1:8081"), "10.0.0.1:8081", "our own API"},
		{at("10.0.0.1:8081"), "10.0.0.1:9090", ""},
	} {
		g := Guard{Self: netip.MustParseAddrPort("127.0.0.1:8080"), others: c.others}
		if got := g.refusal(netip.MustParseAddrPort(c.to)); got != c.want {
			t.Errorf("others at %v: %s is refused as %q, want %q", c.others, c.to, got, c.want)
		}
	}
}

// Who the others are is asked before each connection; when that cannot be told, nobody is called.
func TestTheOthersAreAskedFor(t *testing.T) {
	r := newReceiver(t, nil)
	own := netip.MustParseAddrPort(strings.TrimPrefix(r.URL, "http://"))
	for name, c := range map[string]struct {
		others []netip.AddrPort
		err    error
		want   string
	}{
		"it is one of them":   {[]netip.AddrPort{own}, nil, "blocked_address: our own API"},
		"it cannot be told":   {nil, errors.ErrUnsupported, "blocked_address: whether it is our own API cannot be told now"},
		"it is none of these": {[]netip.AddrPort{onLoopback}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := Guard{Self: onLoopback, Others: func(context.Context) ([]netip.AddrPort, error) { return c.others, c.err }}.dialer()
			conn, err := d.DialContext(t.Context(), "tcp", own.String())
			if err == nil {
				conn.Close()
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Whatever addresses this host has, the port of the API is not called at any of them.
func TestOurOwnAPIIsRefusedAtEveryAddressOfThisHost(t *testing.T) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	g := Guard{Targets: Targets{Allow: rules("0.0.0.0/0", "::/0")}, Self: netip.MustParseAddrPort("[::]:8080")}
	for _, a := range addrs {
		ip := netip.MustParsePrefix(a.String()).Addr()
		want(t, fmt.Sprintf("%s at our port", ip), g.refusal(netip.AddrPortFrom(ip, 8080)), "our own API")
		want(t, fmt.Sprintf("%s at another", ip), g.refusal(netip.AddrPortFrom(ip, 8081)), "")
	}
}

func TestDenyWinsOverAllowOverProfile(t *testing.T) {
	g := Guard{Self: elsewhere, Targets: Targets{
		Profile: Strict,
		Allow:   rules("10.0.0.0/8", "127.0.0.1/32:9090", "fd00::/8:443", "fe80::/10"),
		Deny:    rules("10.9.0.0/16", "10.0.0.0/8:22", "8.8.8.0/24", "2606::/16:22"),
	}}
	for to, why := range map[string]string{
		"10.1.2.3:80":               "",
		"[::ffff:10.1.2.3]:80":      "",
		"10.9.2.3:80":               "denied by the settings",
		"10.1.2.3:22":               "denied by the settings",
		"[64:ff9b::10.9.2.3]:80":    "denied by the settings",
		"[2002:808:808::1]:80":      "denied by the settings",
		"[64:ff9b::10.1.2.3]:80":    "IPv4 within IPv6",
		"8.8.8.8:80":                "denied by the settings",
		"8.8.4.4:80":                "",
		"127.0.0.1:9090":            "",
		"127.0.0.1:9091":            "loopback",
		"[fd00::1]:443":             "",
		"[fd00::1]:80":              "private",
		"[fe80::1%eth0]:80":         "",
		"[2606:4700:4700::1111]:22": "denied by the settings",
		"192.168.0.1:80":            "private",
	} {
		if got := g.refusal(netip.MustParseAddrPort(to)); got != why {
			t.Errorf("%s is refused as %q, want %q", to, got, why)
		}
	}
}

func TestRulesThatAreNone(t *testing.T) {
	for _, text := range []string{"", "10.0.0.1", "10.0.0.0/33", "10.0.0.0/8:", "10.0.0.0/8:0", "10.0.0.0/8:70000", "10.0.0.0/8:http",
		"fe80::1%eth0/64", "::ffff:10.0.0.0/104", "example.com/8", "0x7f.1/8", "[fd00::]/8", "10.0.0.0/8:80:80"} {
		var r Rule
		if err := r.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken as %v", text, r)
		}
	}
	if got := rules("10.1.2.3/8:80")[0]; got != (Rule{netip.MustParsePrefix("10.0.0.0/8"), 80}) {
		t.Errorf("10.1.2.3/8:80 is read as %v", got)
	}
}

// Any address within a range that is refused is refused, however it is wrapped.
func TestRefusedInWhateverWrapping(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	for range 20_000 {
		kind := kinds[rnd.IntN(len(kinds))]
		ip := within(rnd, kind.prefix)
		forms := []netip.Addr{ip}
		if ip.Is4() {
			forms = append(forms, netip.AddrFrom16(ip.As16()))
			for _, e := range embeddings {
				all, v4 := within(rnd, e.prefix).As16(), ip.As4()
				for i, b := range v4 {
					if e.inverted {
						b = ^b
					}
					all[e.at+i] = b
				}
				forms = append(forms, netip.AddrFrom16(all))
			}
		}
		for _, form := range forms {
			to := netip.AddrPortFrom(form, uint16(rnd.Uint32()))
			if (Guard{Targets: Targets{Profile: Strict}, Self: elsewhere}).refusal(to) == "" {
				t.Errorf("seed %d: strict lets %s pass, which is %s in %s", seed, to, ip, kind.prefix)
			}
			if !kind.strict && (Guard{Self: elsewhere}).refusal(to) == "" {
				t.Errorf("seed %d: internal lets %s pass, which is %s in %s", seed, to, ip, kind.prefix)
			}
		}
	}
}

// within returns some address of a prefix.
func within(rnd *rand.Rand, p netip.Prefix) netip.Addr {
	all := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(all)*8; bit++ {
		all[bit/8] |= byte(rnd.IntN(2)) << (7 - bit%8)
	}
	ip, _ := netip.AddrFromSlice(all)
	return ip
}

// names is a name server that has a list of addresses for each name; each pair of
// queries, for IPv4 and IPv6, is answered with the next of them, and the last stays.
type names struct {
	net.PacketConn
	next atomic.Int64
}

func serveNames(t *testing.T, answers ...string) *names {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	n := &names{PacketConn: conn}
	done := make(chan struct{})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			size, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			conn.WriteTo(n.answer(buf[:size], answers), from)
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return n
}

// answer writes a response (RFC 1035, section 4.1) that has no record if the address is
// not of the type that is asked for.
func (n *names) answer(query []byte, answers []string) []byte {
	end := 12
	for query[end] != 0 {
		end += 1 + int(query[end])
	}
	kind := binary.BigEndian.Uint16(query[end+1:])
	i := int(n.next.Load())
	if kind == 1 {
		i = int(n.next.Add(1)) - 1
	}
	ip := netip.MustParseAddr(answers[min(i, len(answers)-1)])
	out := append([]byte{query[0], query[1], 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0}, query[12:end+5]...)
	if (kind == 1) == ip.Is4() && (kind == 1 || kind == 28) {
		out[7] = 1
		out = append(out, 0xC0, 12, 0, byte(kind), 0, 1, 0, 0, 0, 0, 0, byte(ip.BitLen()/8))
		out = append(out, ip.AsSlice()...)
	}
	return out
}

// guarded returns a transport that asks this name server.
func (n *names) guarded(t *testing.T, g Guard) *http.Transport {
	dialer := g.dialer()
	if !dialer.Resolver.PreferGo {
		t.Error("the C library may resolve names")
	}
	dialer.Resolver.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", n.LocalAddr().String())
	}
	transport := NewTransport(g)
	transport.DialContext = dialer.DialContext
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// get returns the status and what is kept of an error.
func get(t *testing.T, transport http.RoundTripper, url string) (status int, kept string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		var b blocked
		if errors.As(err, &b) != strings.HasPrefix(cause(err), "blocked_address: ") {
			t.Errorf("%v is kept as %q", err, cause(err))
		}
		return 0, cause(err)
	}
	resp.Body.Close()
	return resp.StatusCode, ""
}

// What is written is not what is judged: no form of writing loopback reaches it.
func TestNoWayToWriteLoopbackReachesIt(t *testing.T) {
	var reached atomic.Int64
	r := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer r.Close()
	port := netip.MustParseAddrPort(r.Listener.Addr().String()).Port()
	none := serveNames(t, "fd00:dead::1").guarded(t, Guard{Self: elsewhere, Targets: Targets{Deny: rules("fd00:dead::/32")}})
	for _, host := range []string{
		"127.0.0.1", "127.1.2.3", "0.0.0.0", "[::]", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]",
		"[64:ff9b::7f00:1]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "①②⑦.⓪.⓪.①", "127。0。0。1", "localhost", "LOCALHOST",
		"2130706433", "0x7f000001", "0x7f.1", "127.1", "0177.0.0.1", "017700000001", "0",
	} {
		status, kept := get(t, none, fmt.Sprintf("http://%s:%d/", host, port))
		if !strings.HasPrefix(kept, "blocked_address: ") && !strings.HasPrefix(kept, "dns: ") && !strings.HasPrefix(kept, "connect: ") {
			t.Errorf("%s: HTTP %d, %q", host, status, kept)
		}
	}
	want(t, "requests that reached it", reached.Load(), 0)
}

func TestNamesAreJudgedByWhatTheyResolveTo(t *testing.T) {
	for ip, why := range map[string]string{
		"127.0.0.1":                "loopback",
		"0.0.0.0":                  "unspecified",
		"::":                       "unspecified",
		"::1":                      "loopback",
		"::ffff:127.0.0.1":         "loopback",
		"::127.0.0.1":              "loopback",
		"64:ff9b::169.254.169.254": "link-local",
		"64:ff9b:1::127.0.0.1":     "local NAT64",
		"2002:7f00:1::":            "loopback",
		"2001::80ff:fffe":          "loopback",
		"169.254.169.254":          "link-local",
		"fd00:ec2::254":            "cloud metadata",
		"255.255.255.255":          "broadcast",
	} {
		transport := serveNames(t, ip).guarded(t, Guard{Self: elsewhere})
		if _, kept := get(t, transport, "http://monitor.example:9/"); kept != "blocked_address: "+why {
			t.Errorf("%s: kept %q, want %q", ip, kept, why)
		}
	}
}

// A name may resolve to what may be called while it is judged, and to something else when
// it is dialled; here these are one lookup. The next is judged anew.
func TestRebinding(t *testing.T) {
	hit := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			w.WriteHeader(status)
		}
	}
	good, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	port := good.Addr().(*net.TCPAddr).Port
	bad, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	for l, status := range map[net.Listener]int{good: 204, bad: 418} {
		s := httptest.NewUnstartedServer(hit(status))
		s.Listener.Close()
		s.Listener = l
		s.Start()
		defer s.Close()
	}
	ns := serveNames(t, "127.0.0.2", "127.0.0.1")
	transport := ns.guarded(t, Guard{Self: elsewhere, Targets: Targets{Allow: rules("127.0.0.2/32")}})
	url := fmt.Sprintf("http://monitor.example:%d/", port)

	if status, kept := get(t, transport, url); status != 204 || kept != "" {
		t.Errorf("first: HTTP %d, %q; want what is at the address that was judged", status, kept)
	}
	want(t, "lookups for one connection", ns.next.Load(), 1)
	if status, kept := get(t, transport, url); kept != "blocked_address: loopback" {
		t.Errorf("second: HTTP %d, kept %q", status, kept)
	}
}

// A monitor at an address that is not called is one that cannot be reached: it is tried
// again by the table, the log keeps what it has to hear, and nothing names the address.
func TestARefusedTargetIsTriedAgain(t *testing.T) {
	r := newReceiver(t, nil)
	l := newLog()
	l.add("m", spec(r.URL), "")
	p := start(t, l, nil, func(d *Deliverer) { d.Guard = Guard{Self: elsewhere} })
	l.append(change("web", windsock.Failed))
	want(t, "kept", failure(t, p, "m"), "blocked_address: loopback")
	got := p.delivery(t, "m")
	want(t, "state", got.State, "retrying")
	want(t, "backlog", got.Backlog, 1)
	p.stop()
	want(t, "saved", l.progressOf("m").LastError, "blocked_address: loopback")
	if strings.Contains(p.logged.String(), "127.0.0.1") {
		t.Errorf("logged: %s", p.logged)
	}

	p = start(t, l.crashed(), nil, ours) // with other settings
	l = p.Log.(*memLog)
	eventually(t, "the monitor", func() bool { _, ok := p.Delivery("m"); return ok })
	l.add("m", spec(r.URL), "") // so that it is tried at once
	r.await(t, 1)
}
