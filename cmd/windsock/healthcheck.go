package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"
)

// HealthcheckCmd is "windsock healthcheck", made for HEALTHCHECK of an image: the
// address, and the certificate that is to be shown there, are found where serve finds
// them, too.
type HealthcheckCmd struct {
	URL     string `name:"url" help:"Where the service is; default: at its address." placeholder:"URL" env:"WINDSOCK_URL"`
	Listen  string `help:"Address the service answers on (default ${listen})." placeholder:"HOST:PORT" default:"${listen}" env:"WINDSOCK_LISTEN"`
	TLSCert string `name:"tls-cert" help:"PEM file with the certificate of the service, if it answers over TLS; of no use with --url." placeholder:"FILE" env:"WINDSOCK_TLS_CERT"`
	trust
}

// Run asks, and says what the answer was.
func (c *HealthcheckCmd) Run(ctx context.Context, io stdio) error {
	transport, err := c.transport()
	if err != nil {
		return err
	}
	transport.DisableKeepAlives = true
	base := c.URL
	switch {
	case base != "":
	case c.TLSCert != "":
		base = "https://" + reachable(c.Listen)
		if err := expectOwn(transport.TLSClientConfig, c.TLSCert); err != nil {
			return err
		}
	default:
		base = "http://" + reachable(c.Listen)
	}
	if err := checkReady(ctx, base, transport); err != nil {
		return err
	}
	fmt.Fprintf(io.err, "%s is ready\n", base)
	return nil
}

// expectOwn has a client expect, at whatever address, the certificate in the file.
func expectOwn(config *tls.Config, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return fmt.Errorf("%s holds no certificate", file)
	}
	own, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	config.RootCAs = x509.NewCertPool()
	config.RootCAs.AppendCertsFromPEM(text)
	switch {
	case len(own.DNSNames) > 0:
		config.ServerName = strings.Replace(own.DNSNames[0], "*", "any", 1)
	case len(own.IPAddresses) > 0:
		config.ServerName = own.IPAddresses[0].String()
	}
	return nil
}

// checkReady returns why the service at base is not ready, or nil.
func checkReady(ctx context.Context, base string, transport http.RoundTripper) error {
	target, err := url.JoinPath(base, "readyz")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	client := http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 500))
		return fmt.Errorf("not ready: %s answered %s %s", target, resp.Status, printable(string(why)))
	}
	return nil
}

// reachable returns an address at which one that listens on addr is reached from the
// same machine: that of loopback, if it listens on all.
func reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	switch ip, err := netip.ParseAddr(host); {
	case host == "" || (err == nil && ip == netip.IPv4Unspecified()):
		host = "127.0.0.1"
	case err == nil && ip == netip.IPv6Unspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}
