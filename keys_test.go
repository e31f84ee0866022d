package windsock

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestKeys(t *testing.T) {
	yes, no := true, false
	secret := func(s Secret) *Secret { return &s }
	text := func(s string) *string { return &s }
	header := func(name, value string) Keys { return Keys{Headers: map[string]Secret{name: Secret(value)}} }
	many := Keys{Headers: map[string]Secret{}}
	for i := range 17 {
		many.Headers[fmt.Sprint("X-", i)] = "x"
	}
	const good = "whsec_UExBTlRFRC1QTEFOVEVELVBMQU5URUQt"
	tests := map[string]struct {
		keys  Keys
		field string // at fault
	}{
		"none":                        {Keys{}, ""},
		"a secret to be made":         {Keys{Sign: &yes}, ""},
		"a secret":                    {Keys{Sign: &yes, Secret: secret(good)}, ""},
		"no secret any more":          {Keys{Sign: &no}, ""},
		"a secret not to sign with":   {Keys{Sign: &no, Secret: secret(good)}, "sign"},
		"a secret without its mark":   {Keys{Secret: secret(Secret(good[6:]))}, "secret"},
		"a secret of 23 bytes":        {Keys{Secret: secret("whsec_UExBTlRFRC1QTEFOVEVELVBMQU5URUQ=")}, "secret"},
		"a secret over two lines":     {Keys{Secret: secret(Secret(good[:20] + "\n" + good[20:]))}, "secret"},
		"an empty secret":             {Keys{Secret: secret("")}, "secret"},
		"a bearer":                    {Keys{Bearer: secret("PLANTED.a-b_c~d+e/f==")}, ""},
		"no bearer any more":          {Keys{Bearer: secret("")}, ""},
		"a bearer of two words":       {Keys{Bearer: secret("Bearer PLANTED")}, "bearer"},
		"a bearer with a line":        {Keys{Bearer: secret("PLANTED\r\nHost: a")}, "bearer"},
		"a bearer without end":        {Keys{Bearer: secret(Secret(strings.Repeat("PLANTED", 1000)))}, "bearer"},
		"a header":                    {header("x-team", "blue and PLANTED"), ""},
		"no headers any more":         {Keys{Headers: map[string]Secret{}}, ""},
		"a header that looks like ce": {header("Cell", "PLANTED"), ""},
		"a header without a value":    {header("X-Team", ""), "headers.X-Team"},
		"a header with a line":        {header("X-Team", "PLANTED\r\nHost: a"), "headers.X-Team"},
		"a header with a tab":         {header("X-Team", "PLANTED\ta"), "headers.X-Team"},
		"a header with NUL":           {header("X-Team", "PLANTED\x00"), "headers.X-Team"},
		"a header that is not UTF-8":  {header("X-Team", "PLANTED\xff"), "headers.X-Team"},
		"a header with a space first": {header("X-Team", " PLANTED"), "headers.X-Team"},
		"a header without end":        {header("X-Team", strings.Repeat("PLANTED", 1000)), "headers.X-Team"},
		"a name without end":          {header(strings.Repeat("x", 129), "PLANTED"), "headers"},
		"a name with a space":         {header("X Team", "PLANTED"), "headers"},
		"a name with a colon":         {header("X-Team:", "PLANTED"), "headers"},
		"no name":                     {header("", "PLANTED"), "headers"},
		"a name twice":                {Keys{Headers: map[string]Secret{"x-team": "PLANTED", "X-Team": "PLANTED"}}, "headers.X-Team"},
		"17 headers":                  {many, "headers"},
		"a CA that is none":           {Keys{CA: text("PLANTED")}, "ca"},
		"no CA any more":              {Keys{CA: text("")}, ""},
		"a certificate without a key": {Keys{ClientCert: text("PLANTED")}, "client_key"},
		"a key without a certificate": {Keys{ClientKey: secret("PLANTED")}, "client_cert"},
		"no certificate any more":     {Keys{ClientCert: text(""), ClientKey: secret("")}, ""},
		"a certificate without its":   {Keys{ClientCert: text("PLANTED"), ClientKey: secret("")}, "client_key"},
		"a certificate that is none":  {Keys{ClientCert: text("PLANTED"), ClientKey: secret("PLANTED")}, "client_cert"},
		"a CA with a key beside it":   {Keys{CA: text("-----BEGIN PRIVATE KEY-----\nUExBTlRFRA==\n-----END PRIVATE KEY-----\n")}, "ca"},
	}
	for _, name := range []string{
		"ce-id", "CE-x", "webhook-id", "Webhook-Signature", "windsock-attempt", "host", "content-type", "Content-Length", "connection", "transfer-encoding",
		"te", "trailer", "upgrade", "keep-alive", "proxy-authorization", "expect", "user-agent", "idempotency-key", "accept-encoding", "authorization",
	} {
		tests["the header "+name] = struct {
			keys  Keys
			field string
		}{header(name, "PLANTED"), "headers."}
	}
	for name, tc := range tests {
		err := tc.keys.Complete("https")
		var invalid *FieldError
		switch {
		case tc.field == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tc.field != "" && (!errors.As(err, &invalid) || !strings.HasPrefix(invalid.Field, tc.field)):
			t.Errorf("%s: got %v, want something wrong with %s", name, err, tc.field)
		case err != nil && (strings.Contains(err.Error(), "PLANTED") || strings.Contains(err.Error(), good[6:])):
			t.Errorf("%s: the error shows what was given: %v", name, err)
		}
	}
}

func TestNamesOfHeadersHaveOneForm(t *testing.T) {
	k := Keys{Headers: map[string]Secret{"x-TEAM": "blue"}}
	if err := k.Complete("http"); err != nil || k.Headers["X-Team"] != "blue" || len(k.Headers) != 1 {
		t.Errorf("got %v, %v", k.Headers, err)
	}
}

func TestCertificatesAreForHTTPS(t *testing.T) {
	text, secret := "x", Secret("x")
	for field, k := range map[string]Keys{"ca": {CA: &text}, "client_cert": {ClientCert: &text}, "client_key": {ClientKey: &secret}} {
		var invalid *FieldError
		if err := k.Complete("http"); !errors.As(err, &invalid) || invalid.Field != field {
			t.Errorf("%s with http: got %v", field, err)
		}
	}
}
