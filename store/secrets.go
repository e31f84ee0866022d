package store

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"windsock"
)

// madeSecret is how many random bytes a secret has that we make.
const madeSecret = 32

func newSecret() windsock.Secret {
	key := make([]byte, madeSecret)
	rand.Read(key) // never fails
	return windsock.Secret("whsec_" + base64.StdEncoding.EncodeToString(key))
}

// keyColumns are the part of a monitor's row that nobody is shown.
type keyColumns struct {
	Secret    string `db:"secret"`
	OldSecret string `db:"old_secret"`
	OldUntil  int64  `db:"old_until"`
	Bearer    string `db:"bearer"`
	Headers   string `db:"headers"`
	CA        string `db:"ca"`
	Cert      string `db:"client_cert"`
	Key       string `db:"client_key"`
}

// take fulfils what a monitor wishes of its keys, and returns the secret that was made
// for it, if one was. A secret that it gives takes the place of the one before at once:
// it is the monitor itself that says so.
func (c *keyColumns) take(k windsock.Keys, scheme string) (made windsock.Secret) {
	secret := windsock.Secret(c.Secret)
	switch {
	case k.Secret != nil:
		secret = *k.Secret
	case k.Sign == nil:
	case !*k.Sign:
		secret = ""
	case c.Secret == "":
		made = newSecret()
		secret = made
	}
	if string(secret) != c.Secret {
		c.Secret, c.OldSecret, c.OldUntil = string(secret), "", 0
	}
	overwrite(&c.Bearer, k.Bearer)
	overwrite(&c.CA, k.CA)
	overwrite(&c.Cert, k.ClientCert)
	overwrite(&c.Key, k.ClientKey)
	if scheme != "https" {
		c.CA, c.Cert, c.Key = "", "", ""
	}
	if k.Headers != nil {
		plain := make(map[string]string, len(k.Headers)) // or they would hide themselves
		for name, value := range k.Headers {
			plain[name] = string(value)
		}
		c.Headers = jsonText(plain)
	}
	return made
}

// overwrite sets what is wished for.
func overwrite[T ~string](column *string, wish *T) {
	if wish != nil {
		*column = string(*wish)
	}
}

// rotate has another secret sign, and the one before beside it for a while. The same once
// more changes nothing, so that a call whose answer was lost can be repeated.
func (c *keyColumns) rotate(to windsock.Secret, now time.Time) {
	switch c.Secret {
	case string(to):
		return
	case "":
	default:
		c.OldSecret, c.OldUntil = c.Secret, micros(now.Add(windsock.Overlap))
	}
	c.Secret = string(to)
}

// fill sets the keys of t, and what is shown of them.
func (c *keyColumns) fill(t *windsock.Target) {
	t.Secret, t.OldSecret, t.Bearer = windsock.Secret(c.Secret), windsock.Secret(c.OldSecret), windsock.Secret(c.Bearer)
	if err := json.Unmarshal([]byte(c.Headers), &t.Headers); err != nil {
		panic(fmt.Sprintf("store: headers of monitor %q are no JSON", t.ID)) // only ever written by us
	}
	t.Signed, t.OldUntil, t.Authorized = c.Secret != "", fromMicros(c.OldUntil), c.Bearer != ""
	t.TLS = windsock.TLS{CA: c.CA, ClientCert: c.Cert, ClientKey: windsock.Secret(c.Key)}
	t.OwnCA, t.Certified = c.CA != "", c.Cert != ""
	t.HeaderNames = slices.Sorted(maps.Keys(t.Headers))
}

// RotateSecret gives a monitor another secret: this one or, with nil, one that is made
// for it. The one before signs beside it for windsock.Overlap; the one before that does
// not any more.
func (s *Store) RotateSecret(ctx context.Context, id string, given *windsock.Secret) (r windsock.Rotation, err error) {
	err = s.do(ctx, func(t *tx) error {
		row, err := monitorByID(t, id)
		if err != nil {
			return err
		}
		if given != nil {
			row.rotate(*given, t.now)
		} else {
			r.Made = newSecret()
			row.rotate(r.Made, t.now)
		}
		t.log(&windsock.Event{Type: windsock.MonitorAdded, Kind: windsock.KindMonitor, SubjectID: row.ID})
		t.exec(`UPDATE monitors SET secret = ?, old_secret = ?, old_until = ?, updated_at = ? WHERE id = ?`,
			row.Secret, row.OldSecret, row.OldUntil, t.micros, row.ID)
		r.OldUntil = fromMicros(row.OldUntil)
		return t.err
	})
	return r, err
}

// forget erases the secrets that sign no more.
func (s *Store) forget(ctx context.Context) error {
	now := micros(s.now())
	var due bool
	if err := s.read.GetContext(ctx, &due, `SELECT EXISTS (SELECT 1 FROM monitors WHERE old_until > 0 AND old_until <= ?)`, now); err != nil {
		return unavailable(err)
	}
	if !due {
		return nil
	}
	return s.do(ctx, func(t *tx) error {
		t.exec(`UPDATE monitors SET old_secret = '', old_until = 0 WHERE old_until > 0 AND old_until <= ?`, now)
		return t.err
	})
}
