package origin

import (
	"net/url"
	"testing"
)

func TestSame(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"https://a/x", "https://a:443/y", true},
		{"http://a", "http://A:80", true},
		{"https://[::1]:6443", "https://[::1]:6443/api", true},
		{"https://a", "http://a", false},
		{"https://a", "https://b", false},
		{"https://a", "https://a:6443", false},
		{"http://a:443", "https://a", false},
		{"https://a", "https://a.b", false},
	} {
		a, errA := url.Parse(c.a)
		b, errB := url.Parse(c.b)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if Same(a, b) != c.same || Same(b, a) != c.same {
			t.Errorf("%s and %s: want %t", c.a, c.b, c.same)
		}
	}
}
