package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"

	"windsock"
)

// trust is by what a command that asks windsock knows it, and is known to it.
type trust struct {
	CAFile   string `name:"ca-file" help:"PEM file with the authorities that vouch for windsock (default: those of the system)." placeholder:"FILE" env:"WINDSOCK_CA_FILE"`
	CertFile string `help:"PEM file with a certificate to show, where windsock lets in nobody without." placeholder:"FILE" env:"WINDSOCK_CERT_FILE"`
	KeyFile  string `help:"PEM file with its key." placeholder:"FILE" env:"WINDSOCK_KEY_FILE"`
}

// transport is new, without a proxy. It speaks HTTP/1.1: whoever waits on a connection of
// HTTP/2 costs windsock several times as much (api/park.go).
func (t trust) transport() (*http.Transport, error) {
	config := new(tls.Config)
	if t.CAFile != "" {
		text, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, err
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s holds no certificate", t.CAFile)
		}
	}
	if (t.CertFile == "") != (t.KeyFile == "") {
		return nil, windsock.Invalid("--cert-file", "it and --key-file need each other")
	}
	if t.CertFile != "" { // read for each connection: it may be renewed while an agent runs
		load := func() (*tls.Certificate, error) {
			c, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
			return &c, err
		}
		if _, err := load(); err != nil {
			return nil, err
		}
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return load() }
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.TLSClientConfig, transport.ForceAttemptHTTP2 = nil, config, false
	transport.Protocols = new(http.Protocols)
	transport.Protocols.SetHTTP1(true)
	return transport, nil
}
