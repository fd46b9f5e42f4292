// Package hook joins functions that a Config takes.
package hook

// Before calls first, then the caller's own function, if any.
func Before(first, own func()) func() {
	if own == nil {
		return first
	}
	return func() {
		first()
		own()
	}
}
