package store

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// keySize is how many bytes a key has of which tokens are derived.
const keySize = 32

// shareKey has the processes on a server have one key, which is with all else there: they
// may be on several machines.
func (t *tx) shareKey() {
	if t.s.pg == nil || t.s.Key != nil || t.s.Planner == nil {
		return
	}
	key := make([]byte, keySize)
	rand.Read(key) // never fails
	t.exec(`UPDATE log SET signal_key = ? WHERE signal_key = ''`, base64.StdEncoding.EncodeToString(key))
	var text string
	t.get(&text, `SELECT signal_key FROM log`)
	if t.err == nil {
		t.s.Key, t.err = base64.StdEncoding.DecodeString(text)
	}
}

// keyOf reads the key in the file path, which is made when it is not there. Of several
// processes that make it at once, the first one's is all of theirs.
func keyOf(path string) ([]byte, error) {
	key, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		key = make([]byte, keySize)
		rand.Read(key) // never fails
		if err := putKey(path, key); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		key, err = os.ReadFile(path)
	}
	if err == nil && len(key) != keySize {
		err = fmt.Errorf("key %s: want %d bytes, has %d", path, keySize, len(key))
	}
	return key, err
}

// putKey writes the file as a whole or not at all: a token of a key that is lost is
// nobody's. It returns fs.ErrExist when there is one.
func putKey(path string, key []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(key)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
