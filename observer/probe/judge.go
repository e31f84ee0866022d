package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"syscall"
)

// judge says of a look that ended in err whether the target failed it, or whether we
// could not look. The reason never quotes err, which holds ports and addresses that
// change from look to look, and URLs.
func judge(ctx context.Context, err error) Result {
	var (
		name    *net.DNSError
		address *net.AddrError
		errno   syscall.Errno
		roots   x509.SystemRootsError
		timeout net.Error
	)
	switch {
	case ctx.Err() != nil && context.Cause(ctx) != errTimedOut:
		return unknown("the look was called off")
	case errors.As(err, &name) && name.IsNotFound:
		return unknown("no such name")
	case errors.As(err, &name):
		return unknown("the name could not be looked up")
	case errors.As(err, &address):
		return unknown("the target is not an address")
	case errors.As(err, &roots):
		return unknown("there are no root certificates to check with")
	case errors.As(err, &errno):
		return judgeErrno(errno)
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return failed("timed out")
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return failed("connection closed early")
	}
	return failed(wrongAnswer(err))
}

// judgeErrno lists what the other end can be blamed for. Anything else, such as a full
// file table, no free port or no route to the network, is about this machine.
func judgeErrno(errno syscall.Errno) Result {
	switch errno {
	case syscall.ECONNREFUSED:
		return failed("connection refused")
	case syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE:
		return failed("connection reset")
	case syscall.EHOSTUNREACH, syscall.EHOSTDOWN:
		return failed("host unreachable")
	case syscall.ETIMEDOUT:
		return failed("timed out")
	}
	return unknown("could not look: " + errno.Error())
}

// wrongAnswer names what is wrong with an answer that did arrive.
func wrongAnswer(err error) string {
	var (
		authority x509.UnknownAuthorityError
		hostname  x509.HostnameError
		invalid   x509.CertificateInvalidError
		verify    *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     tls.AlertError
	)
	switch {
	case errors.As(err, &authority):
		return "certificate of an unknown authority"
	case errors.As(err, &hostname):
		return "certificate for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "certificate expired or not yet valid"
	case errors.As(err, &invalid), errors.As(err, &verify):
		return "certificate not valid"
	case errors.As(err, &record):
		return "does not speak TLS"
	case errors.As(err, &alert):
		return "TLS handshake refused"
	}
	return "not a proper answer"
}
