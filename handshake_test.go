package windsock

import (
	"strings"
	"testing"
	"time"
)

func TestReadGrant(t *testing.T) {
	const us = "windsock.example.com"
	for name, c := range map[string]struct {
		origins, rates []string
		rate           int
		refused        string
	}{
		"our name":                            {[]string{us}, []string{"120"}, 120, ""},
		"in other letters":                    {[]string{"WindSock.Example.COM"}, []string{"1"}, 1, ""},
		"everybody":                           {[]string{"*"}, []string{"*"}, 0, ""},
		"without a rate, which was not asked": {[]string{us}, nil, 0, ""},
		"leading zeros":                       {[]string{us}, []string{"060"}, 60, ""},

		"nothing":                   {nil, nil, 0, "is missing"},
		"a rate alone":              {nil, []string{"100"}, 0, "is missing"},
		"empty":                     {[]string{""}, nil, 0, "is not " + us},
		"another host":              {[]string{"other.example.com"}, nil, 0, "is not " + us},
		"one that ends the same":    {[]string{"evil-windsock.example.com"}, nil, 0, "is not " + us},
		"one that begins the same":  {[]string{us + ".evil.example"}, nil, 0, "is not " + us},
		"a host below":              {[]string{"a." + us}, nil, 0, "is not " + us},
		"the domain above":          {[]string{"example.com"}, nil, 0, "is not " + us},
		"a wildcard in it":          {[]string{"*.example.com"}, nil, 0, "is not " + us},
		"two wildcards":             {[]string{"**"}, nil, 0, "is not " + us},
		"a list":                    {[]string{"other.example.com, " + us}, nil, 0, "is not " + us},
		"twice":                     {[]string{us, us}, nil, 0, "twice"},
		"ours and another":          {[]string{"other.example.com", us}, nil, 0, "twice"},
		"as a URL":                  {[]string{"https://" + us}, nil, 0, "is not " + us},
		"with a port":               {[]string{us + ":443"}, nil, 0, "is not " + us},
		"with a dot at its end":     {[]string{us + "."}, nil, 0, "is not " + us},
		"a letter that folds to k":  {[]string{"windsoc\u212a.example.com"}, nil, 0, "is not " + us},
		"none a minute":             {[]string{us}, []string{"0"}, 0, "is not a number"},
		"fewer than none":           {[]string{us}, []string{"-1"}, 0, "is not a number"},
		"a rate that is no number":  {[]string{us}, []string{"fast"}, 0, "is not a number"},
		"a fraction":                {[]string{us}, []string{"1.5"}, 0, "is not a number"},
		"a rate beyond all numbers": {[]string{us}, []string{"99999999999999999999"}, 0, "is not a number"},
		"an empty rate":             {[]string{us}, []string{""}, 0, "is not a number"},
		"two rates":                 {[]string{us}, []string{"1", "2"}, 0, "twice"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadGrant(us, c.origins, c.rates)
			switch {
			case c.refused == "" && (err != nil || got != Grant{Origin: us, Rate: c.rate}):
				t.Errorf("%q %q: got %+v, %v; want rate %d", c.origins, c.rates, got, err, c.rate)
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused)):
				t.Errorf("%q %q: got %+v, %v; want an error that says %q", c.origins, c.rates, got, err, c.refused)
			}
		})
	}
}

func TestCheckOrigin(t *testing.T) {
	for s, good := range map[string]bool{
		"windsock": true, "windsock.example.com": true, "3f2a9c01d7e4": true, "a-b.c": true, strings.Repeat("a.", 126) + "a": true,
		"": false, "*": false, "10.0.0.1": false, "::1": false, "a..b": false, "-a.b": false, "a_b": false, "https://a": false, "a:80": false,
		"a.b.": false, "a b": false, "ä.example": false, "a\r\nX: y": false, strings.Repeat("a.", 127) + "a": false, strings.Repeat("a", 64): false,
	} {
		if err := CheckOrigin(s); (err == nil) != good {
			t.Errorf("%q: %v, want it taken: %t", s, err, good)
		}
	}
}

func TestPending(t *testing.T) {
	for _, c := range []struct {
		verify bool
		at     time.Time
		want   bool
	}{{false, time.Time{}, false}, {true, time.Time{}, true}, {true, noon, false}, {false, noon, false}} {
		m := Monitor{MonitorSpec: MonitorSpec{Verify: c.verify}, VerifiedAt: c.at}
		if got := m.Pending(); got != c.want {
			t.Errorf("verify %t, verified at %s: pending is %t", c.verify, c.at, got)
		}
	}
}
