package windsock

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"net/textproto"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Overlap is for how long the secret before signs beside the one that took its place.
const Overlap = 24 * time.Hour

// Keys are what a monitor gives and asks for when it is added, to know who calls it back.
// What is nil stays as it is. None of them is ever shown.
type Keys struct {
	Sign    *bool             `json:"sign"`    // true: with a new secret, unless there is one; false: no more
	Secret  *Secret           `json:"secret"`  // this one
	Bearer  *Secret           `json:"bearer"`  // "": none
	Headers map[string]Secret `json:"headers"` // all of them

	// With https only. PEM; "": none. By default the roots of the system are trusted.
	CA         *string `json:"ca"` // these are trusted, and no others
	ClientCert *string `json:"client_cert"`
	ClientKey  *Secret `json:"client_key"`
}

const (
	maxHeaders    = 16
	maxHeaderName = 128
	maxPEM        = 64 << 10
)

// Complete brings the names of headers into their one form, and returns a FieldError
// when a wish cannot be fulfilled by callbacks of this scheme. No error tells of what was
// given.
func (k *Keys) Complete(scheme string) error {
	return firstError(k.checkSecret(), k.checkBearer(), k.completeHeaders(), k.checkTLS(scheme))
}

func (k *Keys) checkSecret() error {
	if k.Secret != nil {
		if err := CheckSecret("secret", *k.Secret); err != nil {
			return err
		}
		if k.Sign != nil && !*k.Sign {
			return Invalid("sign", "is false, but there is a secret to sign with")
		}
	}
	return nil
}

func (k *Keys) checkBearer() error {
	if given(k.Bearer) && (len(*k.Bearer) > maxValue || !bearerPattern.MatchString(string(*k.Bearer))) {
		return Invalid("bearer", "want a token: letters, digits and -._~+/, with = at its end only; at most %d bytes", maxValue)
	}
	return nil
}

func (k *Keys) completeHeaders() error {
	if len(k.Headers) > maxHeaders {
		return Invalid("headers", "at most %d, got %d", maxHeaders, len(k.Headers))
	}
	headers := make(map[string]Secret, len(k.Headers))
	for as, value := range k.Headers {
		name := textproto.CanonicalMIMEHeaderKey(as)
		if err := firstError(checkHeaderName(name), checkHeaderValue("headers."+name, string(value))); err != nil {
			return err
		}
		if _, twice := headers[name]; twice {
			return Invalid("headers."+name, "is given twice")
		}
		headers[name] = value
	}
	if k.Headers != nil {
		k.Headers = headers
	}
	return nil
}

func (k *Keys) checkTLS(scheme string) error {
	for _, f := range []struct {
		name  string
		given bool
	}{{"ca", given(k.CA)}, {"client_cert", given(k.ClientCert)}, {"client_key", given(k.ClientKey)}} {
		if f.given && scheme != "https" {
			return Invalid(f.name, "is for the scheme https")
		}
	}
	switch {
	case given(k.CA) && !isCertificates(*k.CA):
		return Invalid("ca", "want one or more certificates in PEM, and no keys; at most %d bytes", maxPEM)
	case k.ClientCert == nil && k.ClientKey != nil, given(k.ClientKey) && !given(k.ClientCert):
		return Invalid("client_cert", "is required with client_key")
	case k.ClientKey == nil && k.ClientCert != nil, given(k.ClientCert) && !given(k.ClientKey):
		return Invalid("client_key", "is required with client_cert")
	case !given(k.ClientCert):
		return nil
	case !isCertificates(*k.ClientCert):
		return Invalid("client_cert", "want a certificate and those that vouch for it in PEM, and no keys; at most %d bytes", maxPEM)
	}
	if _, err := tls.X509KeyPair([]byte(*k.ClientCert), []byte(*k.ClientKey)); err != nil || len(*k.ClientKey) > maxPEM {
		return Invalid("client_key", "want the private key of client_cert in PEM, not encrypted; at most %d bytes", maxPEM)
	}
	return nil
}

// given reports whether there is a wish that is not to have none.
func given[T ~string](wish *T) bool { return wish != nil && *wish != "" }

func isCertificates(text string) bool {
	if checkText("", text, 1, maxPEM) != nil {
		return false
	}
	n, rest := 0, []byte(text)
	for len(bytes.TrimSpace(rest)) > 0 {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil || block.Type != "CERTIFICATE" {
			return false
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return false
		}
		n++
	}
	return n > 0
}

// CheckSecret takes the secrets of Standard Webhooks: whsec_ and 24 to 64 bytes in base64.
func CheckSecret(field string, s Secret) error {
	text, ok := strings.CutPrefix(string(s), "whsec_")
	key, err := base64.StdEncoding.Strict().DecodeString(text)
	if !ok || err != nil || len(key) < 24 || len(key) > 64 || strings.ContainsAny(text, "\r\n") {
		return Invalid(field, "want whsec_ and the base64 of 24 to 64 bytes")
	}
	return nil
}

var (
	bearerPattern = regexp.MustCompile(`^[A-Za-z0-9._~+/-]+=*$`)            // RFC 6750, section 2.1
	tokenPattern  = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")     // RFC 9110, section 5.6.2
	ourHeaders    = [...]string{"Ce-", "Webhook-", "Windsock-", "Content-"} // and all that begin so
	// These are ours too, or tell how a message is transferred.
	reserved = [...]string{
		"Accept-Encoding", "Authorization", "Connection", "Expect", "Host", "Http2-Settings", "Idempotency-Key", "Keep-Alive",
		"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent", "X-Idempotency-Key",
	}
)

func checkHeaderName(name string) error {
	switch {
	case len(name) > maxHeaderName || !tokenPattern.MatchString(name):
		return Invalid("headers", "want names of letters, digits and !#$%%&'*+-.^_`|~, of at most %d bytes", maxHeaderName)
	case name == "Authorization":
		return Invalid("headers."+name, "is made of bearer")
	case slices.Contains(reserved[:], name), slices.ContainsFunc(ourHeaders[:], func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
		return Invalid("headers."+name, "is not for others to set")
	}
	return nil
}

func checkHeaderValue(field, value string) error {
	switch {
	case strings.ContainsAny(value, "\t\r\n"):
		return Invalid(field, "holds a control character")
	case strings.TrimSpace(value) != value:
		return Invalid(field, "begins or ends with a space")
	}
	return checkText(field, value, 1, maxValue)
}
