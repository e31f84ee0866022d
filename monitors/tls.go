package monitors

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"sync"
	"time"

	"windsock"
)

// maxTransports is how many ways to speak TLS are kept at once, beside the usual one.
const maxTransports = 256

// transports carry the callbacks to monitors with certificates of their own. Each way to
// speak TLS has its own connections: one that is trusted on other grounds must not be
// used. The one that was not used for longest makes room for a new one.
type transports struct {
	mu    sync.Mutex
	byWay map[windsock.TLS]*kept
}

type kept struct {
	*http.Transport
	usedAt time.Time
}

var errCertificates = errors.New("tls: its certificates cannot be used")

// of returns the transport for a way to speak TLS, made after the usual one.
func (ts *transports) of(way windsock.TLS, usual http.RoundTripper, now time.Time) (http.RoundTripper, error) {
	if way == (windsock.TLS{}) {
		return usual, nil
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if k := ts.byWay[way]; k != nil {
		k.usedAt = now
		return k.Transport, nil
	}
	model, ok := usual.(*http.Transport)
	config, err := configOf(way)
	if !ok || err != nil {
		return nil, errCertificates
	}
	if len(ts.byWay) >= maxTransports {
		ts.dropOldest()
	}
	if ts.byWay == nil {
		ts.byWay = map[windsock.TLS]*kept{}
	}
	k := &kept{model.Clone(), now}
	k.TLSClientConfig = config
	ts.byWay[way] = k
	return k.Transport, nil
}

// dropOldest gives up a transport. Requests under way come to their end, and their
// connections to that of their idle time.
func (ts *transports) dropOldest() {
	var oldest windsock.TLS
	for way, k := range ts.byWay {
		if o := ts.byWay[oldest]; o == nil || k.usedAt.Before(o.usedAt) {
			oldest = way
		}
	}
	ts.byWay[oldest].CloseIdleConnections()
	delete(ts.byWay, oldest)
}

// CloseIdleConnections closes those of all.
func (ts *transports) CloseIdleConnections() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, k := range ts.byWay {
		k.CloseIdleConnections()
	}
}

func configOf(way windsock.TLS) (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if way.CA != "" {
		config.RootCAs = x509.NewCertPool() // nil: the roots of the system
		if !config.RootCAs.AppendCertsFromPEM([]byte(way.CA)) {
			return nil, errCertificates
		}
	}
	if way.ClientCert != "" {
		pair, err := tls.X509KeyPair([]byte(way.ClientCert), []byte(way.ClientKey))
		if err != nil {
			return nil, errCertificates
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}
