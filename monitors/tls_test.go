package monitors

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"windsock"
)

// An issuer makes certificates.
type issuer struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  string
}

// issue makes a certificate for one host, and its key, in PEM. Without an issuer it is
// one for issuers, which vouches for itself.
func issue(t *testing.T, by *issuer, host string, until time.Time) (cert, key string, made *issuer) {
	t.Helper()
	priv, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host},
		NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	parent := &issuer{template, priv, ""}
	if by != nil {
		parent = by
	} else {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent.cert, &priv.PublicKey, parent.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(priv)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	cert = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	key = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}))
	return cert, key, &issuer{parsed, priv, cert}
}

// newCA returns an issuer that vouches for itself.
func newCA(t *testing.T, name string) *issuer {
	_, _, ca := issue(t, nil, name, time.Now().Add(time.Hour))
	return ca
}

// newTLSReceiver is a receiver that shows a certificate and asks for one; with clients, it
// demands one that they issued.
func newTLSReceiver(t *testing.T, cert, key string, clients *issuer) *receiver {
	t.Helper()
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(r.keep(nil))
	r.Server.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.Server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequestClientCert}
	if clients != nil {
		pool := x509.NewCertPool()
		pool.AddCert(clients.cert)
		r.Server.TLS.ClientAuth, r.Server.TLS.ClientCAs = tls.RequireAndVerifyClientCert, pool
	}
	r.Server.EnableHTTP2 = true
	r.Server.StartTLS()
	t.Cleanup(r.Close)
	return r
}

func TestCertificates(t *testing.T) {
	later := time.Now().Add(time.Hour)
	ours, theirs := newCA(t, "ours"), newCA(t, "theirs")
	good, goodKey, _ := issue(t, ours, "127.0.0.1", later)
	wrong, wrongKey, _ := issue(t, ours, "elsewhere.example", later)
	expired, expiredKey, _ := issue(t, ours, "127.0.0.1", time.Now().Add(-time.Hour))
	client, clientKey, _ := issue(t, ours, "windsock.example", later)
	stranger, strangerKey, _ := issue(t, theirs, "windsock.example", later)
	server := newTLSReceiver(t, good, goodKey, nil)
	demanding := newTLSReceiver(t, good, goodKey, ours)
	withClient := func(cert, key string) windsock.TLS {
		return windsock.TLS{CA: ours.pem, ClientCert: cert, ClientKey: windsock.Secret(key)}
	}
	// With TLS 1.3 a server refuses us when we think that all is well. What it says of it
	// may be lost with the connection.
	const byTheServer = "refused by the server"
	tests := map[string]struct {
		to    *receiver
		way   windsock.TLS
		error string // "": it is taken
	}{
		"its own CA":                         {server, windsock.TLS{CA: ours.pem}, ""},
		"one of two CAs":                     {server, windsock.TLS{CA: theirs.pem + ours.pem}, ""},
		"the roots of the system":            {server, windsock.TLS{}, "tls: x509: certificate signed by unknown authority"},
		"another CA":                         {server, windsock.TLS{CA: theirs.pem}, "tls: x509: certificate signed by unknown authority"},
		"the wrong name":                     {newTLSReceiver(t, wrong, wrongKey, nil), windsock.TLS{CA: ours.pem}, "tls: x509: cannot validate certificate for 127.0.0.1 because it doesn't contain any IP SANs"},
		"expired":                            {newTLSReceiver(t, expired, expiredKey, nil), windsock.TLS{CA: ours.pem}, "tls: x509: certificate has expired or is not yet valid"},
		"a client certificate":               {demanding, withClient(client, clientKey), ""},
		"no client certificate":              {demanding, windsock.TLS{CA: ours.pem}, byTheServer},
		"a client certificate of a stranger": {demanding, withClient(stranger, strangerKey), byTheServer},
		"a client certificate not asked for": {server, withClient(client, clientKey), ""},
	}
	l := newLog()
	for name, tc := range tests {
		l.add(name, spec(tc.to.URL), "")
		l.change(name, func(m *windsock.Target) { m.TLS = tc.way })
	}
	p := ready(t, l)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := p.Ping(t.Context(), name)
			want(t, "error", err, nil)
			if tc.error == "" {
				want(t, "failure", got.Error, "")
				want(t, "taken", got.Taken, true)
				return
			}
			want(t, "taken", got.Taken, false)
			if tc.error == byTheServer {
				return
			}
			want(t, "class", got.Class, "tls")
			if len(got.Error) < len(tc.error) || got.Error[:len(tc.error)] != tc.error {
				t.Errorf("failed with %q, want %q", got.Error, tc.error)
			}
		})
	}
	l.append(change("web", windsock.Failed)) // callbacks go the same way
	for name, tc := range tests {
		eventually(t, name, func() bool {
			d := p.delivery(t, name)
			return (tc.error == "" && !d.SuccessAt.IsZero()) || (tc.error != "" && d.Attempts > 0)
		})
	}
}

// One who shows a certificate does not lend its connection to one who shows none.
func TestConnectionsAreNotSharedBetweenWays(t *testing.T) {
	ca := newCA(t, "ours")
	cert, key, _ := issue(t, ca, "127.0.0.1", time.Now().Add(time.Hour))
	client, clientKey, _ := issue(t, ca, "windsock.example", time.Now().Add(time.Hour))
	r := newTLSReceiver(t, cert, key, nil)
	l := newLog()
	for i, way := range []windsock.TLS{{CA: ca.pem, ClientCert: client, ClientKey: windsock.Secret(clientKey)}, {CA: ca.pem}} {
		id := fmt.Sprint("m-", i)
		l.add(id, spec(r.URL), "")
		l.change(id, func(m *windsock.Target) { m.TLS = way })
	}
	p := ready(t, l)
	for i := range 4 {
		pong, err := p.Ping(t.Context(), fmt.Sprint("m-", i%2))
		want(t, "error", err, nil)
		want(t, "failure", pong.Error, "")
	}
	conns := map[string]int{}
	for i, got := range r.all() {
		conns[got.RemoteAddr]++
		want(t, fmt.Sprint("certificates shown in request ", i), len(got.TLS.PeerCertificates), 1-i%2)
	}
	want(t, "connections", len(conns), 2)
}

func TestTransportsAreBounded(t *testing.T) {
	var ts transports
	usual := NewTransport(Guard{Self: onLoopback})
	ca := newCA(t, "ours").pem
	at := time.Now()
	of := func(i int) http.RoundTripper {
		at = at.Add(time.Second)
		got, err := ts.of(windsock.TLS{CA: ca + fmt.Sprint("\n", i)}, usual, at)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	first, second := of(0), of(1)
	for i := 2; i < maxTransports; i++ {
		of(i)
	}
	if of(0) != first {
		t.Error("the first is not kept")
	}
	of(maxTransports)
	want(t, "kept", len(ts.byWay), maxTransports)
	if of(0) != first || of(1) == second {
		t.Error("not the one that was not used for longest made room")
	}
	if got, err := ts.of(windsock.TLS{}, usual, at); got != usual || err != nil {
		t.Errorf("without certificates: %v, %v", got, err)
	}
	for name, way := range map[string]windsock.TLS{"no CA": {CA: "x"}, "no certificate": {ClientCert: "x", ClientKey: "y"}} {
		if _, err := ts.of(way, usual, at); err != errCertificates {
			t.Errorf("%s: %v", name, err)
		}
	}
}
