package libvirt

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"windsock"
)

// parseURI reads the URI of a host, of those that are reached by a socket, TCP or TLS.
func parseURI(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	_, transport, _ := strings.Cut(u.Scheme, "+")
	switch {
	case u.Scheme == "" || u.Path == "":
		return nil, fmt.Errorf("want one like qemu:///system, got %q", windsock.Clip(text))
	case transport != "" && transport != "unix" && transport != "tcp" && transport != "tls":
		return nil, fmt.Errorf("a host is reached by unix, tcp or tls, not %q", windsock.Clip(transport))
	case (transport == "tcp" || transport == "tls") != (u.Host != ""):
		return nil, errors.New("want a host with +tcp and +tls, and none without")
	}
	return u, nil
}

// sockets are where the host's own daemon is found: the monolithic one, or that of the
// driver. Both let everybody read, and have another for those who change things.
func sockets(u *url.URL) []string {
	if s := u.Query().Get("socket"); s != "" {
		return []string{s}
	}
	driver, _, _ := strings.Cut(u.Scheme, "+")
	return []string{"/run/libvirt/libvirt-sock-ro", "/run/libvirt/virt" + driver + "d-sock-ro"}
}

// A dialer connects to a host. The connection ends with ctx, as the library's calls do not.
type dialer struct {
	ctx context.Context
	uri *url.URL
}

// Dial implements socket.Dialer.
func (d dialer) Dial() (net.Conn, error) {
	conn, err := d.dial()
	if err != nil {
		return nil, err
	}
	context.AfterFunc(d.ctx, func() { conn.Close() })
	return &frames{Conn: conn}, nil
}

func (d dialer) dial() (conn net.Conn, err error) {
	var plain net.Dialer
	_, transport, _ := strings.Cut(d.uri.Scheme, "+")
	at := func(port string) string {
		if p := d.uri.Port(); p != "" {
			port = p
		}
		return net.JoinHostPort(d.uri.Hostname(), port)
	}
	switch transport {
	case "tcp":
		return plain.DialContext(d.ctx, "tcp", at("16509"))
	case "tls":
		return dialTLS(d.ctx, at("16514"), d.uri.Query().Get("pkipath"))
	}
	for _, socket := range sockets(d.uri) {
		if conn, err = plain.DialContext(d.ctx, "unix", socket); err == nil || !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	return conn, err
}

// dialTLS connects as libvirt does: both show a certificate, and the host says in one byte
// whether it took ours.
func dialTLS(ctx context.Context, addr, folder string) (net.Conn, error) {
	ca, cert, key := "/etc/pki/CA/cacert.pem", "/etc/pki/libvirt/clientcert.pem", "/etc/pki/libvirt/private/clientkey.pem"
	if folder != "" {
		ca, cert, key = filepath.Join(folder, "cacert.pem"), filepath.Join(folder, "clientcert.pem"), filepath.Join(folder, "clientkey.pem")
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s has no certificate", ca)
	}
	secure := tls.Dialer{Config: &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: roots}}
	conn, err := secure.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var taken [1]byte
	if _, err := conn.Read(taken[:]); err != nil || taken[0] != 1 {
		conn.Close()
		return nil, errors.Join(errors.New("the host does not take our certificate"), err)
	}
	return conn, nil
}

// frames is a connection that ends at the first message whose length makes no sense: the
// library takes as much memory as that says, and panics where it says too little.
type frames struct {
	net.Conn
	header [4]byte // the length of a message, with itself
	have   int     // bytes of that
	rest   uint32  // bytes of the message that are still to come
}

const (
	minFrame = 28       // a header
	maxFrame = 64 << 20 // twice what libvirt sends at most
)

func (f *frames) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	for b := p[:n]; len(b) > 0; {
		if f.rest > 0 {
			skip := min(f.rest, uint32(len(b)))
			f.rest -= skip
			b = b[skip:]
			continue
		}
		take := copy(f.header[f.have:], b)
		f.have += take
		b = b[take:]
		if f.have < len(f.header) {
			continue
		}
		f.have = 0
		size := binary.BigEndian.Uint32(f.header[:])
		if size < minFrame || size > maxFrame {
			f.Conn.Close()
			return 0, fmt.Errorf("no libvirt answers: a message of %d bytes", size)
		}
		f.rest = size - uint32(len(f.header))
	}
	return n, err
}
