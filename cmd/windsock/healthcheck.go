package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"
)

// HealthcheckCmd is "windsock healthcheck", made for HEALTHCHECK of an image: the
// address is found where serve finds it, too.
type HealthcheckCmd struct {
	URL    string `name:"url" help:"Where the service is; default: at its address." placeholder:"URL" env:"WINDSOCK_URL"`
	Listen string `help:"Address the service answers on." placeholder:"HOST:PORT" default:"${listen}" env:"WINDSOCK_LISTEN"`
}

// Run asks, and says what the answer was.
func (c *HealthcheckCmd) Run(ctx context.Context, io stdio) error {
	base := c.URL
	if base == "" {
		base = "http://" + reachable(c.Listen)
	}
	if err := checkReady(ctx, base); err != nil {
		return err
	}
	fmt.Fprintf(io.err, "%s is ready\n", base)
	return nil
}

// checkReady returns why the service at base is not ready, or nil.
func checkReady(ctx context.Context, base string) error {
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
		Transport:     &http.Transport{DisableKeepAlives: true}, // and no proxy
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
