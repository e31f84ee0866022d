package windsock

import "net/url"

// CheckPublicURL returns a FieldError unless the API can be reached at s, before the paths
// of its own.
func CheckPublicURL(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || checkAddress(u.Hostname()) != nil || !(u.Port() == "" || isPort(u.Port())):
		return Invalid("public_url", "want a URL as in https://windsock.example.com")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return Invalid("public_url", "want no user, query or fragment in it")
	}
	return nil
}
