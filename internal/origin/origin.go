// Package origin compares the servers that URLs point to.
package origin

import (
	"net/url"
	"strings"
)

// Same reports whether two URLs have one scheme, host and port, so that credentials for
// the one may go to the other. The case of hosts does not count (RFC 3986), and
// neither does whether a port that is the scheme's own is written.
func Same(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && SameHost(a, b) && Port(a) == Port(b)
}

// SameHost reports whether two URLs have one host, on whatever port.
func SameHost(a, b *url.URL) bool { return strings.EqualFold(a.Hostname(), b.Hostname()) }

// Port is the port of an http or https URL, also where it is not written.
func Port(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}
