package probe

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
)

// What is read of an answer, in bytes.
const (
	maxHeader = 64 << 10
	maxBody   = 64 << 10
)

// transport keeps no connection. A kept one would not show that the server has stopped
// accepting or that its certificate ran out, and a hundred thousand targets would hold
// as many open files. It goes through no proxy, which would be looked at instead.
var transport = &http.Transport{
	DialContext:            dialer.DialContext,
	DisableKeepAlives:      true,
	DisableCompression:     true,
	MaxResponseHeaderBytes: maxHeader,
}

// lookHTTP passes when the answer to a GET has the status, or with status 0 one of 200
// to 399, and its body, or the first 64 KiB of it, arrives. No redirect is followed.
//
// It opens the connection itself: a Transport asked to do it goes on dialling a silent
// host for minutes after the request was given up, and does not tell a time-out of the
// name server from one of the target.
func lookHTTP(ctx context.Context, target string, status int) Result {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return unknown("the target is not a URL")
	}
	req.Header.Set("User-Agent", "windsock-probe")
	conn, err := transport.NewClientConn(ctx, req.URL.Scheme, net.JoinHostPort(req.URL.Hostname(), req.URL.Port()))
	if err != nil {
		return judge(ctx, err)
	}
	defer conn.Close()
	resp, err := conn.RoundTrip(req)
	if err != nil {
		return judge(ctx, err)
	}
	defer resp.Body.Close()

	answer := fmt.Sprintf("answered %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	switch {
	case status != 0 && resp.StatusCode != status:
		return failed(fmt.Sprintf("%s instead of %d", answer, status))
	case status == 0 && (resp.StatusCode < 200 || resp.StatusCode > 399):
		return failed(answer)
	}
	if _, err := io.CopyN(io.Discard, resp.Body, maxBody); err != nil && err != io.EOF {
		return judge(ctx, err)
	}
	return running(answer)
}
