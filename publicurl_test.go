package windsock

import "testing"

func TestPublicURL(t *testing.T) {
	for _, s := range []string{"http://windsock", "https://windsock.example.com", "http://10.0.0.1:8080/", "https://[::1]:8080/behind/a/proxy"} {
		if err := CheckPublicURL(s); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
	for _, s := range []string{
		"", "windsock.example.com", "//windsock.example.com", "ftp://windsock.example.com", "http://", "http:///path", "http://a b", `http://a"b`, "http://10.0.0.300",
		"http://windsock:0", "http://windsock:99999", "http://user@windsock", "http://windsock?", "http://windsock/?a=b", "http://windsock/#a", "http://%zz",
	} {
		refuses(t, CheckPublicURL(s), "public_url")
	}
}
