package windsock

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestTokenSpec(t *testing.T) {
	for name, tc := range map[string]struct {
		spec  TokenSpec
		field string // "": it can be
	}{
		"plain":             {TokenSpec{Name: "ops", Role: MayAdmin}, ""},
		"role left out":     {TokenSpec{Name: "ops"}, ""},
		"with a scope":      {TokenSpec{Name: "nagios@east", Role: MayReport, Scope: "deployment:shop"}, ""},
		"as a monitor":      {TokenSpec{Name: "m", Role: MayReport, MonitorID: "x"}, ""},
		"for a year":        {TokenSpec{Name: "m", TTL: Duration(MaxTTL)}, ""},
		"no name":           {TokenSpec{Role: MayAdmin}, "name"},
		"name with a line":  {TokenSpec{Name: "a\nb"}, "name"},
		"long name":         {TokenSpec{Name: strings.Repeat("n", 256)}, "name"},
		"no such role":      {TokenSpec{Name: "ops", Role: "root"}, "role"},
		"no such scope":     {TokenSpec{Name: "ops", Role: MayReport, Scope: "server:x"}, "scope"},
		"admin of a part":   {TokenSpec{Name: "ops", Role: MayAdmin, Scope: "pool:east"}, "scope"},
		"reader of a part":  {TokenSpec{Name: "ops", Scope: "pool:east"}, "scope"},
		"admin as monitor":  {TokenSpec{Name: "ops", Role: MayAdmin, MonitorID: "x"}, "monitor_id"},
		"longer":            {TokenSpec{Name: "m", TTL: Duration(MaxTTL + time.Second)}, "ttl"},
		"expired when made": {TokenSpec{Name: "m", TTL: -1}, "ttl"},
	} {
		err := tc.spec.Complete()
		var field *FieldError
		errors.As(err, &field)
		if (err == nil) != (tc.field == "") || field != nil && field.Field != tc.field {
			t.Errorf("%s: got %v, want a fault of %q", name, err, tc.field)
		}
	}
}

func TestScopeCovers(t *testing.T) {
	web := Subject{KindInstance, "web-1"}
	for _, tc := range []struct {
		scope Scope
		of    Subject
		want  bool
	}{
		{"", web, true},
		{Global, web, true},
		{"deployment:shop", web, true},
		{"deployment:shop", Subject{KindDeployment, "shop"}, true},
		{"instance:web-1", web, true},
		{"instance:shop", Subject{KindDeployment, "shop"}, false},
		{"provider:east", web, true},
		{"pool:p1", web, true},
		{"deployment:web-1", web, false},
		{"deployment:shop2", web, false},
		{"deployment:sho", web, false},
		{"deployment:SHOP", web, false},
		{"deployment:", web, false},
		{"instance:web-1:x", web, false},
		{"pool:east", web, false},
		{"provider:p1", web, false},
		{"instance:web-1", Subject{KindDeployment, "web-1"}, false},
		{"global:", web, false},
	} {
		if got := tc.scope.Covers(tc.of, "shop", "east", "p1"); got != tc.want {
			t.Errorf("%q covers %v of shop in pool p1 of east: %v, want %v", tc.scope, tc.of, got, tc.want)
		}
	}
	if Scope("pool:").Covers(web, "shop", "east", "") {
		t.Error("a pool without a name covers what lies in none")
	}
	if !Scope("instance:a:b").Covers(Subject{KindInstance, "a:b"}, "shop", "", "") || Scope("deployment:a").Covers(Subject{KindInstance, "x"}, "a:b", "", "") {
		t.Error("an id with a colon")
	}
}
