package monitors

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"windsock"
)

func TestJudge(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		want   string
	}{
		"nothing to say":                  {204, "", ""},
		"success in the words of the API": {200, `{"result":"success"}`, ""},
		"text":                            {200, "fail", ""},
		"another field":                   {201, `{"status":"fail"}`, ""},
		"deeper":                          {200, `{"outcome":{"result":"fail"}}`, ""},
		"a list":                          {200, `[{"result":"fail"}]`, ""},
		"a result that is no text":        {200, `{"result":7}`, ""},
		"it says fail":                    {200, `{"result":"fail","reason":"no such thing"}`, `HTTP 200, but: {"result":"fail","reason":"no such thing"}`},
		"it says fail, at length":         {202, " {\n \"reason\": 1, \"result\": \"fail\"} ", "HTTP 202, but:  {\n \"reason\": 1, \"result\": \"fail\"} "},
		"moved":                           {301, "", "HTTP 301: redirects are not followed"},
		"not modified":                    {304, "", "HTTP 304: redirects are not followed"},
		"moved with the method":           {308, "", "HTTP 308: redirects are not followed"},
		"not found":                       {404, "no such page", "HTTP 404: no such page"},
		"gone":                            {410, "", "HTTP 410"},
		"an error that says success":      {500, `{"result":"success"}`, `HTTP 500: {"result":"success"}`},
		"no final answer":                 {101, "", "HTTP 101"},
	}
	for name, tc := range tests {
		if got := judge(tc.status, []byte(tc.body)); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestMeaning(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		want   meaning
	}{
		"it took it":              {200, "", taken},
		"it has no answer":        {204, "", taken},
		"it says fail":            {200, `{"result":"fail"}`, refused},
		"elsewhere":               {307, "", refused},
		"not this one":            {400, "", refused},
		"not there":               {404, "", refused},
		"not signed":              {401, "", refused},
		"broken by this one":      {500, "", refused},
		"too large":               {413, "", refused},
		"too many":                {429, "", away},
		"its proxy finds it not":  {502, "", away},
		"down for repair":         {503, `{"result":"success"}`, away},
		"its proxy waits in vain": {504, "", away},
		"nothing any more":        {410, "", gone},
	}
	for name, tc := range tests {
		if got := meaningOf(tc.status, judge(tc.status, []byte(tc.body))); got != tc.want {
			t.Errorf("%s: HTTP %d %q means %d, want %d", name, tc.status, tc.body, got, tc.want)
		}
	}
}

func TestCause(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }
	tests := map[string]struct {
		err  error
		want string
	}{
		"refused":         {dial(os.NewSyscallError("connect", syscall.ECONNREFUSED)), "connect: connection refused"},
		"unreachable":     {dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH)), "connect: no route to host"},
		"dial too slow":   {dial(os.ErrDeadlineExceeded), "connect: timeout"},
		"no such name":    {dial(&net.DNSError{Err: "no such host", Name: "x", IsNotFound: true}), "dns: no such host"},
		"dns too slow":    {dial(&net.DNSError{Err: "i/o timeout", Name: "x", IsTimeout: true}), "dns: timeout"},
		"dns broken":      {dial(&net.DNSError{Err: "server misbehaving", Name: "x"}), "dns: no answer from the name server"},
		"answer too slow": {fmt.Errorf("reading: %w", context.DeadlineExceeded), "timeout"},
		"reset":           {&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}, "connection reset by peer"},
		"closed":          {io.EOF, "connection closed before the answer was complete"},
		"closed midway":   {fmt.Errorf("x: %w", io.ErrUnexpectedEOF), "connection closed before the answer was complete"},
		"certificate": {
			&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}},
			"tls: x509: certificate signed by unknown authority",
		},
		"tls alert": {&net.OpError{Op: "remote error", Err: tls.AlertError(40)}, "tls: handshake failure"},
		"in a URL": {
			&url.Error{Op: "Post", URL: "http://u:p@a/?token=x", Err: dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))},
			"connect: connection refused",
		},
		"else": {errors.New("malformed HTTP response"), "malformed HTTP response"},
	}
	for name, tc := range tests {
		if got := cause(tc.err); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

func TestClean(t *testing.T) {
	target := &windsock.Target{Secret: "whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ="}
	target.Path = "/in/T0KEN-IN-PATH"
	tests := map[string]struct{ text, want string }{
		"nothing":                {"", ""},
		"plain":                  {"HTTP 500: out of order? maybe = yes", "HTTP 500: out of order? maybe = yes"},
		"lines and controls":     {"a\r\nb\tc\x1b[31m\x00d", "a  b c[31md"},
		"not UTF-8":              {"a\xff\xfeb", "ab"},
		"direction marks":        {"a\u202eb", "ab"},
		"a URL":                  {"see http://user:pw@host/x?token=abc&b=c now", "see http://…host/x?… now"},
		"a query alone":          {`"/x?key=abc"`, `"/x?…"`},
		"its secret":             {"key is whsec_c2VjcmV0LXNlY3JldC1zZWNyZXQ=!", "key is [hidden]!"},
		"its secret, bare":       {"key is c2VjcmV0LXNlY3JldC1zZWNyZXQ=!", "key is [hidden]!"},
		"its path":               {"POST /in/T0KEN-IN-PATH/api: no", "POST /in/[hidden]/api: no"},
		"a word as in the path":  {"in it", "in it"},
		"letters beyond English": {"Ärger – 故障", "Ärger – 故障"},
	}
	for name, tc := range tests {
		if got := clean(tc.text, target); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
	long := clean(strings.Repeat("ä", maxAnswer), target)
	if len(long) > maxKept || !utf8.ValidString(long) || !strings.HasSuffix(long, "…") {
		t.Errorf("a long text is kept as %d bytes, ending in %q", len(long), long[len(long)-8:])
	}
}
