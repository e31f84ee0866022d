package main

import (
	"net/netip"
	"strings"

	"windsock"
	"windsock/api"
)

// EdgeConfig says from where, and how often, the API may be asked.
type EdgeConfig struct {
	RateLimit      int       `json:"rate_limit"` // requests a second of each token, and of each address; 0: defaultRate
	TrustedProxies []Network `json:"trusted_proxies"`
	CORSOrigins    []string  `json:"cors_origins"`
}

// defaultRate is less than half of what one process takes in of single posts, and more
// than any monitor has to say that could send them together.
const (
	defaultRate = 1000
	maxRate     = 1_000_000
)

func (e EdgeConfig) check() error {
	if e.RateLimit < 0 || e.RateLimit > maxRate {
		return windsock.Invalid("rate_limit", "want 1 to %d, got %d", maxRate, e.RateLimit)
	}
	for _, o := range e.CORSOrigins {
		if err := api.CheckOrigin("cors_origins", o); err != nil {
			return err
		}
	}
	return nil
}

// proxies are the trusted ones.
func (e EdgeConfig) proxies() (list []netip.Prefix) {
	for _, n := range e.TrustedProxies {
		list = append(list, n.Prefix)
	}
	return list
}

// A Network is written as a CIDR or, if it is one address, as that.
type Network struct{ netip.Prefix }

// UnmarshalText is for flags and the file.
func (n *Network) UnmarshalText(text []byte) (err error) {
	s := string(text)
	if strings.Contains(s, "/") {
		n.Prefix, err = netip.ParsePrefix(s)
	} else {
		var a netip.Addr
		if a, err = netip.ParseAddr(s); err == nil {
			n.Prefix, err = a.Prefix(a.BitLen())
		}
	}
	if err != nil || n.Prefix.Addr().Is4In6() || n.Prefix != n.Prefix.Masked() {
		return windsock.Invalid("", "want a network such as 10.0.0.0/8, or an address; got %q", windsock.Clip(s))
	}
	return nil
}
