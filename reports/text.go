package reports

import (
	"slices"
	"strings"
	"unicode"

	"windsock"
)

// A Text is made of what paths lead to: "{/labels/alertname}: {/annotations/summary}". Of
// {/a|/b} the first counts that is there.
type Text struct {
	text  string
	parts []part
}

// A part is text as it stands, or the paths to some.
type part struct {
	literal string
	paths   []Path
}

// UnmarshalText reads such a text.
func (t *Text) UnmarshalText(text []byte) error {
	rest := string(text)
	*t = Text{text: rest}
	for rest != "" {
		literal, after, open := strings.Cut(rest, "{")
		if literal != "" {
			t.parts = append(t.parts, part{literal: literal})
		}
		if !open {
			return nil
		}
		inner, after, closed := strings.Cut(after, "}")
		if !closed {
			return windsock.Invalid("", "want a } for each {; got %q", windsock.Clip(t.text))
		}
		var p part
		for one := range strings.SplitSeq(inner, "|") {
			var path Path
			if err := path.UnmarshalText([]byte(one)); err != nil {
				return err
			}
			p.paths = append(p.paths, path)
		}
		t.parts = append(t.parts, p)
		rest = after
	}
	return nil
}

// MarshalText writes it as it was read.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.text), nil }

// IsZero is for omitzero.
func (t Text) IsZero() bool { return t.text == "" }

// of returns the text for an item; "" when nothing is there of what paths lead to, if any
// do. When some is, what stood between it and the rest goes, too.
func (t *Text) of(it *item) string {
	var b strings.Builder
	found, missing := false, false
	for i := range t.parts {
		p := &t.parts[i]
		text := p.literal
		for j := 0; j < len(p.paths) && text == ""; j++ {
			text, _ = textOf(p.paths[j].in(it))
		}
		found = found || p.paths != nil && text != ""
		missing = missing || text == ""
		b.WriteString(text)
	}
	switch {
	case missing && !found:
		return ""
	case missing:
		return strings.Trim(b.String(), " :.,;")
	}
	return b.String()
}

// field names the first that a path leads to.
func (t *Text) field(it *item) string {
	i := slices.IndexFunc(t.parts, func(p part) bool { return p.paths != nil })
	if i < 0 {
		return it.at
	}
	return t.parts[i].paths[0].field(it)
}

// printable replaces what no database and terminal bears.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, s)
}
