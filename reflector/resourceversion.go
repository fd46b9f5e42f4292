package reflector

// compareRV compares two resourceVersions as the numbers they are: negative
// when a is older than b, zero when they are the same, positive when a is
// newer. ok is false when either is not a decimal number; then nothing but
// equality can be said of them.
//
// That resourceVersions of one resource may be ordered at all comes from
// KEP-5504 (comparable resource versions): decimal numbers of any length, so
// they are compared digit by digit and never through an integer type. Unlike
// the helper of apimachinery this takes "0" and leading zeros as well, because
// a client also compares what it asked for ("0" is any version) and must not
// lose its order to a server that pads. It allocates nothing.
func compareRV(a, b string) (result int, ok bool) {
	if !isDecimal(a) || !isDecimal(b) {
		return 0, false
	}
	a, b = trimZeros(a), trimZeros(b)
	switch {
	case len(a) < len(b):
		return -1, true
	case len(a) > len(b):
		return 1, true
	case a < b:
		return -1, true
	case a > b:
		return 1, true
	}
	return 0, true
}

// versionOf returns rv, or "" where it names no version: "0" stands for any (API
// concepts, resourceVersion), and nothing can be resumed there.
func versionOf(rv string) string {
	if rv == "0" {
		return ""
	}
	return rv
}

// olderRV reports whether a is known to be older than b.
func olderRV(a, b string) bool {
	c, ok := compareRV(a, b)
	return ok && c < 0
}

// newerRV returns the newer of two, a where they cannot be compared. The empty one is the oldest.
func newerRV(a, b string) string {
	if a == "" || olderRV(a, b) {
		return b
	}
	return a
}

func isDecimal(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// trimZeros drops leading zeros; zero itself becomes the empty string.
func trimZeros(s string) string {
	for s != "" && s[0] == '0' {
		s = s[1:]
	}
	return s
}
