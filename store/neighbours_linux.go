package store

import (
	"errors"
	"io"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// neighbours tells which processes have the same database open, in the moment that one of
// them ends, however it ends: each holds a lock on one byte of a file, the one at its
// number. The first is for those who change the schema. These locks are of the open file,
// not of the process, so that one process may have a database open twice.
type neighbours struct{ file *os.File }

func meet(path string) (n neighbours, err error) {
	if n.file, err = os.OpenFile(path+"-replicas", os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return n, err
	}
	return n, n.ring() // while there may be room for a byte
}

// ring has the others hear that something was committed: it writes into the file.
func (n neighbours) ring() error {
	_, err := n.file.WriteAt([]byte{0}, 0)
	return err
}

// hear returns what can be read from whenever somebody rang; nil if that cannot be had.
func (n neighbours) hear() io.ReadCloser {
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil
	}
	rings := os.NewFile(uintptr(fd), "inotify")
	if _, err := unix.InotifyAddWatch(fd, n.file.Name(), unix.IN_MODIFY); err != nil {
		rings.Close()
		return nil
	}
	return rings
}

// begin waits until nobody else changes the schema.
func (n neighbours) begin() error { return n.lock(unix.F_OFD_SETLKW, unix.F_WRLCK, 0) }
func (n neighbours) end() error   { return n.lock(unix.F_OFD_SETLK, unix.F_UNLCK, 0) }

// join has this process be there, by the number id.
func (n neighbours) join(id int64) error { return n.lock(unix.F_OFD_SETLK, unix.F_WRLCK, id) }

// there reports whether the process with a number, which is not this one, is.
func (n neighbours) there(id int64) bool { return n.anybody(id, 1) }

// alone reports whether there is no other process.
func (n neighbours) alone() bool { return !n.anybody(1, math.MaxInt64-1) }

// anybody reports whether others hold a lock there. Who cannot tell believes so.
func (n neighbours) anybody(start, length int64) bool {
	l := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: start, Len: length}
	return unix.FcntlFlock(n.file.Fd(), unix.F_OFD_GETLK, &l) != nil || l.Type != unix.F_UNLCK
}

func (n neighbours) lock(how int, kind int16, at int64) error {
	for {
		l := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: at, Len: 1}
		err := unix.FcntlFlock(n.file.Fd(), how, &l)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (n neighbours) leave() error {
	if n.file == nil {
		return nil
	}
	return n.file.Close()
}
