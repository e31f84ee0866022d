package libvirt

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/digitalocean/go-libvirt"

	"windsock"
)

const uuid = "5e1ec7ed-0000-4000-8000-000000000001"

func aDomain(state, reason int32, metadata string) (d domain) {
	d.UUID, _ = parseUUID(uuid)
	d.Name, d.state, d.reason, d.metadata = "shop-web-1", state, reason, metadata
	return d
}

func check(t *testing.T, p *Provider) windsock.Sighting {
	t.Helper()
	s, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: uuid})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWhatADomainIs takes libvirt's own numbers, as its header has them.
func TestWhatADomainIs(t *testing.T) {
	f := newFake(t)
	p := f.provider(Config{})
	for name, c := range map[string]struct {
		state     libvirt.DomainState
		reason    int32
		want      windsock.State
		requested bool
		raw       string
	}{
		"runs, for whatever reason":  {libvirt.DomainRunning, int32(libvirt.DomainRunningUnpaused), windsock.Running, false, "running"},
		"waits for a disk":           {libvirt.DomainBlocked, 0, windsock.Running, false, "blocked"},
		"paused by somebody":         {libvirt.DomainPaused, int32(libvirt.DomainPausedUser), windsock.Suspended, true, "paused user"},
		"a disk is full":             {libvirt.DomainPaused, int32(libvirt.DomainPausedIoerror), windsock.Failed, false, "paused ioerror"},
		"not heard by its watchdog":  {libvirt.DomainPaused, int32(libvirt.DomainPausedWatchdog), windsock.Failed, false, "paused watchdog"},
		"starts":                     {libvirt.DomainPaused, int32(libvirt.DomainPausedStartingUp), windsock.Starting, false, "paused starting_up"},
		"came half-way":              {libvirt.DomainPaused, int32(libvirt.DomainPausedPostcopyFailed), windsock.Failed, false, "paused postcopy_failed"},
		"a command failed":           {libvirt.DomainPaused, int32(libvirt.DomainPausedAPIError), windsock.Failed, false, "paused api_error"},
		"paused for a new reason":    {libvirt.DomainPaused, 99, windsock.Suspended, false, "paused 99"},
		"shuts down":                 {libvirt.DomainShutdown, 0, windsock.Stopping, false, "shutdown"},
		"shut down":                  {libvirt.DomainShutoff, int32(libvirt.DomainShutoffShutdown), windsock.Stopped, true, "shutoff shutdown"},
		"powered off by somebody":    {libvirt.DomainShutoff, int32(libvirt.DomainShutoffDestroyed), windsock.Stopped, true, "shutoff destroyed"},
		"off since the host started": {libvirt.DomainShutoff, int32(libvirt.DomainShutoffUnknown), windsock.Stopped, false, "shutoff unknown"},
		"killed":                     {libvirt.DomainShutoff, int32(libvirt.DomainShutoffCrashed), windsock.Failed, false, "shutoff crashed"},
		"could not start":            {libvirt.DomainShutoff, int32(libvirt.DomainShutoffFailed), windsock.Failed, false, "shutoff failed"},
		"given up by libvirt":        {libvirt.DomainShutoff, int32(libvirt.DomainShutoffDaemon), windsock.Failed, false, "shutoff daemon"},
		"panicked, and is kept":      {libvirt.DomainCrashed, int32(libvirt.DomainCrashedPanicked), windsock.Failed, false, "crashed panicked"},
		"sleeps":                     {libvirt.DomainPmsuspended, 0, windsock.Suspended, false, "pmsuspended"},
		"in no state":                {libvirt.DomainNostate, 0, windsock.Unknown, false, "nostate"},
		"in a state that is new":     {42, 0, windsock.Unknown, false, "42"},
	} {
		t.Run(name, func(t *testing.T) {
			f.put(aDomain(int32(c.state), c.reason, ""))
			s := check(t, p)
			if s.State != c.want || s.Requested != c.requested || s.Raw != c.raw {
				t.Errorf("%d, %d is %s, requested %t, %q; want %s, %t, %q", c.state, c.reason, s.State, s.Requested, s.Raw, c.want, c.requested, c.raw)
			}
			if (s.State == windsock.Failed || s.State == windsock.Stopped) && s.Reason == "" {
				t.Errorf("%s has no reason", s.Raw)
			}
		})
	}
}

func TestEachWordHasAMeaning(t *testing.T) {
	n := 0
	for _, state := range states {
		list := reasons[state]
		for _, reason := range list {
			if _, ok := words[state+" "+reason]; !ok {
				t.Errorf("%s %s has none", state, reason)
			}
			n++
		}
		if list == nil {
			if _, ok := words[state]; !ok {
				t.Errorf("%s has none", state)
			}
			n++
		}
	}
	if n != len(words) {
		t.Errorf("there are %d words, and %d meanings", n, len(words))
	}
}

func TestWhereADomainBelongs(t *testing.T) {
	pattern := `^(?P<deployment>\w+)-(?P<assembly>\w+)-\d+$`
	for name, c := range map[string]struct {
		metadata             string
		config               Config
		deployment, assembly string
	}{
		"metadata go first":             {`<w:instance xmlns:w="urn:windsock" deployment="till" assembly="db"/>`, Config{NamePattern: pattern}, "till", "db"},
		"metadata with other things":    {`<windsock deployment="till"><owner>us</owner></windsock>`, Config{}, "till", ""},
		"metadata that make no sense":   {`<windsock deployment="till`, Config{NamePattern: pattern}, "shop", "web"},
		"no name of a deployment":       {`<windsock deployment="host:kvm-1"/>`, Config{GroupBy: "none"}, "", ""},
		"the name":                      {"", Config{NamePattern: pattern}, "shop", "web"},
		"a pattern without assembly":    {"", Config{NamePattern: `^(?P<deployment>\w+)-`}, "shop", ""},
		"another name":                  {"", Config{NamePattern: `^(?P<deployment>blog)-`}, "host:kvm-1", ""},
		"neither":                       {"", Config{}, "host:kvm-1", ""},
		"neither, and none is observed": {"", Config{GroupBy: "none"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			f.put(aDomain(1, 0, c.metadata))
			var shown []windsock.Sighting
			err := f.provider(c.config).Observe(t.Context(), func(page []windsock.Sighting) error {
				shown = append(shown, page...)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			s := shown[len(shown)-1]
			if s.Deployment != c.deployment || s.Assembly != c.assembly || s.Name != "shop-web-1" || s.Metadata["host"] != "kvm-1" {
				t.Errorf("%q is shown as %+v", c.metadata, s)
			}
			if d := shown[2]; c.deployment != "" && (len(shown) != 4 || !slices.Equal(d.RunsOn, []string{shown[0].ID}) || d.ID != c.deployment || d.Pool != "kvm-1" || d.State != "") {
				t.Errorf("its deployment is shown as %+v", d)
			}
		})
	}
}

func TestWhatLibvirtTellsIsHeard(t *testing.T) {
	f := newFake(t)
	hints := make(chan windsock.Subject)
	lost := make(chan error, 1)
	go func() {
		lost <- f.provider(Config{}).Watch(t.Context(), func() { hints <- windsock.Subject{} }, func(s windsock.Subject) { hints <- s })
	}()
	<-hints // it listens
	id, _ := parseUUID(uuid)
	f.with(func() { f.events[0](id) })
	if got := <-hints; got != (windsock.Subject{Kind: windsock.KindInstance, ID: uuid}) {
		t.Errorf("%v was hinted at", got)
	}
	f.with(f.hangUp[0])
	if err := <-lost; err == nil {
		t.Error("that the connection was lost is no error")
	}
}

// TestWhatIsNoLibvirtEndsTheLook has somebody else answer: the library would take as much
// memory as they say, or panic.
func TestWhatIsNoLibvirtEndsTheLook(t *testing.T) {
	for name, says := range map[string]string{
		"a web server":     "HTTP/1.1 400 Bad Request\r\n\r\n",
		"a short message":  "\x00\x00\x00\x08\x20\x00\x80\x86",
		"a length of zero": strings.Repeat("\x00", 64),
		"nothing":          "",
	} {
		t.Run(name, func(t *testing.T) {
			at := filepath.Join(t.TempDir(), "sock")
			l, err := net.Listen("unix", at)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					io.ReadFull(c, make([]byte, minFrame))
					io.WriteString(c, says)
					c.Close()
				}
			}()
			p, err := New(Config{URI: "qemu:///system?socket=" + at}, slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Observe(t.Context(), func([]windsock.Sighting) error { return nil }); err == nil {
				t.Error("it was listed")
			}
		})
	}
}

func TestAHostIsReachedByTLS(t *testing.T) {
	f := newFake(t)
	f.put(aDomain(1, 0, ""))
	web := httptest.NewUnstartedServer(nil) // for its certificate
	web.StartTLS()
	pair, ca := web.TLS.Certificates[0], web.Certificate()
	web.Close()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for name, block := range map[string]pem.Block{
		"cacert.pem": {Type: "CERTIFICATE", Bytes: ca.Raw}, "clientcert.pem": {Type: "CERTIFICATE", Bytes: ca.Raw}, "clientkey.pem": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(&block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	verdict := make(chan byte, 2)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				c.Write([]byte{<-verdict})
				libvirtd, err := net.Dial("unix", f.at)
				if err != nil {
					return
				}
				defer libvirtd.Close()
				go io.Copy(libvirtd, c)
				io.Copy(c, libvirtd)
			}()
		}
	}()
	p := f.provider(Config{URI: fmt.Sprintf("qemu+tls://%s/system?pkipath=%s", l.Addr(), folder)})
	verdict <- 1
	if s := check(t, p); s.State != windsock.Running {
		t.Errorf("it is %+v", s)
	}
	verdict <- 0
	if _, err := p.Check(t.Context(), windsock.Subject{Kind: windsock.KindInstance, ID: uuid}); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("whose certificate is refused sees %v", err)
	}
}

func TestWhatIsWrongWithTheConfigurationIsSaid(t *testing.T) {
	for text, c := range map[string]Config{
		"group_by":            {GroupBy: "name"},
		"uri: a host":         {URI: "qemu+ssh://kvm-1/system"},
		"uri: want a host":    {URI: "qemu+tls:///system"},
		"uri: want one like":  {URI: "kvm-1"},
		"name_pattern: error": {NamePattern: "("},
		"name_pattern: want":  {NamePattern: "^web"},
	} {
		if _, err := New(c, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%+v: the error is %v, it does not say %q", c, err, text)
		}
	}
}
