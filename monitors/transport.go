package monitors

import (
	"net/http"
	"time"
)

// NewTransport returns the transport for callbacks to what the guard lets pass. It is a RoundTripper and to be used
// as one: an http.Client would follow redirects, by which a monitor could send us, and
// what we have to say, wherever it likes.
//
// It heeds no proxy of the environment: whether an address may be called is to be judged
// by what is dialled, which would be the proxy.
func NewTransport(guard Guard) *http.Transport {
	return &http.Transport{
		Proxy:                  nil,
		DialContext:            traced(guard.dialer().DialContext),
		TLSHandshakeTimeout:    5 * time.Second,
		MaxIdleConns:           1024,
		MaxIdleConnsPerHost:    1024, // many monitors may live on one host; with fewer than are in use they would come and go
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxAnswer,
		DisableCompression:     true, // a small answer stays what it seems
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 10 * time.Second, PingTimeout: 5 * time.Second}, // or a dead connection would be used again and again
	}
}
