package monitors

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"windsock"
)

// authenticate completes the headers of a request to t with what says when it was made
// and, by the wishes of t, that it is we who made it. It returns what went wrong, or "".
func authenticate(h http.Header, t *windsock.Target, now time.Time, body []byte) (failure string) {
	identify(h, t)
	h["Webhook-Timestamp"] = []string{strconv.FormatInt(now.Unix(), 10)}
	if t.Secret == "" {
		return ""
	}
	signature, err := sign(h.Get("Webhook-Id"), now, body, signers(t, now)...)
	if err != nil {
		return "its secret is not whsec_ and base64" // err may tell of it
	}
	h["Webhook-Signature"] = []string{signature}
	return ""
}

// identify sets the headers that t knows us by, but for signatures.
func identify(h http.Header, t *windsock.Target) {
	for name, value := range t.Headers {
		h[name] = []string{string(value)}
	}
	if t.Bearer != "" {
		h["Authorization"] = []string{"Bearer " + string(t.Bearer)}
	}
	if t.Origin != "" {
		h[originHeader] = []string{t.Origin}
	}
}

// signers returns the secrets that sign now: the present one and, for a while, the one
// before.
func signers(t *windsock.Target, now time.Time) []windsock.Secret {
	if t.OldSecret != "" && now.Before(t.OldUntil) {
		return []windsock.Secret{t.Secret, t.OldSecret}
	}
	return []windsock.Secret{t.Secret}
}

// sign returns the signatures of Standard Webhooks, one for each secret with a space
// between them.
func sign(id string, now time.Time, body []byte, secrets ...windsock.Secret) (string, error) {
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		signer, err := standardwebhooks.NewWebhook(string(secret))
		if err != nil {
			return "", err
		}
		if signatures[i], err = signer.Sign(id, now, body); err != nil {
			return "", err
		}
	}
	return strings.Join(signatures, " "), nil
}

// signedString is what a signature is made of.
func signedString(h http.Header, body []byte) string {
	return h.Get("Webhook-Id") + "." + h.Get("Webhook-Timestamp") + "." + string(body)
}

// shortest is the length from which the value of a header is taken for a secret when it
// comes back in a text: to hide every 1 or on would leave nothing of the text.
const shortest = 4

// keysOf lists what of t must not be seen, also in what it sends back; the longest first,
// as one may be part of another.
func keysOf(t *windsock.Target) []string {
	var keys []string
	for _, secret := range [...]windsock.Secret{t.Secret, t.OldSecret} {
		if secret != "" {
			keys = append(keys, string(secret), strings.TrimPrefix(string(secret), "whsec_"))
		}
	}
	if t.Bearer != "" {
		keys = append(keys, string(t.Bearer))
	}
	for _, value := range t.Headers {
		if len(value) >= shortest {
			keys = append(keys, string(value))
		}
	}
	slices.SortFunc(keys, func(a, b string) int { return len(b) - len(a) })
	return keys
}
