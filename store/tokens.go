package store

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strings"

	"windsock"
)

// The prefixes of tokens, by which people and scanners know them.
const (
	signalPrefix   = "wss_"
	instancePrefix = "wsi_"
)

// A signal token says whose it is and is signed by our key, so that nothing has to be
// kept of it: the id of the component, the run and a part of their HMAC.
const (
	uidSize = 16
	runSize = 4
	macSize = 20
)

// signalToken is the token of the present run of c. That of a condition is the same in all
// runs, as whoever was told it may keep it, and may use it before the condition's turn.
func (s *Store) signalToken(c *component) string {
	run := c.Run
	if c.Kind == windsock.KindCondition {
		run = 0
	}
	said := binary.BigEndian.AppendUint32(append(make([]byte, 0, uidSize+runSize+macSize), c.UID...), uint32(run))
	return signalPrefix + base64.RawURLEncoding.EncodeToString(append(said, s.sign(said)...))
}

func (s *Store) sign(said []byte) []byte {
	mac := hmac.New(sha256.New, s.Key)
	mac.Write(said)
	return mac.Sum(nil)[:macSize]
}

// readSignalToken returns of what component and which run a token is, if it is one of ours.
func (s *Store) readSignalToken(token windsock.Secret) (uid []byte, run int, ok bool) {
	text, ok := strings.CutPrefix(string(token), signalPrefix)
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(data) != uidSize+runSize+macSize || s.Key == nil {
		return nil, 0, false
	}
	said := data[:uidSize+runSize]
	if !hmac.Equal(data[uidSize+runSize:], s.sign(said)) {
		return nil, 0, false
	}
	return said[:uidSize], int(binary.BigEndian.Uint32(said[uidSize:])), true
}

// link returns what makes the URL where a component is signalled.
func (s *Store) link(base string) func(*component) string {
	return func(c *component) string { return base + "/api/signal/" + s.signalToken(c) }
}

// IssueToken makes the token by which an instance is told what to run. Only its hash is
// kept; the one before is void.
func (s *Store) IssueToken(ctx context.Context, instanceID string) (windsock.Secret, error) {
	key := make([]byte, 32)
	rand.Read(key) // never fails
	token := instancePrefix + base64.RawURLEncoding.EncodeToString(key)
	err := s.do(ctx, func(t *tx) error {
		i, err := viewInstance(t, instanceID, ourID, theirID)
		if err != nil {
			return err
		}
		hash := sha256.Sum256([]byte(token))
		t.exec(`INSERT INTO instance_tokens (instance_id, hash) VALUES (?, ?) ON CONFLICT (instance_id) DO UPDATE SET hash = excluded.hash`, i.ID, hash[:])
		return t.err
	})
	if err != nil {
		return "", err
	}
	return windsock.Secret(token), nil
}

// authorize returns the id and the revision of the instance, named by our id or its
// provider's, whose token it is.
func authorize(r queryer, instanceID string, token windsock.Secret) (id string, revision int64, err error) {
	hash := sha256.Sum256([]byte(token))
	for _, column := range [...]string{`id`, `provider_id`} {
		var rows []struct {
			ID   string `db:"id"`
			Work int64  `db:"work"`
			Hash []byte `db:"hash"`
		}
		if err := r.query(&rows, `SELECT i.id, i.work, t.hash FROM instances i JOIN instance_tokens t ON t.instance_id = i.id
			WHERE i.`+column+` = ? AND i.`+column+` <> ''`, instanceID); err != nil {
			return "", 0, err
		}
		for _, row := range rows {
			if subtle.ConstantTimeCompare(row.Hash, hash[:]) == 1 {
				return row.ID, row.Work, nil
			}
		}
	}
	return "", 0, fmt.Errorf("instance %q: %w", windsock.Clip(instanceID), windsock.ErrUnauthorized)
}
