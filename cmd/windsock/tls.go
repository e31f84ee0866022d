package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"windsock"
)

// TLSConfig names the PEM files with which the API is served over TLS.
type TLSConfig struct {
	Cert     string `json:"cert"` // and those between it and the authority; "": no TLS
	Key      string `json:"key"`
	ClientCA string `json:"client_ca"` // who does not have a certificate of these is not let in; "": all are
}

func (c TLSConfig) check() error {
	switch {
	case c.Cert != "" && c.Key == "":
		return windsock.Invalid("tls.key", "the key of the certificate is missing")
	case c.Cert == "" && (c.Key != "" || c.ClientCA != ""):
		return windsock.Invalid("tls.cert", "the certificate is missing")
	}
	return nil
}

// certEvery is how often the files are looked at. Kubernetes and others swap them under
// links, which no watch of the file itself would see.
const certEvery = 10 * time.Second

// A certificate is what we show, and whom we let in, as the files had it when they last
// made sense.
type certificate struct {
	files   TLSConfig
	log     *slog.Logger
	hangup  chan os.Signal // has the files looked at now
	expiry  prometheus.Gauge
	current atomic.Pointer[tls.Config]
	seen    []byte // what the files held when they were last looked at
}

// openCertificate reads the files.
func openCertificate(files TLSConfig, log *slog.Logger, reg prometheus.Registerer) (*certificate, error) {
	c := &certificate{files: files, log: log, hangup: make(chan os.Signal, 1), expiry: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "windsock_tls_certificate_expiry_timestamp_seconds",
		Help: "When the certificate that is shown expires, in seconds since 1970.",
	})}
	reg.MustRegister(c.expiry)
	_, err := c.read()
	return c, err
}

// read takes over what the files hold, if it makes sense, and reports whether that is not
// what they held before.
func (c *certificate) read() (changed bool, err error) {
	cert, err := os.ReadFile(c.files.Cert)
	if err != nil {
		return false, err
	}
	key, err := os.ReadFile(c.files.Key)
	if err != nil {
		return false, err
	}
	var ca []byte
	if c.files.ClientCA != "" {
		if ca, err = os.ReadFile(c.files.ClientCA); err != nil {
			return false, err
		}
	}
	all := bytes.Join([][]byte{cert, key, ca}, []byte{0})
	if bytes.Equal(all, c.seen) {
		return false, nil
	}
	c.seen = all
	config := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: make([]tls.Certificate, 1)}
	if config.Certificates[0], err = tls.X509KeyPair(cert, key); err != nil {
		return true, fmt.Errorf("%s and %s: %w", c.files.Cert, c.files.Key, err)
	}
	if c.files.ClientCA != "" {
		config.ClientAuth, config.ClientCAs = tls.RequireAndVerifyClientCert, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(ca) {
			return true, fmt.Errorf("%s holds no certificate", c.files.ClientCA)
		}
	}
	c.expiry.Set(float64(config.Certificates[0].Leaf.NotAfter.Unix()))
	c.current.Store(config)
	return true, nil
}

// config is for a listener. Connections keep what they began with.
func (c *certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.current.Load(), nil },
	}
}

// Run reads the files again when they have changed, until ctx ends. What makes no sense
// is told once, and what was before stays.
func (c *certificate) Run(ctx context.Context) error {
	tick := time.NewTicker(certEvery)
	defer tick.Stop()
	for told := ""; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-c.hangup:
		case <-tick.C:
		}
		changed, err := c.read()
		if err == nil {
			told = ""
			if changed {
				c.log.Info("certificate read again", "expires", c.current.Load().Certificates[0].Leaf.NotAfter)
			}
		} else if err.Error() != told {
			told = err.Error()
			c.log.Error("certificate not read again, the one before stays", "error", err)
		}
	}
}
