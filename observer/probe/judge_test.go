package probe

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"syscall"
	"testing"
)

func TestJudge(t *testing.T) {
	dial := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
	}
	for name, tt := range map[string]struct {
		err  error
		want Result
	}{
		"nobody listens":        {dial(syscall.ECONNREFUSED), failed("connection refused")},
		"host is off":           {dial(syscall.EHOSTUNREACH), failed("host unreachable")},
		"kernel gave up":        {dial(syscall.ETIMEDOUT), failed("timed out")},
		"reset":                 {dial(syscall.ECONNRESET), failed("connection reset")},
		"reset while we wrote":  {dial(syscall.EPIPE), failed("connection reset")},
		"our file table":        {dial(syscall.EMFILE), unknown("could not look: too many open files")},
		"the system's table":    {dial(syscall.ENFILE), unknown("could not look: too many open files in system")},
		"no buffers":            {dial(syscall.ENOBUFS), unknown("could not look: no buffer space available")},
		"no memory":             {dial(syscall.ENOMEM), unknown("could not look: cannot allocate memory")},
		"no free port":          {dial(syscall.EADDRNOTAVAIL), unknown("could not look: cannot assign requested address")},
		"no route":              {dial(syscall.ENETUNREACH), unknown("could not look: network is unreachable")},
		"our network is down":   {dial(syscall.ENETDOWN), unknown("could not look: network is down")},
		"our firewall":          {dial(syscall.EPERM), unknown("could not look: operation not permitted")},
		"no IPv6 here":          {dial(syscall.EAFNOSUPPORT), unknown("could not look: address family not supported by protocol")},
		"inside a url.Error":    {&url.Error{Op: "Get", URL: "http://h/?token=S", Err: dial(syscall.EMFILE)}, unknown("could not look: too many open files")},
		"name server says no":   {&net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}, unknown("no such name")},
		"name server is silent": {&net.DNSError{Err: "i/o timeout", Name: "h", IsTimeout: true}, unknown("the name could not be looked up")},
		"lookup lacks a socket": {&net.DNSError{UnwrapErr: dial(syscall.EMFILE), Name: "h"}, unknown("the name could not be looked up")},
		"port is no port":       {&net.OpError{Op: "dial", Err: &net.AddrError{Err: "invalid port", Addr: "99999"}}, unknown("the target is not an address")},
		"no roots here":         {x509.SystemRootsError{Err: os.ErrPermission}, unknown("there are no root certificates to check with")},
		"deadline of the dial":  {&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, failed("timed out")},
		"nothing came":          {io.EOF, failed("connection closed early")},
		"half of it came":       {fmt.Errorf("read: %w", io.ErrUnexpectedEOF), failed("connection closed early")},
		"certificate ran out":   {x509.CertificateInvalidError{Reason: x509.Expired}, failed("certificate expired or not yet valid")},
		"certificate misused":   {x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}, failed("certificate not valid")},
		"certificate elsewhere": {x509.HostnameError{}, failed("certificate for another name")},
		"gibberish":             {errors.New("malformed HTTP response \"SSH-2.0\""), failed("not a proper answer")},
	} {
		t.Run(name, func(t *testing.T) { wantResult(t, judge(t.Context(), tt.err), tt.want) })
	}
}

// Whatever the error is, a look that was called off says nothing of the target.
func TestJudgeCalledOff(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range []error{context.Canceled, io.EOF, syscall.ECONNRESET, net.ErrClosed} {
		wantResult(t, judge(ctx, err), unknown("the look was called off"))
	}
}
