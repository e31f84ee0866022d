package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"windsock"
	"windsock/api"
)

// from asks h for the pools, by a connection from an address.
func from(h http.Handler, address string, headers ...string) *httptest.ResponseRecorder {
	return fromTo(h, address, "GET", "/api/deployments", headers...)
}

func fromTo(h http.Handler, address, method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.RemoteAddr = netip.AddrPortFrom(netip.MustParseAddr(address), 5000).String()
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// pass counts how many of n requests are not answered 429.
func pass(n int, ask func() *httptest.ResponseRecorder) (passed int) {
	for range n {
		if ask().Code != http.StatusTooManyRequests {
			passed++
		}
	}
	return passed
}

// nothing has no deployments.
type nothing struct{ quiet }

func (nothing) Deployments(context.Context, windsock.Filter) ([]windsock.Deployment, error) {
	return nil, nil
}

func limited(changes ...func(*api.Server)) http.Handler {
	return handler(nothing{}, append([]func(*api.Server){func(s *api.Server) { s.Rate = 2 }}, changes...)...)
}

func TestAddressesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := limited()
		ask := func(address string) func() *httptest.ResponseRecorder {
			return func() *httptest.ResponseRecorder { return from(h, address) }
		}
		if n := pass(15, ask("192.0.2.1")); n != 10 {
			t.Errorf("%d requests of 15 passed, want what five seconds' worth is", n)
		}
		refused := ask("192.0.2.1")()
		for name, want := range map[string]string{
			"Retry-After": "1", "RateLimit": `"address";r=0;t=5`, "RateLimit-Policy": `"address";q=10;w=5`, "Content-Type": "application/problem+json",
		} {
			if got := refused.Header().Get(name); got != want {
				t.Errorf("%s: %s, want %s", name, got, want)
			}
		}
		if got := refused.Body.String(); !strings.Contains(got, `"/problems/too-many-requests"`) || !strings.Contains(got, "from this address") {
			t.Errorf("the problem is %s", got)
		}
		if n := pass(1, ask("192.0.2.2")); n != 1 {
			t.Error("another address is limited with the first")
		}
		if got := from(h, "192.0.2.2").Header().Get("RateLimit"); got != `"address";r=8;t=1` {
			t.Errorf("one who has asked twice is told %s", got)
		}
		time.Sleep(3 * time.Second)
		if n := pass(10, ask("192.0.2.1")); n != 6 {
			t.Errorf("three seconds later %d pass, want 6", n)
		}
		if n := pass(10, ask("2001:db8::1")) + pass(10, ask("2001:db8::2:3:4:5")); n != 10 {
			t.Errorf("%d requests of one /64 passed, want 10", n)
		}
		if n := pass(10, ask("::ffff:192.0.2.3")) + pass(10, ask("192.0.2.3")); n != 10 {
			t.Errorf("%d requests of one IPv4 in two notations passed, want 10", n)
		}
		for _, own := range []string{"127.0.0.1", "127.8.0.1", "::1", "::ffff:127.0.0.1"} {
			if n := pass(30, ask(own)); n != 30 || from(h, own).Header().Get("RateLimit") != "" {
				t.Errorf("loopback (%s) is limited: %d of 30 passed", own, n)
			}
		}
	})
}

func TestNobodyIsLimitedUnlessTold(t *testing.T) {
	h := handler(nothing{})
	if n := pass(100, func() *httptest.ResponseRecorder { return from(h, "192.0.2.1") }); n != 100 {
		t.Errorf("%d of 100 passed", n)
	}
}

// Only a trusted proxy is believed, and only what it adds itself.
func TestForwardedAddresses(t *testing.T) {
	const client, other = "198.51.100.1", "198.51.100.2"
	trusted := func(s *api.Server) {
		s.Proxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("127.0.0.1/32")}
	}
	for name, c := range map[string]struct {
		peer    string
		headers []string
		as      string // whose limit is used up by it
	}{
		"a stranger's header is no news":      {client, []string{"X-Forwarded-For", other}, client},
		"a proxy's is":                        {"10.0.0.1", []string{"X-Forwarded-For", client}, client},
		"on loopback, too":                    {"127.0.0.1", []string{"X-Forwarded-For", client}, client},
		"what came before it is not":          {"10.0.0.1", []string{"X-Forwarded-For", other + ", " + client}, client},
		"in several lines":                    {"10.0.0.1", []string{"X-Forwarded-For", other, "X-Forwarded-For", client}, client},
		"proxies behind each other":           {"10.0.0.1", []string{"X-Forwarded-For", client + ", 10.0.0.2, 127.0.0.1"}, client},
		"a port is no address":                {"10.0.0.1", []string{"X-Forwarded-For", client + ":80"}, "10.0.0.1"},
		"Forwarded is not read":               {"10.0.0.1", []string{"Forwarded", "for=" + other, "X-Forwarded-For", client}, client},
		"a proxy that says nothing is itself": {"10.0.0.1", nil, "10.0.0.1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := limited(trusted)
			pass(20, func() *httptest.ResponseRecorder { return from(h, c.peer, c.headers...) })
			for _, address := range []string{client, other, "10.0.0.1"} {
				used := from(h, address).Code == http.StatusTooManyRequests
				if used != (address == c.as) {
					t.Errorf("%s: the limit of %s is used up: %t", name, address, used)
				}
			}
		})
	}
}

func TestCallersAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := limited(func(s *api.Server) { s.Verifiers = []api.Verifier{byRole()} })
		address := 0
		ask := func(token string) func() *httptest.ResponseRecorder {
			return func() *httptest.ResponseRecorder {
				address++ // another each time
				return from(h, fmt.Sprintf("192.0.2.%d", address), bearing(token)...)
			}
		}
		if n := pass(15, ask("read")); n != 10 {
			t.Errorf("%d of 15 passed, want 10", n)
		}
		refused := ask("read")()
		if got := refused.Header().Values("RateLimit"); len(got) != 2 || got[1] != `"token";r=0;t=5` {
			t.Errorf("RateLimit: %q", got)
		}
		if got := refused.Body.String(); !strings.Contains(got, "with this token") {
			t.Errorf("the problem is %s", got)
		}
		if n := pass(1, ask("report")); n != 1 {
			t.Error("another is limited with the first")
		}
		if n := pass(20, func() *httptest.ResponseRecorder { return from(h, "127.0.0.1", bearing("report")...) }); n != 20 {
			t.Errorf("on loopback %d of 20 passed", n)
		}
	})
}

// One who guesses is soon not heard any more, on whatever takes a token, but he keeps out
// nobody who was known before.
func TestGuessesAreLimited(t *testing.T) {
	for name, guess := range map[string]func(h http.Handler, n int) *httptest.ResponseRecorder{
		"of tokens": func(h http.Handler, n int) *httptest.ResponseRecorder {
			return from(h, "192.0.2.1", bearing(fmt.Sprint("guess-", n))...)
		},
		"of tokens of instances": func(h http.Handler, n int) *httptest.ResponseRecorder {
			return fromTo(h, "192.0.2.1", "GET", workOfWeb1, bearing(fmt.Sprint("guess-", n))...)
		},
		"of tokens of signals": func(h http.Handler, n int) *httptest.ResponseRecorder {
			return fromTo(h, "192.0.2.1", "POST", fmt.Sprint("/api/signal/guess-", n))
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			h := limited(func(s *api.Server) {
				s.Rate, s.Software, s.Verifiers = 1000, newSoftware(), []api.Verifier{byRole()}
			})
			known := func() *httptest.ResponseRecorder { return from(h, "192.0.2.1", bearing("read")...) }
			agent := func() *httptest.ResponseRecorder {
				return fromTo(h, "192.0.2.1", "GET", workOfWeb1, "Authorization", bearerOfIt)
			}
			if known().Code != 200 || agent().Code != 200 {
				t.Fatalf("%s: %d, %d for who is known", name, known().Code, agent().Code)
			}
			tries := 0
			next := func() *httptest.ResponseRecorder {
				tries++
				return guess(h, tries)
			}
			if n := pass(50, next); n != 20 {
				t.Errorf("%d guesses of 50 %s were looked at, want 20", n, name)
			}
			refused := next()
			if retry, body := refused.Header().Get("Retry-After"), refused.Body.String(); retry != "3" || !strings.Contains(body, "nobody's") || strings.Contains(body, "guess-") {
				t.Errorf("%s: it is told to come again after %s: %s", name, retry, body)
			}
			// To show a guess where no token is looked at does not make it known.
			shown := fmt.Sprint("guess-", tries+1)
			fromTo(h, "192.0.2.1", "GET", "/livez", bearing(shown)...)
			if code := next().Code; code != http.StatusTooManyRequests {
				t.Errorf("%s: %d after it was shown to livez", name, code)
			}
			if known().Code != 200 || agent().Code != 200 {
				t.Errorf("%s: who is known is kept out: %d, %d", name, known().Code, agent().Code)
			}
			if code := from(h, "192.0.2.1", bearing("admin")...).Code; code != http.StatusTooManyRequests {
				t.Errorf("%s: a token that might be a guess is looked at: %d", name, code)
			}
			if code := from(h, "192.0.2.2", bearing("admin")...).Code; code != 200 {
				t.Errorf("%s: another address has %d", name, code)
			}
			time.Sleep(7 * time.Second)
			if n := pass(10, next); n != 2 {
				t.Errorf("%s: %d guesses after seven seconds, want 2", name, n)
			}
		})
	}
}

// What a limit costs of a post; BenchmarkDetection is without.
func BenchmarkDetectionLimited(b *testing.B) {
	benchmark(b, web1, `{"version":"1","state":"FAIL DETECTED","source":"nagios","reason":"connection refused"}`, 1, func(s *api.Server) { s.Rate = 1e6 })
}
