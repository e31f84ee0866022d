package main

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"os"
	"strings"
	"sync/atomic"

	"windsock"
)

// minAdminToken is how long the token of an administrator is at least that somebody made
// up himself.
const minAdminToken = 32

// AdminToken is the token of an administrator that a file holds, as containers are handed
// their secrets. It is an api.Verifier.
type AdminToken struct {
	path   string
	digest atomic.Pointer[[sha256.Size]byte]
}

// ReadAdminToken reads the file for the first time. Without one there is no such token.
func ReadAdminToken(path string) (*AdminToken, error) {
	if path == "" {
		return nil, nil
	}
	a := &AdminToken{path: path}
	return a, a.Read()
}

// Read reads the file anew. What is no token leaves the one before valid.
func (a *AdminToken) Read() error {
	text, err := os.ReadFile(a.path)
	if err != nil {
		return err
	}
	token := strings.TrimSpace(string(text))
	if len(token) < minAdminToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%s: want one token of at least %d characters, without blanks: openssl rand -base64 32", a.path, minAdminToken)
	}
	digest := sha256.Sum256([]byte(token))
	a.digest.Store(&digest)
	return nil
}

// Principal knows the one token.
func (a *AdminToken) Principal(_ context.Context, bearer windsock.Secret) (windsock.Principal, error) {
	digest := sha256.Sum256([]byte(bearer))
	if subtle.ConstantTimeCompare(digest[:], a.digest.Load()[:]) != 1 {
		return windsock.Principal{}, windsock.ErrUnauthorized
	}
	return windsock.Principal{Name: "admin-token-file", Permission: windsock.MayAdmin, Scope: windsock.Global}, nil
}
