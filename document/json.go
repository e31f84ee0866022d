package document

import (
	"bytes"
	"strconv"
	"unicode/utf16"
)

// joinSurrogates writes each character that JSON has in two escapes ("\ud83d\ude00") as
// it is: YAML has no such pairs.
func joinSurrogates(data []byte) []byte {
	var out []byte
	for {
		i := bytes.IndexByte(data, '\\')
		if i < 0 {
			return append(out, data...)
		}
		out, data = append(out, data[:i]...), data[i:]
		if r := utf16.DecodeRune(escape(data), escape(data[min(6, len(data)):])); r != '\uFFFD' {
			out, data = append(out, string(r)...), data[12:]
		} else {
			out, data = append(out, data[:2]...), data[2:]
		}
	}
}

// escape returns what data begins with if that is \uXXXX, or 0.
func escape(data []byte) rune {
	if len(data) < 6 || data[0] != '\\' || data[1] != 'u' {
		return 0
	}
	r, _ := strconv.ParseUint(string(data[2:6]), 16, 16)
	return rune(r)
}
