package monitors

import (
	"net"
	"net/http"
	"time"
)

// NewTransport returns the transport for callbacks. It is a RoundTripper and to be used
// as one: an http.Client would follow redirects, by which a monitor could send us, and
// what we have to say, wherever it likes.
//
// It heeds no proxy of the environment: whether an address may be called is to be judged
// by what is dialled, which would be the proxy. Names are resolved by Go: the C library
// takes 0x7f.1 for an address.
func NewTransport() *http.Transport {
	dialer := net.Dialer{Timeout: 3 * time.Second, Resolver: &net.Resolver{PreferGo: true}}
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		MaxIdleConns:           512,
		MaxIdleConnsPerHost:    128, // many monitors may live on one host
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxAnswer,
		DisableCompression:     true, // a small answer stays what it seems
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second}, // or a dead connection would be used again and again
	}
}
