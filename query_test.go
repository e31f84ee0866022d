package windsock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
)

func TestETagDiffersWheneverTheJSONDoes(t *testing.T) {
	strong := regexp.MustCompile(`^"[A-Za-z0-9_-]{22}"$`)
	seen := map[string]any{}
	for i := range 100 {
		d := DeploymentSpec{ID: "shop", Quorum: i}
		tag := ETag(d)
		if !strong.MatchString(tag) {
			t.Fatalf("%s is no strong entity tag of ours", tag)
		}
		if other, ok := seen[tag]; ok {
			t.Errorf("%+v and %+v have the same tag", other, d)
		}
		seen[tag] = d
		if again := ETag(&d); again != tag {
			t.Errorf("%+v has two tags, %s and %s", d, tag, again)
		}
	}
	if a, b := ETag(map[string]int{"a": 1, "b": 2}), ETagOf([]byte(`{"a":1,"b":2}`)); a != b {
		t.Errorf("the same JSON has two tags, %s and %s", a, b)
	}
}

func TestETagOfWhatIsNotForTheAPI(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a channel has an entity tag")
		}
	}()
	ETag(make(chan int))
}

func TestMatchETag(t *testing.T) {
	for name, c := range map[string]struct {
		header, tag string
		want        bool
	}{
		"the same":                {`"a"`, `"a"`, true},
		"another":                 {`"b"`, `"a"`, false},
		"in a list":               {`"b", "a" ,"c"`, `"a"`, true},
		"not in a list":           {`"b","c"`, `"a"`, false},
		"any, and there is one":   {`*`, `"a"`, true},
		"any, and there is none":  {`*`, ``, false},
		"one, and there is none":  {`"a"`, ``, false},
		"nothing, and none":       {``, ``, false},
		"nothing":                 {``, `"a"`, false},
		"without its quotes":      {`a`, `"a"`, false},
		"a part of it":            {`"a`, `"a"`, false},
		"the beginning of it":     {`"abc"`, `"ab"`, false},
		"commas and nothing else": {`, ,`, `"a"`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := MatchETag(c.header, c.tag); got != c.want {
				t.Errorf("%s lists %s: %t, want %t", c.header, c.tag, got, c.want)
			}
		})
	}
}

func TestCond(t *testing.T) {
	v := DeploymentSpec{ID: "shop"}
	tag, other := ETag(v), ETag(DeploymentSpec{ID: "mall"})
	for name, c := range map[string]struct {
		cond   Cond
		exists bool
		met    bool
	}{
		"nothing is demanded":             {Cond{}, true, true},
		"nothing is demanded of nothing":  {Cond{}, false, true},
		"as it was read":                  {Cond{IfMatch: tag}, true, true},
		"changed since":                   {Cond{IfMatch: other}, true, false},
		"removed since":                   {Cond{IfMatch: tag}, false, false},
		"it must be there, and is":        {Cond{IfMatch: "*"}, true, true},
		"it must be there, and is not":    {Cond{IfMatch: "*"}, false, false},
		"it must not be there, and is":    {Cond{IfNoneMatch: "*"}, true, false},
		"it must not be there and is not": {Cond{IfNoneMatch: "*"}, false, true},
		"it must not be this, and is":     {Cond{IfNoneMatch: tag}, true, false},
		"it must not be this, and is not": {Cond{IfNoneMatch: other}, true, true},
		"both, and one is not met":        {Cond{IfMatch: tag, IfNoneMatch: "*"}, true, false},
		"both, and both are met":          {Cond{IfMatch: tag, IfNoneMatch: other}, true, true},
		"a weak tag is not enough":        {Cond{IfMatch: "W/" + tag}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			err := c.cond.Check(c.exists, v)
			if met := err == nil; met != c.met {
				t.Errorf("got %v, want it met: %t", err, c.met)
			}
			if err != nil && !errors.Is(err, ErrPrecondition) {
				t.Errorf("%v is no ErrPrecondition", err)
			}
		})
	}
}

func TestWeakTagOfWhatIsThere(t *testing.T) {
	v := DeploymentSpec{ID: "shop"}
	if err := (Cond{IfNoneMatch: "W/" + ETag(v)}).Check(true, v); !errors.Is(err, ErrPrecondition) {
		t.Errorf("a proxy that compresses made the tag weak, and now it is another: %v", err)
	}
}

func TestCondMetByWhatWasReadAndNothingElse(t *testing.T) {
	eachSeed(t, func(r *rand.Rand) error {
		read := InstanceSpec{ID: pick(r, "a", "b"), DeploymentID: pick(r, "c", "d"), Name: pick(r, "", "e")}
		now := InstanceSpec{ID: pick(r, "a", "b"), DeploymentID: pick(r, "c", "d"), Name: pick(r, "", "e")}
		same := fmt.Sprint(read) == fmt.Sprint(now)
		if met := (Cond{IfMatch: ETag(read)}).Check(true, now) == nil; met != same {
			return fmt.Errorf("read %+v, now %+v: If-Match is met: %t", read, now, met)
		}
		if met := (Cond{IfNoneMatch: ETag(read)}).Check(true, now) == nil; met == same {
			return fmt.Errorf("read %+v, now %+v: If-None-Match is met: %t", read, now, met)
		}
		return nil
	})
}
