package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"windsock"
)

// An authority issues certificates for tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	a := new(authority)
	a.cert, a.key = a.sign(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour)})
	return a
}

// sign makes a certificate; an authority that has none yet signs it by itself.
func (a *authority) sign(t testing.TB, want *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	by, with := a.cert, a.key
	if by == nil {
		by, with = want, key
	}
	der, err := x509.CreateCertificate(rand.Reader, want, by, &key.PublicKey, with)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

// issue writes a certificate, for 127.0.0.1 and windsock.example, and its key.
func (a *authority) issue(t testing.TB, cert, key string, until time.Time) {
	t.Helper()
	made, private := a.sign(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "windsock.example"}, NotAfter: until,
		DNSNames: []string{"windsock.example"}, IPAddresses: []net.IP{{127, 0, 0, 1}},
	})
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, cert, "CERTIFICATE", made.Raw)
	writePEM(t, key, "PRIVATE KEY", der)
}

func writePEM(t testing.TB, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// pki is a folder with an authority and what it issued.
type pki struct {
	*authority
	ca, cert, key string
}

func newPKI(t testing.TB) pki {
	dir := t.TempDir()
	p := pki{newAuthority(t), filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	writePEM(t, p.ca, "CERTIFICATE", p.authority.cert.Raw)
	p.issue(t, p.cert, p.key, time.Now().Add(time.Hour))
	return p
}

func (p pki) config() TLSConfig { return TLSConfig{Cert: p.cert, Key: p.key} }

// client trusts the authority alone.
func (p pki) client(t testing.TB) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(p.authority.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience}
}

// serveWith starts the service until the test ends, and returns where it is.
func serveWith(t *testing.T, opts ServeOptions) string {
	t.Helper()
	opts.Listen, opts.DB = "127.0.0.1:0", filepath.Join(t.TempDir(), "windsock.db")
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() { ended <- serve(ctx, opts, func(addr string) { ready <- addr }) }()
	select {
	case addr := <-ready:
		t.Cleanup(func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
		return addr
	case err := <-ended:
		cancel()
		t.Fatal(err)
		return ""
	}
}

// call returns the answer, and its body.
func call(t *testing.T, c *http.Client, method, url, body string, header ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(text)
}

func TestTLS(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	addr := serveWith(t, ServeOptions{TLS: p.config(), File: true, Deployments: []windsock.DeploymentSpec{{ID: "shop"}}})
	base := "https://" + addr

	c := p.client(t)
	resp, _ := call(t, c, "GET", base+"/livez", "")
	if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
		t.Errorf("Go's client: %s over %s", resp.Status, resp.Proto)
	}
	resp, text := call(t, c, "PUT", base+"/api/instances/web-1", `{"deployment_id": "shop"}`, "Content-Type", "application/json")
	if resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s %s", resp.Status, text)
	}

	if plain, err := http.Get("http://" + addr + "/livez"); err != nil || plain.StatusCode != http.StatusBadRequest {
		t.Errorf("without TLS: %v, %v", plain, err)
	} else {
		plain.Body.Close()
	}
	old := p.client(t)
	old.Transport.(*http.Transport).TLSClientConfig.MaxVersion = tls.VersionTLS11
	if resp, err := old.Get(base + "/livez"); err == nil {
		resp.Body.Close()
		t.Error("TLS 1.1 is served")
	}

	t.Run("curl", func(t *testing.T) {
		curl, err := exec.LookPath("curl")
		if err != nil {
			t.Skip("there is no curl")
		}
		for flag, want := range map[string]string{"--http2": "2 200", "--http1.1": "1.1 200", "--tls-max=1.2": "2 200"} {
			name, value, _ := strings.Cut(flag, "=")
			args := []string{"-sS", "--cacert", p.ca, "-o", "/dev/null", "-w", "%{http_version} %{http_code}", name}
			if value != "" {
				args = append(args, value)
			}
			out, err := exec.Command(curl, append(args, base+"/readyz")...).CombinedOutput()
			if err != nil || string(out) != want {
				t.Errorf("curl %s: %s, %v; want %s", flag, out, err, want)
			}
		}
	})

	t.Run("a long poll and a stream over HTTP/2 hear of what happens", func(t *testing.T) {
		var page struct{ Next int64 }
		_, text := call(t, c, "GET", base+"/api/events", "")
		if err := json.Unmarshal([]byte(text), &page); err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), "GET", base+"/api/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/event-stream")
		stream, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Body.Close()
		polled := make(chan string, 1)
		go func() {
			resp, err := c.Get(fmt.Sprintf("%s/api/events?wait=30s&after=%d&kind=instance&detection=FAIL+DETECTED", base, page.Next))
			if err != nil {
				polled <- err.Error()
				return
			}
			defer resp.Body.Close()
			text, _ := io.ReadAll(resp.Body)
			polled <- resp.Proto + string(text)
		}()
		call(t, c, "POST", base+"/api/monitors/deployment/instance/web-1", `{"state":"FAIL DETECTED","source":"test"}`, "Content-Type", "application/json")
		if got := <-polled; !strings.HasPrefix(got, "HTTP/2") || !strings.Contains(got, "FAIL DETECTED") {
			t.Errorf("the poll has %s", got)
		}
		out, heard := lines()
		go io.Copy(out, stream.Body)
		await(t, heard, "FAIL DETECTED")
		out.Close()
	})

	t.Run("the commands", func(t *testing.T) {
		for name, c := range map[string]struct {
			args []string
			exit int
			say  string
		}{
			"wait":                         {[]string{"wait", "instance", "web-1", "--for", "failed", "--url", base, "--ca-file", p.ca}, 0, "is failed"},
			"check by nobody who can look": {[]string{"check", "instance", "web-1", "--url", base, "--ca-file", p.ca}, 3, "nothing can look at it"},
			"check of a stranger":          {[]string{"check", "instance", "web-1", "--url", base}, 3, "unknown authority"},
			"an authority that is none":    {[]string{"check", "instance", "web-1", "--url", base, "--ca-file", p.key}, 3, "holds no certificate"},
			"healthcheck by its own":       {[]string{"healthcheck", "--listen", addr, "--tls-cert", p.cert}, 0, ""},
			"healthcheck":                  {[]string{"healthcheck", "--url", base, "--ca-file", p.ca}, 0, ""},
			"report that is refused":       {[]string{"report", "detection", "instance", "nobody", "FAIL", "--spool", t.TempDir(), "--url", base, "--ca-file", p.ca}, 1, ""},
			"report to a stranger":         {[]string{"report", "detection", "instance", "nobody", "FAIL", "--spool", t.TempDir(), "--url", base}, 0, ""},
			"healthcheck of a stranger":    {[]string{"healthcheck", "--url", base}, 1, ""},
		} {
			var out, err bytes.Buffer
			if exit := run(t.Context(), c.args, &out, &err); exit != c.exit || !strings.Contains(out.String(), c.say) {
				t.Errorf("%s: exit status %d, want %d: %s%s", name, exit, c.exit, &out, &err)
			}
		}
	})
}

// An agent waits for its work on a parked connection, over TLS too, and is told to signal
// there; one who speaks HTTP/2 waits in the server.
func TestWorkIsWaitedForOverTLS(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	base := "https://" + serveWith(t, ServeOptions{
		TLS: p.config(), File: true, Deployments: []windsock.DeploymentSpec{{ID: "shop"}}, Instances: []windsock.InstanceSpec{{ID: "web-1", DeploymentID: "shop"}},
	})
	c := p.client(t)
	_, text := call(t, c, "POST", base+"/api/instances/web-1/token", "")
	var token struct{ Token string }
	if err := json.Unmarshal([]byte(text), &token); err != nil || token.Token == "" {
		t.Fatalf("%s: %v", text, err)
	}
	http1, err := trust{CAFile: p.ca}.transport()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http1.CloseIdleConnections)
	for proto, c := range map[string]*http.Client{"HTTP/2.0": c, "HTTP/1.1": {Transport: http1, Timeout: patience}} {
		ask := func(tag string) (*http.Response, string) {
			t.Helper()
			resp, text := call(t, c, "GET", base+"/api/instances/web-1/components?wait=50ms", "", "Authorization", "Bearer "+token.Token, "If-None-Match", tag)
			if resp.Proto != proto {
				t.Errorf("%s, want %s", resp.Proto, proto)
			}
			return resp, text
		}
		resp, _ := ask("")
		tag := resp.Header.Get("ETag")
		for range 3 { // each on the connection that was handed back
			if resp, text := ask(tag); resp.StatusCode != http.StatusNotModified || resp.Header.Get("ETag") != tag {
				t.Errorf("%s: %s %s %s", proto, resp.Status, resp.Header, text)
			}
		}
		if resp, _ := ask(`"other"`); resp.StatusCode != http.StatusOK || resp.TLS == nil {
			t.Errorf("%s: %s after it was parked", proto, resp.Status)
		}
	}
}

func TestCertificateIsReadAgain(t *testing.T) {
	p := newPKI(t)
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		var said bytes.Buffer
		first, second := time.Now().Add(time.Hour).Truncate(time.Second), time.Now().Add(2*time.Hour).Truncate(time.Second)
		p.issue(t, p.cert, p.key, first)
		c, err := openCertificate(p.config(), slog.New(slog.NewTextHandler(&said, nil)), reg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		shown := func(want time.Time) {
			t.Helper()
			time.Sleep(2 * certEvery) // of the bubble
			synctest.Wait()
			expects := fmt.Sprintf("# HELP windsock_tls_certificate_expiry_timestamp_seconds When the certificate that is shown expires, in seconds since 1970.\n# TYPE windsock_tls_certificate_expiry_timestamp_seconds gauge\nwindsock_tls_certificate_expiry_timestamp_seconds %d\n", want.Unix())
			if err := testutil.GatherAndCompare(reg, strings.NewReader(expects)); err != nil {
				t.Error(err)
			}
			if leaf := c.current.Load().Certificates[0].Leaf; !leaf.NotAfter.Equal(want) {
				t.Errorf("it expires at %s, want %s", leaf.NotAfter, want)
			}
		}
		broken := 0
		refused := func() {
			t.Helper()
			broken++
			shown(first)
			if n := strings.Count(said.String(), "level=ERROR"); n != broken {
				t.Errorf("%d errors were logged, want %d:\n%s", n, broken, &said)
			}
		}
		shown(first)
		kept := p.key + ".kept"
		rename(t, p.key, kept)
		refused()
		writePEM(t, p.key, "CERTIFICATE", []byte("no key"))
		refused()
		newAuthority(t).issue(t, kept+".cert", p.key, second) // the key of another
		refused()
		p.issue(t, p.cert, p.key, second)
		shown(second)
		if n := strings.Count(said.String(), "certificate read again"); n != 1 {
			t.Errorf("it was read again %d times:\n%s", n, &said)
		}
		if strings.Contains(said.String(), "PRIVATE KEY") {
			t.Errorf("a key is logged:\n%s", &said)
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func TestClientCertificates(t *testing.T) {
	p, others := newPKI(t), newPKI(t)
	files := p.config()
	files.ClientCA = filepath.Join(t.TempDir(), "clients.pem")
	trusts := func(of pki) {
		t.Helper()
		writePEM(t, files.ClientCA, "CERTIFICATE", of.authority.cert.Raw)
	}
	trusts(p)
	out, said := lines()
	base := "https://" + serveWith(t, ServeOptions{TLS: files, Log: slog.New(slog.NewTextHandler(out, nil))})
	t.Cleanup(func() { out.Close() })
	health := func(of pki) int {
		t.Helper()
		var log bytes.Buffer
		return run(t.Context(), []string{"healthcheck", "--url", base, "--ca-file", p.ca, "--cert-file", of.cert, "--key-file", of.key}, &log, &log)
	}
	if resp, err := p.client(t).Get(base + "/livez"); err == nil {
		resp.Body.Close()
		t.Error("one without a certificate is let in")
	}
	if ours, theirs := health(p), health(others); ours != 0 || theirs != 1 {
		t.Errorf("ours ends with %d, that of others with %d", ours, theirs)
	}
	var log bytes.Buffer
	if exit := run(t.Context(), []string{"healthcheck", "--url", base, "--cert-file", p.cert}, &log, &log); exit != 1 || !strings.Contains(log.String(), "--key-file") {
		t.Errorf("without the key: %d %s", exit, &log)
	}

	// One who was let in, and would resume his session, is not any more.
	resumes := p.client(t)
	transport := resumes.Transport.(*http.Transport)
	pair, err := tls.LoadX509KeyPair(p.cert, p.key)
	if err != nil {
		t.Fatal(err)
	}
	transport.TLSClientConfig.ClientSessionCache, transport.TLSClientConfig.Certificates = tls.NewLRUClientSessionCache(1), []tls.Certificate{pair}
	transport.DisableKeepAlives = true
	for want := range 2 {
		resp, _ := call(t, resumes, "GET", base+"/livez", "")
		if resumed := resp.TLS.DidResume; resumed != (want == 1) {
			t.Errorf("resumed: %t, of request %d", resumed, want)
		}
	}
	trusts(others)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	await(t, said, "certificate read again")
	if resp, err := resumes.Get(base + "/livez"); err == nil {
		resp.Body.Close()
		t.Error("a session of one who is not let in any more is resumed")
	}
	if ours, theirs := health(p), health(others); ours != 1 || theirs != 0 {
		t.Errorf("after it changed ours ends with %d, that of others with %d", ours, theirs)
	}
}

func TestWhatTLSNeeds(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	for name, c := range map[string]struct{ args, want string }{
		"no key":                     {"--tls-cert=" + p.cert, "tls.key: the key"},
		"no certificate":             {"--tls-key=" + p.key, "tls.cert: the certificate"},
		"authorities alone":          {"--tls-client-ca=" + p.ca, "tls.cert: the certificate"},
		"a certificate that is none": {"--tls-cert=" + p.key + " --tls-key=" + p.key, "tls: failed to find"},
		"no such file":               {"--tls-cert=" + p.ca + "x --tls-key=" + p.key, "no such file"},
		"authorities that are none":  {"--tls-cert=" + p.cert + " --tls-key=" + p.key + " --tls-client-ca=" + p.key, "holds no certificate"},
	} {
		var out bytes.Buffer
		args := append([]string{"serve", "--listen=127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "w.db")}, strings.Fields(c.args)...)
		if exit := run(t.Context(), args, &out, &out); exit != 1 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s: exit status %d, want %q in %s", name, exit, c.want, &out)
		}
	}
	if _, err := LoadConfig(writeConfig(t, "tls:\n  cert: a.pem\n")); err == nil || !strings.Contains(err.Error(), "tls.key: the key") {
		t.Errorf("in the file: %v", err)
	}
}

func TestFlagsOfTLSWinOverTheFile(t *testing.T) {
	file, err := LoadConfig(writeConfig(t, "tls: {cert: a.pem, key: a.key, client_ca: ca.pem}\n"))
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("WINDSOCK_TLS_KEY", "b.key")
	want := TLSConfig{Cert: "b.pem", Key: "b.key", ClientCA: "ca.pem"}
	if got := parseServe(t, "--tls-cert", "b.pem").options(file).TLS; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}
