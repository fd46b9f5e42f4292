package layout

import (
	"strings"
	"unsafe"
)

// View returns b as a string, which is b's memory: it means something only for as long as
// nobody writes there. It is for the metadata of an object whose bytes are at hand, of
// which most is compared and nothing kept.
func View(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// Moved returns s, which is from's memory where it was made by View, as that of to, a copy of from. Any other s is
// copied.
func Moved(s string, from, to []byte) string {
	at := uintptr(unsafe.Pointer(unsafe.StringData(s))) - uintptr(unsafe.Pointer(unsafe.SliceData(from)))
	switch {
	case len(s) == 0:
		return ""
	case at >= uintptr(len(from)): // below from it is a large number
		return strings.Clone(s)
	}
	return View(to[at:][:len(s)])
}
