package windsock

import "testing"

func TestPermissions(t *testing.T) {
	t.Parallel()
	for i, has := range Permissions {
		for j, needs := range Permissions {
			if has.Allows(needs) != (i >= j) {
				t.Errorf("%s allows %s: %v", has, needs, !(i >= j))
			}
		}
		if has.Allows("") || Permission("").Allows(has) || has.Validate() != nil {
			t.Errorf("%s: what is none counts as one", has)
		}
	}
	if Permission("root").Validate() == nil {
		t.Error("root is no permission")
	}
}

func TestPrincipalOf(t *testing.T) {
	t.Parallel()
	if p := PrincipalOf(t.Context()); p != Anyone {
		t.Errorf("nobody was named, and it is %+v", p)
	}
	want := Principal{Name: "icinga", Permission: MayReport, Scope: "deployment:shop"}
	if p := PrincipalOf(WithPrincipal(t.Context(), want)); p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
}
