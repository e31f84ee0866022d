package monitors

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"windsock"
)

const (
	newSecret = "whsec_TkVXTkVXTkVXTkVXTkVXTkVXTkVXTkVX"
	oldSecret = "whsec_T0xET0xET0xET0xET0xET0xET0xET0xE"
)

// change changes a registered monitor before it is loaded.
func (l *memLog) change(id string, f func(*windsock.Target)) {
	l.set(func() {
		t := l.targets[id]
		f(&t)
		l.targets[id] = t
	})
}

// The vector of the Standard Webhooks libraries.
func TestPublishedSignature(t *testing.T) {
	got, err := sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`), "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	want(t, "error", err, nil)
	want(t, "signature", got, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=")
}

// verifies reports whether an implementation that is not ours takes the request for one
// that was signed with secret, and fails the test when a second one sees it otherwise.
func verifies(t *testing.T, secret string, h http.Header, body []byte) bool {
	t.Helper()
	hook, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	byLibrary := hook.Verify(body, h) == nil
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	io.WriteString(mac, h.Get("webhook-id")+"."+h.Get("webhook-timestamp")+"."+string(body))
	byHand := slices.Contains(strings.Split(h.Get("webhook-signature"), " "), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	if byLibrary != byHand {
		t.Errorf("by the library it verifies: %t, by hand: %t", byLibrary, byHand)
	}
	return byLibrary
}

func TestTheSecretBeforeSignsBesideTheNewOneUntilItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), newSecret)
		l.change("m", func(m *windsock.Target) { m.OldSecret, m.OldUntil = oldSecret, time.Now().Add(time.Hour) })
		var signatures []int
		var byNew, byOld []bool
		n.at("a", func(req *http.Request) (*http.Response, error) {
			body, _ := io.ReadAll(req.Body)
			signatures = append(signatures, len(strings.Split(req.Header.Get("Webhook-Signature"), " ")))
			byNew = append(byNew, verifies(t, newSecret, req.Header, body))
			byOld = append(byOld, verifies(t, oldSecret, req.Header, body))
			return respond(200, "")(req)
		})
		start(t, l, n)
		l.append(change("web", windsock.Failed))
		pass(time.Hour - time.Second)
		l.append(change("web", windsock.Running))
		pass(time.Second)
		l.append(change("web", windsock.Failed))
		synctest.Wait()
		want(t, "signatures", signatures, []int{2, 2, 1})
		want(t, "verified with the new secret", byNew, []bool{true, true, true})
		want(t, "verified with the one before", byOld, []bool{true, true, false})
	})
}

func TestHeadersAndBearerAreSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, n := newLog(), newNetwork()
		l.add("m", named("a"), "")
		l.add("plain", named("b"), "")
		l.change("m", func(m *windsock.Target) {
			m.Bearer, m.Headers = "t0ken", map[string]windsock.Secret{"X-Team": "blue", "X-Tier": "gold, silver"}
		})
		got := map[string]http.Header{}
		for _, host := range []string{"a", "b"} {
			n.at(host, func(req *http.Request) (*http.Response, error) {
				got[host] = req.Header
				return respond(200, "")(req)
			})
		}
		start(t, l, n)
		l.append(change("web", windsock.Failed))
		synctest.Wait()
		want(t, "token", got["a"]["Authorization"], []string{"Bearer t0ken"})
		want(t, "team", got["a"]["X-Team"], []string{"blue"})
		want(t, "tier", got["a"]["X-Tier"], []string{"gold, silver"})
		want(t, "signature", got["a"]["Webhook-Signature"], nil)
		for _, name := range []string{"Authorization", "X-Team", "X-Tier"} {
			want(t, name+" to the other", got["b"][name], nil)
		}
	})
}

func TestKeysDoNotShowWhenTheyAreSentBack(t *testing.T) {
	echo := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		w.WriteHeader(500)
		req.Header.Write(w)
		io.WriteString(w, oldSecret+" "+newSecret)
	})
	l := newLog()
	l.add("m", spec(echo.URL), newSecret)
	l.change("m", func(m *windsock.Target) {
		m.OldSecret, m.OldUntil = oldSecret, time.Now().Add(time.Hour)
		m.Bearer, m.Headers = "PLANTED-TOKEN", map[string]windsock.Secret{"X-Key": "PLANTED-TOKEN-LONGER", "X-On": "1"}
	})
	p := start(t, l, nil, ours)
	l.append(change("web", windsock.Failed))
	kept := failure(t, p, "m")
	pong, err := p.Ping(t.Context(), "m")
	want(t, "error", err, nil)
	p.stop()
	if !strings.Contains(kept, "X-Key: [hidden]  X-On: 1") {
		t.Errorf("kept as %q", kept)
	}
	metrics, err := p.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	places := map[string]string{"kept": kept, "tries": l.triesText("m"), "saved": l.progressOf("m").Lanes[0].LastError, "logged": p.logged.String(), "answer": pong.Answer, "error": pong.Error, "signed": pong.SignedString}
	for _, m := range metrics {
		places["metrics"] += m.String()
	}
	for place, text := range places {
		if text == "" {
			t.Errorf("nothing is %s", place)
		}
		for _, planted := range []string{"PLANTED", "LONGER", newSecret[6:], oldSecret[6:]} {
			if strings.Contains(text, planted) {
				t.Errorf("%s: %q shows %s", place, text, planted)
			}
		}
	}
}
