package monitors

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"windsock"
)

// A Profile names the addresses that callbacks may go to when no rule says otherwise.
type Profile string

// The profiles. Internal ("" is the same) has private addresses called, and not what only
// this host, this link or a cloud's metadata service answers at; Strict has nothing called
// but what the whole Internet may reach.
const (
	Internal Profile = "internal"
	Strict   Profile = "strict"
)

// UnmarshalText takes the name of a profile and no other text.
func (p *Profile) UnmarshalText(text []byte) error {
	switch got := Profile(text); got {
	case Internal, Strict:
		*p = got
		return nil
	}
	return windsock.Invalid("targets", "want internal or strict; got %q", windsock.Clip(string(text)))
}

// A Rule is about the addresses in a prefix, at one port or, if that is 0, at any.
type Rule struct {
	Prefix netip.Prefix
	Port   uint16
}

// UnmarshalText reads CIDR or CIDR:port; the slash keeps them apart in IPv6, too.
func (r *Rule) UnmarshalText(text []byte) error {
	address, rest, _ := strings.Cut(string(text), "/")
	bits, port, withPort := strings.Cut(rest, ":")
	prefix, err := netip.ParsePrefix(address + "/" + bits)
	n, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case err != nil, withPort && (portErr != nil || n == 0):
		return windsock.Invalid("targets", "want a CIDR such as 10.0.0.0/8 or fd00::/8, or CIDR:port; got %q", windsock.Clip(string(text)))
	case prefix.Addr().Is4In6():
		return windsock.Invalid("targets", "want it written as the IPv4 that it is; got %q", text) // it would match nothing
	}
	*r = Rule{Prefix: prefix.Masked(), Port: uint16(n)}
	return nil
}

func (r Rule) matches(ip netip.Addr, port uint16) bool {
	return r.Prefix.Contains(ip) && (r.Port == 0 || r.Port == port)
}

// Targets are the settings of a Guard. Deny wins over Allow, and Allow over the profile.
type Targets struct {
	Profile Profile `json:"profile"`
	Allow   []Rule  `json:"allow"`
	Deny    []Rule  `json:"deny"`
}

// A Guard decides which addresses are called. It sees the one that is about to be
// connected to, and not what is registered: names resolve to another address each time,
// and there are many ways to write one.
type Guard struct {
	Targets
	Self netip.AddrPort // where our own API listens. It is never called; on loopback, Internal has loopback called

	// Others returns where other processes of this windsock listen, of which the same is
	// true. It is asked before each connection; nil: there are none.
	Others func(context.Context) ([]netip.AddrPort, error)
	others []netip.AddrPort
}

// blocked is why an address is not called. It names the kind, never the address.
type blocked string

func (b blocked) Error() string { return "blocked_address: " + string(b) }

// dialer returns a dialer that connects to what the guard lets pass. The name is resolved
// once, before, and by Go, as the C library takes 0x7f.1 for an address; what was judged
// is what the socket is connected to.
func (g Guard) dialer() *net.Dialer {
	return &net.Dialer{
		Timeout:  3 * time.Second,
		Resolver: &net.Resolver{PreferGo: true},
		ControlContext: func(ctx context.Context, _, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil {
				return blocked("no IP address")
			}
			g := g
			if g.Others != nil {
				if g.others, err = g.Others(ctx); err != nil {
					return blocked("whether it is our own API cannot be told now")
				}
			}
			if why := g.refusal(to); why != "" {
				return blocked(why)
			}
			return nil
		},
	}
}

// refusal returns why an address is not to be called, or "".
func (g Guard) refusal(to netip.AddrPort) string {
	ip := to.Addr().Unmap().WithZone("") // no prefix contains an address with a zone
	inner, embeds := embedded(ip)
	port, strict := to.Port(), g.Profile == Strict
	switch {
	case slices.ContainsFunc(g.Deny, func(r Rule) bool { return r.matches(ip, port) || embeds && r.matches(inner, port) }):
		return "denied by the settings"
	case g.ourOwn(port, func(own netip.Addr) bool {
		return ip == own || onThisHost(ip) || embeds && (inner == own || onThisHost(inner))
	}):
		return "our own API"
	case slices.ContainsFunc(g.Allow, func(r Rule) bool { return r.matches(ip, port) }):
		return ""
	}
	kind := kindOf(ip)
	if embeds && (kind == nil || kind.strict) {
		if strict {
			return "IPv4 within IPv6"
		}
		kind = kindOf(inner)
	}
	switch {
	case kind == nil && strict && ip.Is6() && !globalIPv6.Contains(ip):
		return "not global"
	case kind == nil,
		kind.name == loopback && !strict && g.onLoopback(),
		kind.strict && !strict:
		return ""
	}
	return kind.name
}

// ourOwn reports whether one of us listens on a port of an address that is.
func (g Guard) ourOwn(port uint16, is func(netip.Addr) bool) bool {
	return slices.ContainsFunc(append(g.others, g.Self), func(own netip.AddrPort) bool {
		return port == own.Port() && is(own.Addr().Unmap())
	})
}

// onLoopback reports whether all of us listen there.
func (g Guard) onLoopback() bool {
	return g.Self.Addr().IsLoopback() && !slices.ContainsFunc(g.others, func(own netip.AddrPort) bool { return !own.Addr().IsLoopback() })
}

// onThisHost reports whether an address is one of this host.
func onThisHost(ip netip.Addr) bool {
	if ip.IsLoopback() || ip.IsUnspecified() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	return err != nil || slices.ContainsFunc(addrs, func(a net.Addr) bool { // who we are not sure to be, we may be
		own, err := netip.ParsePrefix(a.String())
		return err == nil && own.Addr().Unmap().WithZone("") == ip
	})
}

const loopback = "loopback"

// An addressKind is a range of addresses that are not for everybody.
type addressKind struct {
	prefix netip.Prefix
	name   string
	strict bool // refused by Strict only
}

// kinds are the ranges of the IANA special-purpose registries, which net/netip knows in
// part, and the metadata services of clouds outside of them. The first that fits counts.
var kinds = []addressKind{
	{cidr("0.0.0.0/8"), "unspecified", false}, // Linux connects 0.0.0.0 to itself
	{cidr("::/128"), "unspecified", false},
	{cidr("127.0.0.0/8"), loopback, false},
	{cidr("::1/128"), loopback, false},
	{cidr("169.254.0.0/16"), "link-local", false}, // 169.254.169.254 is the metadata service of most clouds
	{cidr("fe80::/10"), "link-local", false},
	{cidr("100.100.100.200/32"), "cloud metadata", false},     // Alibaba
	{cidr("168.63.129.16/32"), "cloud metadata", false},       // Azure
	{cidr("192.0.0.192/32"), "cloud metadata", false},         // Oracle
	{cidr("fd00:c1::a9fe:a9fe/128"), "cloud metadata", false}, // Oracle
	{cidr("fd00:ec2::/32"), "cloud metadata", false},          // AWS
	{cidr("fd20:ce::254/128"), "cloud metadata", false},       // Google
	{cidr("fd00:42::42/128"), "cloud metadata", false},        // Scaleway
	{cidr("224.0.0.0/4"), "multicast", false},
	{cidr("ff00::/8"), "multicast", false},
	{cidr("255.255.255.255/32"), "broadcast", false},
	{cidr("240.0.0.0/4"), "reserved", false},
	{cidr("64:ff9b:1::/48"), "local NAT64", false}, // where in it the IPv4 stands, only that network knows (RFC 8215)

	{cidr("10.0.0.0/8"), "private", true},
	{cidr("172.16.0.0/12"), "private", true},
	{cidr("192.168.0.0/16"), "private", true},
	{cidr("fc00::/7"), "private", true},
	{cidr("fec0::/10"), "private", true},
	{cidr("100.64.0.0/10"), "carrier NAT", true},
	{cidr("192.0.0.0/24"), "special purpose", true},
	{cidr("192.31.196.0/24"), "special purpose", true}, // AS112
	{cidr("192.175.48.0/24"), "special purpose", true},
	{cidr("2620:4f:8000::/48"), "special purpose", true},
	{cidr("192.52.193.0/24"), "special purpose", true}, // AMT
	{cidr("192.88.99.0/24"), "special purpose", true},  // 6to4 relays
	{cidr("198.18.0.0/15"), "benchmarks", true},
	{cidr("2001:2::/48"), "benchmarks", true},
	{cidr("2001::/23"), "special purpose", true},
	{cidr("192.0.2.0/24"), "documentation", true},
	{cidr("198.51.100.0/24"), "documentation", true},
	{cidr("203.0.113.0/24"), "documentation", true},
	{cidr("2001:db8::/32"), "documentation", true},
	{cidr("3fff::/20"), "documentation", true},
}

// globalIPv6 is all of IPv6 that was ever given out for global unicast.
var globalIPv6 = cidr("2000::/3")

// kindOf returns the range that an address is in, or nil.
func kindOf(ip netip.Addr) *addressKind {
	for i := range kinds {
		if kinds[i].prefix.Contains(ip) {
			return &kinds[i]
		}
	}
	return nil
}

// embeddings are the IPv6 addresses that stand for an IPv4 address, and where it stands
// in them. (Of those that are IPv4 mapped, nothing else is left once they are unmapped.)
var embeddings = []struct {
	prefix   netip.Prefix
	at       int  // the first of its bytes
	inverted bool // its bits
}{
	{cidr("::/96"), 12, false},           // IPv4-compatible
	{cidr("::ffff:0:0:0/96"), 12, false}, // translated (SIIT)
	{cidr("64:ff9b::/96"), 12, false},    // NAT64
	{cidr("2002::/16"), 2, false},        // 6to4
	{cidr("2001::/32"), 12, true},        // Teredo
}

// embedded returns the IPv4 address that an IPv6 address stands for, if it does.
func embedded(ip netip.Addr) (inner netip.Addr, ok bool) {
	for _, e := range embeddings {
		if e.prefix.Contains(ip) {
			all := ip.As16()
			b := [4]byte(all[e.at:])
			if e.inverted {
				for i := range b {
					b[i] = ^b[i]
				}
			}
			return netip.AddrFrom4(b), true
		}
	}
	return netip.Addr{}, false
}

func cidr(s string) netip.Prefix { return netip.MustParsePrefix(s) }
