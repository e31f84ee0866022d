package probe

import (
	"context"
	"net"
	"os"
	"syscall"
	"testing"

	"windsock"
)

func connect(t *testing.T, target string, timeout windsock.Duration) Result {
	return Look(t.Context(), windsock.Probe{Type: windsock.ProbeTCP, Target: target, Timeout: timeout})
}

func TestTCP(t *testing.T) {
	for name, tt := range map[string]struct {
		target string
		want   Result
	}{
		"somebody listens":         {accept(t, func(c net.Conn) { c.Close() }), running("connected")},
		"nobody listens":           {nobody(t), failed("connection refused")},
		"no such name":             {"gone.test.:80", unknown("no such name")},
		"digits that C would read": {"0x7f.gone.:80", unknown("no such name")},
	} {
		t.Run(name, func(t *testing.T) { wantResult(t, connect(t, tt.target, ample), tt.want) })
	}
}

func TestTCPSilent(t *testing.T) {
	target := fullBacklog(t)
	wantResult(t, connect(t, target, soon), failed("timed out"))
	wantResult(t, get(t, "http://"+target, 0, soon), failed("timed out"))
}

// fullBacklog is the address of a listener that accepts nobody and whose queue is full,
// so that the kernel drops whoever comes next: a silent host on loopback.
func fullBacklog(t *testing.T) string {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	socket := os.NewFile(uintptr(fd), "listener")
	t.Cleanup(func() { socket.Close() })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: bound.(*syscall.SockaddrInet4).Port}).String()
	first, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { first.Close() })
	return address
}

func TestTCPCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := windsock.Probe{Type: windsock.ProbeTCP, Target: nobody(t), Timeout: ample}
	wantResult(t, Look(ctx, p), unknown("the look was called off"))
}

func TestUnknownType(t *testing.T) {
	wantResult(t, Look(t.Context(), windsock.Probe{Type: "icmp", Timeout: ample}), unknown("there is no such type of probe"))
}
