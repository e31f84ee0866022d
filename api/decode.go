package api

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"windsock"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	maxBody  = 1 << 20 // bytes
	maxDepth = 32      // of objects and lists in each other
)

// The content types of bodies.
const (
	typeJSON  = "application/json"
	typePatch = "application/merge-patch+json"
	typeForm  = "application/x-www-form-urlencoded"
)

// readAll returns the body, of at most so many bytes.
func readAll(w http.ResponseWriter, r *http.Request, most int64) ([]byte, error) {
	if r.ContentLength > most { // before it is sent, to one who waits for that
		return nil, tooLarge(most)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		return nil, tooLarge(most)
	case err != nil:
		return nil, windsock.Invalid("body", "did not arrive whole")
	}
	return body, nil
}

func tooLarge(most int64) error {
	return &told{fmt.Errorf("%w than %d MiB", errTooLarge, most>>20), facts{Field: "body", Limit: most}}
}

// readBody returns the body and which of the types it is of.
func readBody(w http.ResponseWriter, r *http.Request, types ...string) ([]byte, string, error) {
	return readTyped(w, r, maxBody, types...)
}

func readTyped(w http.ResponseWriter, r *http.Request, most int64, types ...string) ([]byte, string, error) {
	body, err := readAll(w, r, most)
	if err != nil {
		return nil, "", err
	}
	given := r.Header.Get("Content-Type")
	if given == "" && len(body) == 0 {
		given = types[0]
	}
	kind := mediaType(given)
	if !slices.Contains(types, kind) {
		return nil, "", at("Content-Type", fmt.Errorf("%w; want %s", errMediaType, strings.Join(types, " or ")))
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, "", windsock.Invalid("body", "is empty")
	}
	return body, kind, nil
}

// mediaType returns the type that a Content-Type header names, or "" when there is none
// or its text is not UTF-8.
func mediaType(header string) string {
	if header == typeJSON { // mostly
		return typeJSON
	}
	kind, params, err := mime.ParseMediaType(header)
	if charset := params["charset"]; err != nil || (charset != "" && !strings.EqualFold(charset, "utf-8")) {
		return ""
	}
	return kind
}

// decode reads the body, JSON or one of the other types, into dst.
func decode(w http.ResponseWriter, r *http.Request, dst any, others ...string) error {
	body, kind, err := readBody(w, r, append([]string{typeJSON}, others...)...)
	if err != nil {
		return err
	}
	if kind == typeForm {
		return decodeForm(body, dst)
	}
	return decodeJSON(body, dst)
}

// strict refuses what is not known. Doubled names and bytes that are not UTF-8 are
// refused anyway. Null is as if the member were not there, also where it is merged into
// something: such a member is reset, or taken out of a map (RFC 7396).
var strict = json.JoinOptions(
	json.RejectUnknownMembers(true),
	json.WithUnmarshalers(json.JoinUnmarshalers(
		json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v interface{ UnmarshalJSON([]byte) error }) error {
			if dec.PeekKind() != 'n' {
				return errors.ErrUnsupported
			}
			reflect.ValueOf(v).Elem().SetZero()
			return dec.SkipValue()
		}),
		json.UnmarshalFromFunc(mergeMap[string]),
		json.UnmarshalFromFunc(mergeMap[any]),
	)),
)

// mergeMap merges a member by the names in it; what has one of them takes the place of
// what had it before as a whole.
func mergeMap[V any](dec *jsontext.Decoder, m *map[string]V) error {
	if dec.PeekKind() != '{' || dec.StackDepth() > 1 {
		return errors.ErrUnsupported
	}
	dec.ReadToken()
	if *m == nil {
		*m = map[string]V{}
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		if dec.PeekKind() == 'n' {
			delete(*m, key)
			if err := dec.SkipValue(); err != nil {
				return err
			}
			continue
		}
		var value V
		if err := json.UnmarshalDecode(dec, &value); err != nil {
			return err
		}
		(*m)[key] = value
	}
	_, err := dec.ReadToken()
	return err
}

// decodeJSON merges the members of a JSON object into dst.
func decodeJSON(data []byte, dst any) error {
	if tooDeep(data) {
		return windsock.Invalid("body", "has more than %d objects and lists in each other", maxDepth)
	}
	if string(bytes.TrimSpace(data)) == "null" {
		return windsock.Invalid("body", "want an object, got null")
	}
	err := json.Unmarshal(data, dst, strict)
	if err == nil {
		return nil
	}
	var syntax *jsontext.SyntacticError
	var semantic *json.SemanticError
	var invalid *windsock.FieldError
	switch {
	case errors.As(err, &syntax) && syntax.Err == jsontext.ErrDuplicateName:
		return windsock.Invalid(fieldName(syntax.JSONPointer), "is given twice")
	case errors.As(err, &syntax):
		return windsock.Invalid(fieldName(syntax.JSONPointer), "is not JSON, at byte %d: %v", syntax.ByteOffset, syntax.Err)
	case !errors.As(err, &semantic):
		return err
	case semantic.Err == json.ErrUnknownName:
		return windsock.Invalid(fieldName(semantic.JSONPointer), "is not known here")
	case errors.As(err, &invalid):
		return windsock.Invalid(fieldName(semantic.JSONPointer), "%s", invalid.Detail)
	case semantic.GoType == reflect.TypeFor[windsock.Secret]():
		return windsock.Invalid(fieldName(semantic.JSONPointer), "want a string") // not what was got
	case len(semantic.JSONValue) > 0:
		return windsock.Invalid(fieldName(semantic.JSONPointer), "want %s, got %s", wanted(semantic.GoType), windsock.Clip(string(semantic.JSONValue)))
	}
	return windsock.Invalid(fieldName(semantic.JSONPointer), "want %s, got %s", wanted(semantic.GoType), got(semantic.JSONKind))
}

// tooDeep bounds how often the decoder calls itself.
func tooDeep(data []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > maxDepth {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// fieldName writes a pointer as fields are named: probe.interval.
func fieldName(p jsontext.Pointer) string {
	if p == "" {
		return "body"
	}
	return windsock.Clip(strings.Join(slices.Collect(p.Tokens()), "."))
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	}
	return "an object"
}

func got(k jsontext.Kind) string {
	switch k {
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 't', 'f':
		return "a boolean"
	case '[':
		return "a list"
	case '{':
		return "an object"
	}
	return "null"
}

// decodeForm sets the fields of dst, a pointer to a struct, that a form names as JSON
// would.
func decodeForm(body []byte, dst any) error {
	if b := bytes.TrimSpace(body); b[0] == '{' || b[0] == '[' {
		return windsock.Invalid("Content-Type", "says form, but the body looks like JSON; send Content-Type: %s", typeJSON)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return windsock.Invalid("body", "is no form: %v", err)
	}
	fields := formFields(dst)
	for _, name := range slices.Sorted(maps.Keys(form)) {
		field, known := fields[name]
		text := form[name]
		switch {
		case !utf8.ValidString(name):
			return windsock.Invalid("body", "has a name that is not UTF-8")
		case !known:
			return windsock.Invalid(windsock.Clip(name), "is not known here")
		case len(text) > 1:
			return windsock.Invalid(name, "is given twice")
		case !utf8.ValidString(text[0]):
			return windsock.Invalid(name, "is not UTF-8")
		}
		if err := setText(field, text[0]); err != nil {
			return at(name, err)
		}
	}
	return nil
}

// formFields finds the fields of a struct by their names in JSON.
func formFields(dst any) map[string]reflect.Value {
	v := reflect.ValueOf(dst).Elem()
	fields := map[string]reflect.Value{}
	for _, f := range reflect.VisibleFields(v.Type()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			fields[name] = v.FieldByIndex(f.Index)
		}
	}
	return fields
}

func setText(v reflect.Value, text string) error {
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return windsock.Invalid("", "want a whole number, got %q", windsock.Clip(text))
		}
		v.SetInt(n)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return windsock.Invalid("", "want true or false, got %q", windsock.Clip(text))
		}
		v.SetBool(b)
	default:
		return windsock.Invalid("", "cannot be given in a form; send JSON")
	}
	return nil
}
