package windsock

import (
	"errors"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// A Grant is what a monitor that was asked allows: to be called (CloudEvents, HTTP 1.1 Web
// Hooks for Event Delivery 1.0.2, section 4).
type Grant struct {
	Scheme string // by which it was asked; the rest of where it is called never changes
	Origin string // as which we asked
	Rate   int    // requests a minute; 0: as many as we like
}

// Pending reports whether the monitor is not to be called before it allows that.
func (m *Monitor) Pending() bool { return m.Verify && m.VerifiedAt.IsZero() }

// ReadGrant returns what an answer allows to an origin, by the values of its headers
// WebHook-Allowed-Origin and WebHook-Allowed-Rate; or why it allows nothing, in which these
// values are whole, so that secrets are found in it.
func ReadGrant(origin string, origins, rates []string) (Grant, error) {
	g := Grant{Origin: origin}
	switch {
	case len(origins) == 0:
		return g, errors.New("WebHook-Allowed-Origin is missing")
	case len(origins) > 1 || len(rates) > 1:
		return g, errors.New("WebHook-Allowed-Origin or WebHook-Allowed-Rate is there twice")
	case origins[0] != "*" && !sameOrigin(origins[0], origin):
		return g, errors.New("WebHook-Allowed-Origin is not " + origin + ", but " + origins[0])
	case len(rates) == 0 || rates[0] == "*":
		return g, nil
	}
	rate, err := strconv.ParseUint(rates[0], 10, 31)
	if err != nil || rate == 0 {
		return g, errors.New("WebHook-Allowed-Rate is not a number of requests a minute, but " + rates[0])
	}
	g.Rate = int(rate)
	return g, nil
}

// sameOrigin compares host names as DNS does: ASCII, in upper or lower case.
func sameOrigin(a, b string) bool { return CheckOrigin(a) == nil && strings.EqualFold(a, b) }

var originPattern = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)*[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$`)

// CheckOrigin returns a FieldError when windsock may not call itself that.
func CheckOrigin(s string) error {
	if _, err := netip.ParseAddr(s); err == nil || len(s) > 253 || !originPattern.MatchString(s) {
		return Invalid("origin", "want a host name such as windsock.example.com, got %q", Clip(s))
	}
	return nil
}
