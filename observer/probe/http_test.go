package probe

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"windsock"
)

func pemOf(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

// serve runs handler until the test ends; a handler that waits for the request's
// context is let go then.
func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	srv := httptest.NewUnstartedServer(handler)
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	srv.Start()
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv
}

// accept hands every connection to a port of its own to conn, until the test ends.
func accept(t *testing.T, conn func(net.Conn)) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			conn(c)
		}
	}()
	return l.Addr().String()
}

// reset breaks a connection off without a goodbye.
func reset(c net.Conn) {
	c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// nobody is an address where nothing listens.
func nobody(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func get(t *testing.T, url string, status int, timeout windsock.Duration) Result {
	return Look(t.Context(), windsock.Probe{Type: windsock.ProbeHTTP, Target: url, Status: status, Timeout: timeout})
}

func TestHTTPStatus(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var status int
		fmt.Sscan(r.URL.Path[1:], &status)
		w.Header().Set("Location", "/500")
		w.WriteHeader(status)
	})
	for name, tt := range map[string]struct {
		answer, wanted int
		want           Result
	}{
		"fine":                       {200, 0, running("answered 200 OK")},
		"nothing to say is fine":     {204, 0, running("answered 204 No Content")},
		"a redirect passes as it is": {302, 0, running("answered 302 Found")},
		"not there":                  {404, 0, failed("answered 404 Not Found")},
		"broken":                     {503, 0, failed("answered 503 Service Unavailable")},
		"the one status":             {401, 401, running("answered 401 Unauthorized")},
		"not the one status":         {200, 204, failed("answered 200 OK instead of 204")},
		"a redirect is not the one":  {301, 200, failed("answered 301 Moved Permanently instead of 200")},
	} {
		t.Run(name, func(t *testing.T) {
			wantResult(t, get(t, fmt.Sprintf("%s/%d?token=SECRET", srv.URL, tt.answer), tt.wanted, ample), tt.want)
		})
	}
}

func TestHTTPSaysWhoAsks(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() != "windsock-probe" || r.Method != "GET" || r.Host != "127.0.0.1:"+port(r) || !r.Close {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	wantResult(t, get(t, srv.URL, 0, ample), running("answered 200 OK"))
}

func port(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Context().Value(http.LocalAddrContextKey).(net.Addr).String())
	return port
}

func TestHTTPBody(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	for name, tt := range map[string]struct {
		handler http.HandlerFunc
		timeout windsock.Duration
		want    Result
	}{
		"no answer": {hang, soon, failed("timed out")},
		"body stops midway": {func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "half of")
			w.(http.Flusher).Flush()
			hang(w, r)
		}, soon, failed("timed out")},
		"body never ends": {func(w http.ResponseWriter, r *http.Request) {
			for line := []byte(strings.Repeat("x", 4096)); r.Context().Err() == nil; {
				w.Write(line)
			}
		}, ample, running("answered 200 OK")},
		"body shorter than announced": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			io.WriteString(w, "short")
		}, ample, failed("connection closed early")},
		"headers never end": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Big", strings.Repeat("x", 2*maxHeader))
		}, ample, failed("not a proper answer")},
		"body of an error is not waited for": {func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			w.(http.Flusher).Flush()
			hang(w, r)
		}, ample, failed("answered 500 Internal Server Error")},
	} {
		t.Run(name, func(t *testing.T) {
			wantResult(t, get(t, serve(t, tt.handler).URL, 0, tt.timeout), tt.want)
		})
	}
}

func TestHTTPConnection(t *testing.T) {
	read := func(c net.Conn) { c.Read(make([]byte, 4096)) }
	for name, tt := range map[string]struct {
		address string
		want    Result
	}{
		"refused": {nobody(t), failed("connection refused")},
		"reset":   {accept(t, func(c net.Conn) { read(c); reset(c) }), failed("connection reset")},
		"closed":  {accept(t, func(c net.Conn) { read(c); c.Close() }), failed("connection closed early")},
		"another protocol": {accept(t, func(c net.Conn) {
			read(c)
			io.WriteString(c, "SSH-2.0-OpenSSH_9.2\r\n")
			c.Close()
		}), failed("not a proper answer")},
		"no such name":         {"gone.test.:80", unknown("no such name")},
		"name server fails":    {"broken.test.:80", unknown("the name could not be looked up")},
		"port out of range":    {"127.0.0.1:99999", unknown("the target is not an address")},
		"a zone badly written": {"[::1%nowhere]:80", unknown("the target is not a URL")},
	} {
		t.Run(name, func(t *testing.T) { wantResult(t, get(t, "http://"+tt.address+"/?token=SECRET", 0, ample), tt.want) })
	}
}

// A name server that stays silent until the time is up is no fault of the target.
func TestSilentNameServer(t *testing.T) {
	names.beSilent(t)
	want := unknown("the name could not be looked up")
	wantResult(t, get(t, "http://silent.test.:80/", 0, soon), want)
	wantResult(t, connect(t, "silent.test.:80", soon), want)
}

func TestHTTPS(t *testing.T) {
	serveTLS := func(cert *tls.Certificate) string {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		srv.Config.ErrorLog = log.New(io.Discard, "", 0)
		if cert != nil {
			srv.TLS = &tls.Config{Certificates: []tls.Certificate{*cert}}
		}
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv.URL
	}
	plain := "https://" + strings.TrimPrefix(serve(t, func(http.ResponseWriter, *http.Request) {}).URL, "http://")
	trusted := serveTLS(nil)
	for name, tt := range map[string]struct {
		url  string
		want Result
	}{
		"trusted":            {trusted, running("answered 200 OK")},
		"for another name":   {strings.Replace(trusted, "127.0.0.1", "localhost", 1), failed("certificate for another name")},
		"signed by nobody":   {serveTLS(selfSigned(t, time.Now().Add(time.Hour))), failed("certificate of an unknown authority")},
		"ran out":            {serveTLS(selfSigned(t, time.Now().Add(-time.Hour))), failed("certificate expired or not yet valid")},
		"no TLS at all":      {plain, failed("does not speak TLS")},
		"reset in mid-hello": {"https://" + accept(t, reset), failed("connection reset")},
	} {
		t.Run(name, func(t *testing.T) { wantResult(t, get(t, tt.url, 0, ample), tt.want) })
	}
}

func selfSigned(t *testing.T, until time.Time) *tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		NotBefore:    until.Add(-24 * time.Hour),
		NotAfter:     until,
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Who calls a look off learns nothing, in whatever phase it was.
func TestHTTPCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	p := windsock.Probe{Type: windsock.ProbeHTTP, Target: srv.URL, Timeout: ample}
	wantResult(t, Look(ctx, p), unknown("the look was called off"))
	wantResult(t, Look(ctx, p), unknown("the look was called off"))
}
