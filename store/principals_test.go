package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"windsock"
)

func addToken(t *testing.T, s *Store, spec windsock.TokenSpec) (windsock.Token, windsock.Secret) {
	t.Helper()
	token, secret, err := s.AddToken(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return token, secret
}

func TestTokens(t *testing.T) { each(t, testTokens) }

func testTokens(t *testing.T, s *Store, c *clock) {
	ctx := t.Context()
	if open := must[bool](t)(s.Tokenless(ctx)); !open {
		t.Error("there is a token at first")
	}
	ops, secret := addToken(t, s, windsock.TokenSpec{Name: "ops", Role: windsock.MayAdmin})
	if !strings.HasPrefix(string(secret), "wst_") || len(secret) != 4+43 {
		t.Errorf("the token is %q", string(secret))
	}
	if open := must[bool](t)(s.Tokenless(ctx)); open {
		t.Error("there is none after one was made")
	}
	if p, err := s.Principal(ctx, secret); err != nil || p != (windsock.Principal{Name: "ops", Permission: windsock.MayAdmin, Scope: windsock.Global}) {
		t.Errorf("got %v, %v", p, err)
	}
	for _, no := range []windsock.Secret{"", "wst_", secret + "x", secret[:len(secret)-1], secret[4:], windsock.Secret(strings.ToUpper(string(secret)))} {
		if p, err := s.Principal(ctx, no); !errors.Is(err, windsock.ErrUnauthorized) || no != "" && strings.Contains(err.Error(), string(no)) && len(no) > 4 {
			t.Errorf("%q is %v, %v", string(no), p, err)
		}
	}
	for name, spec := range map[string]windsock.TokenSpec{"the same name": {Name: "ops"}, "another's id": {Name: ops.ID}} {
		if _, _, err := s.AddToken(ctx, spec); !errors.Is(err, windsock.ErrConflict) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := s.AddToken(ctx, windsock.TokenSpec{Name: "m", Role: windsock.MayReport, MonitorID: "none"}); !errors.Is(err, windsock.ErrNotFound) {
		t.Errorf("of no monitor: %v", err)
	}
	var rows []string
	if err := (reader{ctx, s.read}).query(&rows, `SELECT id || name || role || scope || monitor_id FROM tokens`); err != nil || len(rows) != 1 || strings.Contains(rows[0], string(secret)) {
		t.Errorf("the database has %q, %v", rows, err)
	}

	brief, briefly := addToken(t, s, windsock.TokenSpec{Name: "a-brief", TTL: windsock.Duration(time.Hour)})
	if brief.Role != windsock.MayRead || brief.ExpiresAt.Sub(brief.CreatedAt) != time.Hour {
		t.Errorf("got %+v", brief)
	}
	if _, err := s.Principal(ctx, briefly); err != nil {
		t.Error(err)
	}
	c.advance(time.Hour)
	if _, err := s.Principal(ctx, briefly); !errors.Is(err, windsock.ErrUnauthorized) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("after its time: %v", err)
	}
	if list := must[[]windsock.Token](t)(s.Tokens(ctx)); len(list) != 2 || list[0] != brief || list[1] != ops {
		t.Errorf("listed are %v", list)
	}

	for _, id := range []string{"ops", brief.ID} { // by name, by id
		if err := s.RevokeToken(ctx, id); err != nil {
			t.Error(err)
		}
		if err := s.RevokeToken(ctx, id); !errors.Is(err, windsock.ErrNotFound) {
			t.Errorf("once more: %v", err)
		}
	}
	if _, err := s.Principal(ctx, secret); !errors.Is(err, windsock.ErrUnauthorized) {
		t.Errorf("just revoked: %v", err)
	}
	if open := must[bool](t)(s.Tokenless(ctx)); !open {
		t.Error("there is a token after the last was revoked")
	}
}

// A process that did not revoke a token itself hears of it within believedFor, and of one
// that was made as soon as it is used.
func TestTokensOfOtherProcesses(t *testing.T) {
	eachDB(t, func(t *testing.T, fresh maker) {
		c, db := &clock{now: noon}, fresh(t)
		a, b := open(t, db, c), open(t, db, c)
		defer a.Close()
		defer b.Close()
		if open := must[bool](t)(b.Tokenless(t.Context())); !open {
			t.Error("there is a token at first")
		}
		_, secret := addToken(t, a, windsock.TokenSpec{Name: "ops"})
		if _, err := b.Principal(t.Context(), secret); err != nil {
			t.Error(err)
		}
		if err := a.RevokeToken(t.Context(), "ops"); err != nil {
			t.Error(err)
		}
		if _, err := a.Principal(t.Context(), secret); !errors.Is(err, windsock.ErrUnauthorized) {
			t.Errorf("where it was revoked: %v", err)
		}
		_, other := addToken(t, a, windsock.TokenSpec{Name: "other"})
		c.advance(believedFor)
		if _, err := b.Principal(t.Context(), secret); !errors.Is(err, windsock.ErrUnauthorized) {
			t.Errorf("elsewhere, a second later: %v", err)
		}
		if open := must[bool](t)(b.Tokenless(t.Context())); open {
			t.Error("it takes more than a second to see that there are tokens")
		}
		if _, err := b.Principal(t.Context(), other); err != nil {
			t.Error(err)
		}
	})
}

// Whoever asks while a token is revoked does not have it believed any longer.
func TestRevokedWhileItIsUsed(t *testing.T) {
	onlySQLite(t, func(t *testing.T, s *Store, _ *clock) {
		for n := range 50 {
			name := fmt.Sprint("t", n)
			_, secret := addToken(t, s, windsock.TokenSpec{Name: name})
			ctx, stop := context.WithCancel(t.Context())
			var users sync.WaitGroup
			for range 4 {
				users.Go(func() {
					for ctx.Err() == nil {
						s.Principal(ctx, secret)
						s.tokens.forget()
					}
				})
			}
			if err := s.RevokeToken(t.Context(), name); err != nil {
				t.Error(err)
			}
			stop()
			users.Wait()
			if _, err := s.Principal(t.Context(), secret); !errors.Is(err, windsock.ErrUnauthorized) {
				t.Fatalf("token %d: %v", n, err)
			}
		}
	})
}

// That a token is used is noted with what is written anyway, to the minute.
func TestUseIsNoted(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		_, secret := addToken(t, s, windsock.TokenSpec{Name: "ops"})
		use := func() time.Time {
			t.Helper()
			noted := func() time.Time { return must[[]windsock.Token](t)(s.Tokens(t.Context()))[0].LastUsedAt }
			before := noted()
			must[windsock.Principal](t)(s.Principal(t.Context(), secret))
			if noted() != before {
				t.Error("the use itself is a write")
			}
			if err := s.present(t.Context()); err != nil {
				t.Fatal(err)
			}
			return noted()
		}
		first := use()
		if first.IsZero() {
			t.Error("the use is not noted")
		}
		c.advance(usedEvery / 2)
		if again := use(); again != first {
			t.Errorf("noted again half a minute later: %v after %v", again, first)
		}
		c.advance(usedEvery / 2)
		if later := use(); later.Sub(first) < usedEvery {
			t.Errorf("a minute later it is %v after %v", later, first)
		}
	})
}

func putDeployment(t *testing.T, s *Store, spec windsock.DeploymentSpec) {
	t.Helper()
	if _, _, err := s.PutDeployment(t.Context(), spec, windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
}

func putInstance(t *testing.T, s *Store, spec windsock.InstanceSpec) {
	t.Helper()
	if _, _, err := s.PutInstance(t.Context(), spec, windsock.Cond{}); err != nil {
		t.Fatal(err)
	}
}

func TestReportsWithinAScope(t *testing.T) { each(t, reportsWithinAScope) }

func reportsWithinAScope(t *testing.T, s *Store, _ *clock) {
	for _, d := range []windsock.DeploymentSpec{
		{ID: "shop", Provider: "east", Pool: "p1", ProviderID: "d-1"}, {ID: "blog", Provider: "west", Pool: "p2", ProviderID: "d-1"}, {ID: "a:b"}, {ID: "web-1", Provider: "west"},
	} {
		putDeployment(t, s, d)
	}
	for _, i := range []windsock.InstanceSpec{
		{ID: "web-1", DeploymentID: "shop", ProviderID: "i-1"}, {ID: "web-2", DeploymentID: "shop"}, {ID: "app-1", DeploymentID: "blog", ProviderID: "ünï/cödé"}, {ID: "x:y", DeploymentID: "a:b"},
	} {
		putInstance(t, s, i)
	}
	const ok, no, missing = "ok", "forbidden", "missing"
	instance := func(id string) windsock.Subject { return windsock.Subject{Kind: windsock.KindInstance, ID: id} }
	deployment := func(id string) windsock.Subject { return windsock.Subject{Kind: windsock.KindDeployment, ID: id} }
	for _, tc := range []struct {
		scope windsock.Scope
		of    windsock.Subject
		want  string
	}{
		{windsock.Global, instance("app-1"), ok},
		{windsock.Global, instance("none"), missing},
		{windsock.Global, deployment("d-1"), "conflict"},
		{"deployment:shop", deployment("shop"), ok},
		{"deployment:shop", instance("web-1"), ok},
		{"deployment:shop", instance("i-1"), ok},
		{"deployment:shop", instance("app-1"), no},
		{"deployment:shop", instance("ünï/cödé"), no},
		{"deployment:shop", deployment("blog"), no},
		{"deployment:shop", deployment("web-1"), no},
		{"deployment:shop", deployment("d-1"), no}, // not that there are several
		{"deployment:shop", instance("none"), no},
		{"deployment:shop", deployment("none"), no},
		{"deployment:none", deployment("none"), missing},
		{"deployment:none", instance("none"), no},
		{"deployment:web-1", instance("web-1"), no},
		{"deployment:a", deployment("a:b"), no},
		{"deployment:a:b", instance("x:y"), ok},
		{"instance:web-1", instance("web-1"), ok},
		{"instance:web-1", instance("i-1"), ok},
		{"instance:web-1", instance("web-2"), no},
		{"instance:web-1", deployment("shop"), no},
		{"instance:web-1", deployment("web-1"), no},
		{"instance:i-1", instance("i-1"), no}, // a scope has ids of ours
		{"instance:none", instance("none"), missing},
		{"instance:app-1", instance("ünï/cödé"), ok},
		{"provider:east", instance("web-2"), ok},
		{"provider:east", instance("app-1"), no},
		{"provider:west", deployment("web-1"), ok},
		{"pool:p1", deployment("shop"), ok},
		{"pool:p1", deployment("blog"), no},
	} {
		ctx := windsock.WithPrincipal(t.Context(), windsock.Principal{Name: "nagios", Permission: windsock.MayReport, Scope: tc.scope})
		out := must[[]windsock.Outcome](t)(s.Record(ctx, []windsock.Observation{
			{Subject: tc.of, Source: "nagios", Origin: windsock.FromMonitor, State: windsock.Failed},
			{Subject: tc.of, Source: "nagios", Origin: windsock.FromMonitor, State: windsock.Running},
		}))[0]
		got := ok
		switch {
		case errors.Is(out.Err, windsock.ErrForbidden):
			got = no
			if !strings.Contains(out.Err.Error(), string(tc.scope)) {
				t.Errorf("the scope is not named: %v", out.Err)
			}
		case errors.Is(out.Err, windsock.ErrNotFound):
			got = missing
		case errors.Is(out.Err, windsock.ErrConflict):
			got = "conflict"
		case out.Err != nil:
			got = out.Err.Error()
		}
		if got != tc.want {
			t.Errorf("within %s about %s %q: %s, want %s", tc.scope, tc.of.Kind, tc.of.ID, got, tc.want)
		}
	}
}

// An event says who posted the detection that it follows from, and no other does.
func TestEventsSayWhoPosted(t *testing.T) {
	each(t, func(t *testing.T, s *Store, c *clock) {
		putDeployment(t, s, windsock.DeploymentSpec{ID: "shop"})
		putInstance(t, s, windsock.InstanceSpec{ID: "web-1", DeploymentID: "shop"})
		said := func(ctx context.Context, source string, state windsock.State) {
			t.Helper()
			if out := must[[]windsock.Outcome](t)(s.Record(ctx, []windsock.Observation{instanceSaid("web-1", source, state)})); !out[0].Changed {
				t.Fatalf("got %+v", out)
			}
		}
		said(windsock.WithPrincipal(t.Context(), windsock.Principal{Name: "night-shift", Permission: windsock.MayReport}), "nagios", windsock.Running)
		said(t.Context(), "probe:http", windsock.Failed)
		got := ""
		for _, e := range must[[]windsock.Event](t)(s.Events(t.Context(), 0, 100, windsock.EventFilter{Type: windsock.InstanceState})) {
			got += fmt.Sprintf("%s %s by %q\n", e.Source, e.State, e.By)
		}
		if want := "nagios running by \"night-shift\"\nprobe:http failed by \"\"\n"; got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}
