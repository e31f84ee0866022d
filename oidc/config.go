package oidc

import (
	"net"
	"net/url"

	"windsock"
)

// Config says whose tokens are believed, and what they say of who carries them. A claim
// inside another is named with a dot: realm_access.roles.
type Config struct {
	Issuer     string                         `json:"issuer"`
	Audience   string                         `json:"audience"`    // that a token has to be for
	NameClaim  string                         `json:"name_claim"`  // default sub
	RoleClaim  string                         `json:"role_claim"`  // default roles; a list, or words
	Roles      map[string]windsock.Permission `json:"roles"`       // what its values mean; none: they are ours
	ScopeClaim string                         `json:"scope_claim"` // of reports; "": there is none, and each may report on all
}

// Check returns a FieldError when it cannot be.
func (c Config) Check() error {
	if c.Issuer == "" {
		if c.Audience != "" || c.NameClaim != "" || c.RoleClaim != "" || c.Roles != nil || c.ScopeClaim != "" {
			return windsock.Invalid("oidc.issuer", "is missing")
		}
		return nil
	}
	if u, err := url.Parse(c.Issuer); err != nil || !isSafe(u) || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return windsock.Invalid("oidc.issuer", "want a URL such as https://id.example.com/realms/ops, got %q", windsock.Clip(c.Issuer))
	}
	if c.Audience == "" {
		return windsock.Invalid("oidc.audience", "is missing: a token for something else must not do here")
	}
	for value, role := range c.Roles {
		if role.Validate() != nil {
			return windsock.Invalid("oidc.roles", "%q is to mean %q: want one of read, report, admin", windsock.Clip(value), windsock.Clip(string(role)))
		}
	}
	return nil
}

// isSafe reports whether nobody on the way can change what is read there.
func isSafe(u *url.URL) bool {
	ip := net.ParseIP(u.Hostname())
	return u.Host != "" && (u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()))
}
