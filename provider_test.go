package windsock

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestWhatFitsIsLeftAsItIs(t *testing.T) {
	d := Description{Deployment: "d", Name: "web 1", Pool: "p", Assembly: "web", Address: "10.0.0.1", Metadata: map[string]string{"a": "b"}}
	want := d
	want.Metadata = map[string]string{"a": "b"}
	if d.Fit(); !reflect.DeepEqual(d, want) {
		t.Errorf("got %+v", d)
	}
}

func TestFit(t *testing.T) {
	d := Description{Name: strings.Repeat("ü", 200), Pool: "a\x00b\xff", Metadata: map[string]string{"": "no key", "bad\x01": "key", "k": strings.Repeat("v", 5000)}}
	for i := range 100 {
		d.Metadata[fmt.Sprintf("many%03d", i)] = ""
	}
	d.Fit()
	if len(d.Name) != 254 || !utf8.ValidString(d.Name) || d.Pool != "a b" {
		t.Errorf("got %q in %q", d.Name, d.Pool)
	}
	if len(d.Metadata) != maxMetadata || len(d.Metadata["k"]) != maxValue {
		t.Errorf("%d entries of metadata", len(d.Metadata))
	}
	spec := DeploymentSpec{ID: "d", Name: d.Name, Pool: d.Pool, Metadata: d.Metadata}
	if err := spec.Complete(); err != nil {
		t.Errorf("does not fit: %v", err)
	}
	empty := Description{Metadata: map[string]string{}}
	if empty.Fit(); empty.Metadata != nil {
		t.Error("no metadata is not nil")
	}
}

func TestProviderSourceIsReserved(t *testing.T) {
	if err := CheckSource(ProviderSource("east")); err == nil {
		t.Error("anybody may speak for a provider")
	}
}
