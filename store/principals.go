package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"windsock"
)

// principalPrefix is that of the tokens of callers.
const principalPrefix = "wst_"

// maxTokens is how many tokens there are at most.
const maxTokens = 1000

// believedFor is how long a token is taken for what it was without a look at the database,
// and so how late the others hear that one process revoked it.
const believedFor = time.Second

// usedEvery is how often it is noted, at most, that a token is used.
const usedEvery = time.Minute

type tokenRow struct {
	ID         string `db:"id"`
	Name       string `db:"name"`
	Role       string `db:"role"`
	Scope      string `db:"scope"`
	MonitorID  string `db:"monitor_id"`
	CreatedAt  int64  `db:"created_at"`
	ExpiresAt  int64  `db:"expires_at"`
	LastUsedAt int64  `db:"last_used_at"`
}

const tokenViews = `SELECT id, name, role, scope, monitor_id, created_at, expires_at, last_used_at FROM tokens`

func (r *tokenRow) token() windsock.Token {
	return windsock.Token{
		ID: r.ID, Name: r.Name, Role: windsock.Permission(r.Role), Scope: windsock.Scope(r.Scope), MonitorID: r.MonitorID,
		CreatedAt: fromMicros(r.CreatedAt), ExpiresAt: fromMicros(r.ExpiresAt), LastUsedAt: fromMicros(r.LastUsedAt),
	}
}

// A digest is all that is kept of a token. As a token is 256 random bits, nobody can try
// them all, so one round of SHA-256 hides it as well as a slow hash would. And as nobody
// can choose what the digest of his guess begins with, an index may compare them: how long
// that takes tells nothing of a token.
type digest = [sha256.Size]byte

// tokens are those that were used lately.
type tokens struct {
	mu     sync.Mutex
	round  int // counts how often all were forgotten
	known  map[digest]*knownToken
	open   bool                 // there was none
	openAt time.Time            // at that time
	used   map[string]time.Time // by id: what is still to be noted
}

type knownToken struct {
	windsock.Token
	at time.Time // when it was looked up
}

// forget has all be looked up anew.
func (k *tokens) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.round++
	k.known, k.openAt = nil, time.Time{}
}

// AddToken makes a token and returns it this once.
func (s *Store) AddToken(ctx context.Context, spec windsock.TokenSpec) (token windsock.Token, secret windsock.Secret, err error) {
	if err := spec.Complete(); err != nil {
		return token, "", err
	}
	windsock.About(ctx, spec.Name)
	key := make([]byte, 32)
	rand.Read(key) // never fails
	secret = windsock.Secret(principalPrefix + base64.RawURLEncoding.EncodeToString(key))
	hash := sha256.Sum256([]byte(secret))
	err = s.do(ctx, func(t *tx) error {
		row := tokenRow{
			ID: uuid.NewString()[:8], Name: spec.Name, Role: string(spec.Role), Scope: string(spec.Scope), MonitorID: spec.MonitorID, CreatedAt: t.micros,
		}
		if spec.TTL > 0 {
			row.ExpiresAt = micros(t.now.Add(time.Duration(spec.TTL)))
		}
		if spec.MonitorID != "" {
			if _, err := monitorByID(t, spec.MonitorID); err != nil {
				return err
			}
		}
		var n, named int
		t.get(&n, `SELECT count(*) FROM tokens`)
		t.get(&named, `SELECT count(*) FROM tokens WHERE name = ? OR id = ? OR name = ?`, row.Name, row.Name, row.ID)
		switch {
		case t.err != nil:
			return t.err
		case named > 0:
			return fmt.Errorf("a token of the name %q is there: %w", spec.Name, windsock.ErrConflict)
		case n >= maxTokens:
			return fmt.Errorf("%d tokens are there: %w", n, windsock.ErrTooMany)
		}
		t.exec(`INSERT INTO tokens (id, name, hash, role, scope, monitor_id, created_at, expires_at, last_used_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0)`,
			row.ID, row.Name, hash[:], row.Role, row.Scope, row.MonitorID, row.CreatedAt, row.ExpiresAt)
		token = row.token()
		return t.err
	})
	if err != nil {
		return windsock.Token{}, "", err
	}
	s.tokens.forget()
	return token, secret, nil
}

// Tokens lists them by name.
func (s *Store) Tokens(ctx context.Context) ([]windsock.Token, error) {
	var rows []tokenRow
	if err := (reader{ctx, s.read}).query(&rows, tokenViews+` ORDER BY name`); err != nil {
		return nil, err
	}
	list := make([]windsock.Token, len(rows))
	for i := range rows {
		list[i] = rows[i].token()
	}
	return list, nil
}

// RevokeToken makes the token of that id or name void: here at once, and in other
// processes within believedFor.
func (s *Store) RevokeToken(ctx context.Context, id string) error {
	err := s.do(ctx, func(t *tx) error {
		var n int
		t.get(&n, `SELECT count(*) FROM tokens WHERE id = ? OR name = ?`, id, id)
		if t.err == nil && n == 0 {
			return fmt.Errorf("token %q: %w", id, windsock.ErrNotFound)
		}
		t.exec(`DELETE FROM tokens WHERE id = ? OR name = ?`, id, id)
		return t.err
	})
	if err == nil {
		s.tokens.forget()
	}
	return err
}

// Principal returns who calls with a token of ours.
func (s *Store) Principal(ctx context.Context, bearer windsock.Secret) (windsock.Principal, error) {
	if !strings.HasPrefix(string(bearer), principalPrefix) {
		return windsock.Principal{}, windsock.ErrUnauthorized
	}
	token, err := s.tokenOf(ctx, sha256.Sum256([]byte(bearer)))
	if err != nil {
		return windsock.Principal{}, err
	}
	if now := s.Now(); !token.ExpiresAt.IsZero() && !now.Before(token.ExpiresAt) {
		return windsock.Principal{}, fmt.Errorf("this token expired at %s: %w", token.ExpiresAt.Format(time.RFC3339), windsock.ErrUnauthorized)
	}
	return token.Principal(), nil
}

// tokenOf returns the token of that digest, from memory if it was looked up just now, and
// has it noted that it is used.
func (s *Store) tokenOf(ctx context.Context, d digest) (*knownToken, error) {
	k, now := &s.tokens, s.Now()
	k.mu.Lock()
	token, round := k.known[d], k.round
	if token != nil && now.Sub(token.at).Abs() < believedFor {
		k.mu.Unlock()
		return token, nil
	}
	k.mu.Unlock()
	var rows []tokenRow
	if err := (reader{ctx, s.read}).query(&rows, tokenViews+` WHERE hash = ?`, d[:]); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(rows) == 0 {
		delete(k.known, d)
		return nil, fmt.Errorf("this token was revoked, or never made: %w", windsock.ErrUnauthorized)
	}
	token = &knownToken{rows[0].token(), now}
	if now.Sub(token.LastUsedAt) >= usedEvery {
		put(&k.used, token.ID, now)
	}
	if k.round == round { // or it may be void since
		if len(k.known) > maxTokens { // with some that are no more
			k.known = nil
		}
		put(&k.known, d, token)
	}
	return token, nil
}

// Tokenless reports whether there is no token.
func (s *Store) Tokenless(ctx context.Context) (bool, error) {
	k, now := &s.tokens, s.Now()
	k.mu.Lock()
	open, at, round := k.open, k.openAt, k.round
	k.mu.Unlock()
	if now.Sub(at).Abs() < believedFor {
		return open, nil
	}
	var any bool
	if err := s.read.GetContext(ctx, &any, `SELECT EXISTS (SELECT 1 FROM tokens)`); err != nil {
		return false, unavailable(err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.round == round {
		k.open, k.openAt = !any, now
	}
	return !any, nil
}

// noteUses writes when tokens were last used.
func (t *tx) noteUses() {
	k := &t.s.tokens
	k.mu.Lock()
	used := k.used
	k.used = nil
	k.mu.Unlock()
	for id, at := range used {
		t.exec(`UPDATE tokens SET last_used_at = ? WHERE id = ? AND last_used_at <= ?`, micros(at), id, micros(at.Add(-usedEvery)))
	}
}
