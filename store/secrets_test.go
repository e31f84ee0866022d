package store

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"windsock"
)

const secretA, secretB = "whsec_QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFB", "whsec_QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJC"

var pager = windsock.MonitorSpec{Address: "10.0.0.1", Port: 80}

func ptr[T any](v T) *T { return &v }

// added registers pager, perhaps again.
func added(t *testing.T, s *Store, k windsock.Keys) windsock.Registration {
	t.Helper()
	return must[windsock.Registration](t)(s.AddMonitor(t.Context(), pager, k))
}

func target(t *testing.T, s *Store, id string) windsock.Target {
	t.Helper()
	return must[windsock.Target](t)(s.Target(t.Context(), id))
}

// keys are what signs and is sent, in the open.
func keys(m windsock.Target) map[string]string {
	k := map[string]string{"secret": string(m.Secret), "old": string(m.OldSecret), "bearer": string(m.Bearer), "ca": m.TLS.CA, "cert": m.TLS.ClientCert, "key": string(m.TLS.ClientKey)}
	for name, value := range m.Headers {
		k[name] = string(value)
	}
	for name, value := range k {
		if value == "" {
			delete(k, name)
		}
	}
	return k
}

func holds(t *testing.T, s *Store, id string, want map[string]string) {
	t.Helper()
	if d := cmp.Diff(want, keys(target(t, s, id))); d != "" {
		t.Errorf("keys (-want +got) %s", d)
	}
}

func TestToAddAgainKeepsTheKeysOfWhichNothingIsSaid(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		id := added(t, s, windsock.Keys{Secret: ptr(windsock.Secret(secretA)), Bearer: ptr(windsock.Secret("token")), Headers: map[string]windsock.Secret{"X-Team": "blue"}}).ID
		all := map[string]string{"secret": secretA, "bearer": "token", "X-Team": "blue"}
		holds(t, s, id, all)
		if again := added(t, s, windsock.Keys{}); again.Created || again.ID != id || again.Made != "" || !again.Signed || !again.Authorized || cmp.Diff(again.HeaderNames, []string{"X-Team"}) != "" {
			t.Errorf("added again: %+v", again)
		}
		holds(t, s, id, all)
		added(t, s, windsock.Keys{Bearer: ptr(windsock.Secret("")), Headers: map[string]windsock.Secret{"X-Tier": "gold"}})
		holds(t, s, id, map[string]string{"secret": secretA, "X-Tier": "gold"})
		added(t, s, windsock.Keys{Sign: ptr(false), Headers: map[string]windsock.Secret{}})
		holds(t, s, id, map[string]string{})
	})
}

func TestASecretIsMadeOnce(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		first := added(t, s, windsock.Keys{Sign: ptr(true)})
		text, _ := strings.CutPrefix(string(first.Made), "whsec_")
		if key, err := base64.StdEncoding.DecodeString(text); err != nil || len(key) != 32 || bytes.Equal(key, make([]byte, 32)) {
			t.Errorf("made %d bytes, %v", len(key), err)
		}
		holds(t, s, first.ID, map[string]string{"secret": string(first.Made)})
		if again := added(t, s, windsock.Keys{Sign: ptr(true)}); again.Made != "" {
			t.Error("it has one, and another was made")
		}
		holds(t, s, first.ID, map[string]string{"secret": string(first.Made)})
		added(t, s, windsock.Keys{Sign: ptr(false)})
		if other := added(t, s, windsock.Keys{Sign: ptr(true)}); other.Made == "" || other.Made == first.Made {
			t.Error("no new secret was made")
		}
	})
}

func TestTheSecretBeforeSignsForADay(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		id := added(t, s, windsock.Keys{Secret: ptr(windsock.Secret(secretA))}).ID
		head := s.Head()
		r := must[windsock.Rotation](t)(s.RotateSecret(t.Context(), id, ptr(windsock.Secret(secretB))))
		if d := r.OldUntil.Sub(c.Now()); r.Made != "" || d > 24*time.Hour || d < 24*time.Hour-time.Second {
			t.Errorf("made %t, the old one signs for %s", r.Made != "", d)
		}
		if s.Head() != head+1 {
			t.Error("nobody is told that the secret is another one")
		}
		both := map[string]string{"secret": secretB, "old": secretA}
		holds(t, s, id, both)
		must[windsock.Rotation](t)(s.RotateSecret(t.Context(), id, ptr(windsock.Secret(secretB)))) // as one does whose answer was lost
		added(t, s, windsock.Keys{Secret: ptr(windsock.Secret(secretB))})
		c.advance(24*time.Hour - time.Minute)
		if err := s.forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		holds(t, s, id, both)
		c.advance(time.Minute)
		if err := s.forget(t.Context()); err != nil {
			t.Fatal(err)
		}
		holds(t, s, id, map[string]string{"secret": secretB})
		if m := target(t, s, id); !m.OldUntil.IsZero() {
			t.Errorf("still until %s", m.OldUntil)
		}
	})
}

func TestOnlyTwoSecretsSign(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		id := added(t, s, windsock.Keys{}).ID
		first := must[windsock.Rotation](t)(s.RotateSecret(t.Context(), id, nil))
		if first.Made == "" || !first.OldUntil.IsZero() {
			t.Errorf("of one that had none: made %t, until %s", first.Made != "", first.OldUntil)
		}
		second := must[windsock.Rotation](t)(s.RotateSecret(t.Context(), id, nil))
		holds(t, s, id, map[string]string{"secret": string(second.Made), "old": string(first.Made)})
		third := must[windsock.Rotation](t)(s.RotateSecret(t.Context(), id, nil))
		holds(t, s, id, map[string]string{"secret": string(third.Made), "old": string(second.Made)})
		added(t, s, windsock.Keys{Sign: ptr(false)})
		holds(t, s, id, map[string]string{})
		if _, err := s.RotateSecret(t.Context(), "nobody", nil); err == nil {
			t.Error("nobody has a secret")
		}
	})
}

func TestCertificatesGoWithHTTPS(t *testing.T) {
	each(t, func(t *testing.T, s *Store, _ *clock) {
		spec := pager
		spec.Scheme = "https"
		m := must[windsock.Registration](t)(s.AddMonitor(t.Context(), spec, windsock.Keys{CA: ptr("CA"), ClientCert: ptr("CERT"), ClientKey: ptr(windsock.Secret("KEY"))}))
		if !m.OwnCA || !m.Certified {
			t.Errorf("shown: %+v", m.Monitor)
		}
		must[windsock.Registration](t)(s.AddMonitor(t.Context(), spec, windsock.Keys{}))
		holds(t, s, m.ID, map[string]string{"ca": "CA", "cert": "CERT", "key": "KEY"})
		added(t, s, windsock.Keys{}) // by http
		holds(t, s, m.ID, map[string]string{})
	})
}

// What is forgotten is not in the row any more, also if that was while windsock was away.
func TestASecretThatRanOutIsErased(t *testing.T) { eachDB(t, aSecretThatRanOutIsErased) }

func aSecretThatRanOutIsErased(t *testing.T, fresh maker) {
	path := fresh(t)
	c := &clock{now: noon}
	s := open(t, path, c)
	id := added(t, s, windsock.Keys{Secret: ptr(windsock.Secret(secretA))}).ID
	must[windsock.Rotation](t)(s.RotateSecret(t.Context(), id, nil))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c.advance(48 * time.Hour)
	s = open(t, path, c)
	defer s.Close()
	var alive time.Time
	if err := s.tick(t.Context(), &alive); err != nil {
		t.Fatal(err)
	}
	var old string
	if err := s.read.Get(&old, `SELECT old_secret FROM monitors`); err != nil || old != "" {
		t.Errorf("the row holds %d bytes, %v", len(old), err)
	}
}
