package cli

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// terminal is standard error. Where it is a terminal it can show one line of
// progress under what was written; anything written takes the line away first.
type terminal struct {
	mu    sync.Mutex
	w     io.Writer
	tty   bool
	width func() int // in columns, 0 unknown
	shown bool
}

func newTerminal(f *os.File) *terminal {
	fd := int(f.Fd())
	return &terminal{w: f, tty: term.IsTerminal(fd), width: func() int {
		width, _, err := term.GetSize(fd)
		if err != nil {
			return 0
		}
		return width
	}}
}

// Write implements io.Writer. It never fails: nobody could be told.
func (t *terminal) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hide()
	_, _ = t.w.Write(p)
	return len(p), nil
}

// clearLine moves the cursor to the first column and erases to the right.
const clearLine = "\r\x1b[K"

// Progress replaces the line of progress; "" takes it away. It does nothing
// where standard error is no terminal.
func (t *terminal) Progress(line string) {
	if !t.tty {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hide()
	if line == "" {
		return
	}
	if width := t.width(); width > 1 && len(line) >= width {
		line = line[:width-1] // a line that wraps could not be erased
	}
	fmt.Fprint(t.w, line)
	t.shown = true
}

func (t *terminal) hide() {
	if t.shown {
		fmt.Fprint(t.w, clearLine)
		t.shown = false
	}
}
