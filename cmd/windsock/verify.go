package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// VerifyCmd is "windsock verify".
type VerifyCmd struct {
	Body      *os.File `arg:"" optional:"" default:"-" help:"File with the body, exactly as it was received; default standard input." placeholder:"FILE"`
	Secret    string   `help:"Secret of the monitor, as whsec_…" placeholder:"SECRET" required:"" env:"WINDSOCK_SECRET"`
	ID        string   `name:"id" help:"The header webhook-id." placeholder:"ID" required:""`
	Timestamp string   `help:"The header webhook-timestamp." placeholder:"SECONDS" required:""`
	Signature string   `help:"The header webhook-signature." placeholder:"v1,…" required:""`
}

// tolerance is how old a callback may be for most receivers.
const tolerance = 5 * time.Minute

// Run says whether the signature is that of the body. When it was made is not held
// against it, but said.
func (c *VerifyCmd) Run(out stdio) error {
	signer, err := standardwebhooks.NewWebhook(c.Secret)
	if err != nil {
		return errors.New("--secret: want whsec_ and base64")
	}
	secs, err := strconv.ParseInt(c.Timestamp, 10, 64)
	if err != nil {
		return errors.New("--timestamp: want seconds since 1970")
	}
	defer c.Body.Close()
	body, err := io.ReadAll(c.Body)
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	h := http.Header{}
	h.Set(standardwebhooks.HeaderWebhookID, c.ID)
	h.Set(standardwebhooks.HeaderWebhookTimestamp, c.Timestamp)
	h.Set(standardwebhooks.HeaderWebhookSignature, c.Signature)
	if age := time.Since(time.Unix(secs, 0)).Abs(); age > tolerance {
		fmt.Fprintf(out.err, "the timestamp is off by %s; receivers refuse what is off by more than %s\n", age.Round(time.Second), tolerance)
	}
	if signer.VerifyIgnoringTimestamp(body, h) == nil {
		fmt.Fprintln(out.out, "it verifies")
		return nil
	}
	fmt.Fprintf(out.out, "signed string  %q\nmakes          %s\nbut given is   %s\n", signedString(h, body), signatureOf(signer, h, body), printable(c.Signature))
	return errors.New("the signature is not of this secret, id, timestamp and body")
}
