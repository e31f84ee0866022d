package windsock

import (
	"strings"
	"testing"
)

func TestParseEvent(t *testing.T) {
	for text, want := range map[string]struct {
		seq int64
		log string
	}{
		"1":                   {1, ""},
		"1042":                {1042, ""},
		"evt_5f1c_1042":       {1042, "5f1c"},
		EventID("5f1c", 17):   {17, "5f1c"},
		"9223372036854775807": {9223372036854775807, ""},
	} {
		if seq, log, err := ParseEvent(text); seq != want.seq || log != want.log || err != nil {
			t.Errorf("%q: %d of %q, %v; want %d of %q", text, seq, log, err, want.seq, want.log)
		}
	}
	for _, text := range []string{"", "0", "-1", "x", "evt", "evt_", "evt_a", "evt_a_", "evt_a_b_1", "evt_a_0", "evt__3", "9223372036854775808", "1.5", " 1", strings.Repeat("9", 5000)} {
		if _, _, err := ParseEvent(text); field(err) != "event" || len(err.Error()) > 300 {
			t.Errorf("%.50q: got %v, want a short error that names the event", text, err)
		}
	}
}
