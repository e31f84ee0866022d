// Package spool keeps on disk what is to be sent until it was taken, for programs that end
// before that: what is about one subject in a file of its own, in order.
package spool

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A Spool is a folder. Several processes may use it at a time, each of which may be killed.
type Spool struct {
	Dir   string
	Bytes int64 // at most so many in all; what is older about a subject makes room for what is new
	Files int   // and of so many subjects
}

// An Entry is one request.
type Entry struct {
	Path string          `json:"path"`
	Body json.RawMessage `json:"body"`
}

// ErrFull is returned when there is no room, not even by dropping what is older of the same
// subject.
var ErrFull = errors.New("the spool is full")

const (
	suffix    = ".spool"
	temporary = ".new"
	pause     = 10 * time.Millisecond // from one look at a lock to the next
)

// Add keeps an entry behind the others about its subject or, if they are only worth
// something as long as there is no newer one, instead of them. When it returns nil, the
// entry outlasts a loss of power.
func (s *Spool) Add(ctx context.Context, subject string, e Entry, instead bool) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return err
	}
	unlock, err := s.lock(ctx, "lock")
	if err != nil {
		return err
	}
	defer unlock()
	sum := sha256.Sum256([]byte(subject))
	path := filepath.Join(s.Dir, hex.EncodeToString(sum[:16])+suffix)
	old, err := lines(path)
	if err != nil {
		return err
	}
	if instead {
		old = nil
	}
	others, files, err := s.size(path)
	if err != nil {
		return err
	}
	if files >= s.Files || others+int64(len(line)) > s.Bytes {
		return fmt.Errorf("%s: %w: %d bytes about %d subjects", s.Dir, ErrFull, others, files)
	}
	dropped := false
	for others+int64(len(old)+len(line)) > s.Bytes {
		old = rest(old)
		dropped = true
	}
	if instead || dropped || len(old) == 0 {
		return replace(path, append(old, line...))
	}
	return appendTo(path, int64(len(old)), line)
}

// size counts the others than that file.
func (s *Spool) size(but string) (total int64, files int, err error) {
	paths, err := s.paths()
	for _, path := range paths {
		info, err := os.Stat(path)
		if path == but || errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return 0, 0, err
		}
		total += info.Size()
		files++
	}
	return total, files, err
}

func (s *Spool) paths() ([]string, error) { return filepath.Glob(filepath.Join(s.Dir, "*"+suffix)) }

// Drain sends what is kept, until ctx ends or send returns an error: then the entry stays, and
// all that came after. It returns how many entries were sent.
func (s *Spool) Drain(ctx context.Context, send func(context.Context, Entry) error) (sent int, err error) {
	if _, err := os.Stat(s.Dir); errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	unlock, err := s.lock(ctx, "draining")
	if err != nil {
		return 0, err
	}
	defer unlock()
	paths, err := s.paths()
	if err != nil {
		return 0, err
	}
	for _, path := range paths {
		n, err := s.drain(ctx, path, send)
		if sent += n; err != nil {
			return sent, err
		}
	}
	return sent, nil
}

// drain sends what is in a file. What of it was sent is sent again if we are killed before
// that is written down.
func (s *Spool) drain(ctx context.Context, path string, send func(context.Context, Entry) error) (sent int, err error) {
	kept, err := lines(path)
	if err != nil {
		return 0, err
	}
	left := kept
	for len(left) > 0 && err == nil {
		after := rest(left)
		var e Entry
		if json.Unmarshal(left[:len(left)-len(after)], &e) == nil { // or it is damaged
			if err = send(ctx, e); err != nil {
				break
			}
			sent++
		}
		left = after
	}
	if len(left) == len(kept) && len(kept) > 0 {
		return sent, err
	}
	return sent, errors.Join(err, s.cut(path, kept[:len(kept)-len(left)]))
}

// cut takes what was sent away from the head of a file. Its own head may have made room
// meanwhile, or all of it given way to what is newer.
func (s *Spool) cut(path string, sent []byte) error {
	unlock, err := s.lock(context.Background(), "lock")
	if err != nil {
		return err
	}
	defer unlock()
	now, err := lines(path)
	if err != nil {
		return err
	}
	for !bytes.HasPrefix(now, sent) {
		sent = rest(sent)
	}
	if now = now[len(sent):]; len(now) == 0 {
		err := os.Remove(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return replace(path, now)
}

// lock holds a lock of the folder until it is given back; no longer than a process lives.
func (s *Spool) lock(ctx context.Context, name string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(s.Dir, name), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			f.Close()
			return nil, err
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// lines returns what a file holds, without half a line at its end that a process left which
// was killed. A file that is not there holds nothing.
func lines(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return data[:bytes.LastIndexByte(data, '\n')+1], err
}

// rest is what follows the first line.
func rest(data []byte) []byte { return data[bytes.IndexByte(data, '\n')+1:] }

// appendTo writes a line behind the first so many bytes of a file.
func appendTo(path string, at int64, line []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = f.Truncate(at)
	if err == nil {
		_, err = f.WriteAt(line, at)
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// replace puts a file there whole, or not at all.
func replace(path string, data []byte) error {
	fresh := strings.TrimSuffix(path, suffix) + temporary
	f, err := os.OpenFile(fresh, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		os.Remove(fresh)
		return err
	}
	if err := os.Rename(fresh, path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
