package api

import (
	"net/http"
	"net/netip"

	"github.com/go-chi/chi/v5/middleware"
)

// addressed finds out where requests come from: from the connection or, if that is one of
// a trusted proxy, from the X-Forwarded-For to which it adds. Forwarded (RFC 7239) is not
// read: one who adds to either hands on what a stranger put into the other.
func (s *Server) addressed() func(http.Handler) http.Handler {
	if len(s.Proxies) == 0 {
		return middleware.ClientIPFromRemoteAddr
	}
	proxies := make([]string, len(s.Proxies))
	for i, p := range s.Proxies {
		proxies[i] = p.String()
	}
	return middleware.ClientIPFromXFF(proxies...)
}

// clientOf is where a request comes from: the last on its way here who is no trusted proxy
// or, when all are, who is connected.
func clientOf(r *http.Request) netip.Addr {
	if a := middleware.GetClientIPAddr(r.Context()); a.IsValid() {
		return a
	}
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr().Unmap()
}
