// Package logging makes the logger of the command line: short lines for
// people, or JSON for collectors.
package logging

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
)

// Formats returns the values of --log-format, the default first.
func Formats() []string { return []string{"text", "json"} }

// New returns a logger that writes to w, one Write a record, in one of Formats
// (another word is text). verbosity 0 shows what an operator should know (info
// and above), 1 shows debug, each further step one level of slog (4 units) more,
// and -1 warnings and errors only.
func New(w io.Writer, format string, verbosity int) *slog.Logger {
	level := slog.LevelInfo - slog.Level(4*min(verbosity, 1<<16))
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level}))
	}
	return slog.New(&textHandler{out: &output{w: w}, level: level, short: verbosity <= 0})
}

// textHandler writes "15:04:05 WARN  message: error key=value". The date is left
// out: who reads along knows the day, and who keeps logs takes JSON. So are
// attributes without a value.
type textHandler struct {
	out    *output
	level  slog.Level
	short  bool   // leave out what is there for programs
	prefix string // of the groups that are open, each with its dot
	attrs  string // what With gave, rendered, each with a space in front
}

// output is shared by the handlers that With and WithGroup derive.
type output struct {
	mu sync.Mutex
	w  io.Writer
}

func (h *textHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level }

func (h *textHandler) Handle(_ context.Context, r slog.Record) error {
	var buf bytes.Buffer
	if !r.Time.IsZero() {
		buf.WriteString(r.Time.Format(time.TimeOnly))
		buf.WriteByte(' ')
	}
	fmt.Fprintf(&buf, "%-5s ", r.Level)
	buf.WriteString(OneLine(r.Message))
	// The error says most, so it comes first.
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			buf.WriteString(": " + OneLine(err.Error()))
		}
		return true
	})
	buf.WriteString(h.attrs)
	r.Attrs(func(a slog.Attr) bool {
		if _, isError := a.Value.Any().(error); !isError {
			h.append(&buf, h.prefix, a)
		}
		return true
	})
	buf.WriteByte('\n')
	h.out.mu.Lock()
	defer h.out.mu.Unlock()
	_, err := h.out.w.Write(buf.Bytes())
	return err
}

func (h *textHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	var buf bytes.Buffer
	for _, a := range attrs {
		h.append(&buf, h.prefix, a)
	}
	derived := *h
	derived.attrs += buf.String()
	return &derived
}

func (h *textHandler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	derived := *h
	derived.prefix += name + "."
	return &derived
}

// forPrograms are keys whose values repeat what the message says.
func forPrograms(key string) bool {
	switch key {
	case "resource", "state", "next":
		return true
	}
	return false
}

func (h *textHandler) append(buf *bytes.Buffer, prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range v.Group() {
			h.append(buf, prefix, member)
		}
		return
	}
	if a.Equal(slog.Attr{}) || v.Kind() == slog.KindString && v.String() == "" || h.short && forPrograms(a.Key) {
		return
	}
	buf.WriteByte(' ')
	buf.WriteString(OneLine(prefix + a.Key))
	buf.WriteByte('=')
	buf.WriteString(text(v))
}

// text returns a value, quoted where a reader could not see where it ends.
func text(v slog.Value) string {
	var s string
	switch v.Kind() {
	case slog.KindTime:
		s = v.Time().Format(time.RFC3339)
	case slog.KindDuration:
		s = rounded(v.Duration()).String()
	default:
		s = v.String()
	}
	if s == "" || strings.ContainsAny(s, " =\"") || s != OneLine(s) {
		return strconv.Quote(s)
	}
	return s
}

// rounded leaves a duration about three digits.
func rounded(d time.Duration) time.Duration {
	switch abs := d.Abs(); {
	case abs >= 10*time.Second:
		return d.Round(100 * time.Millisecond)
	case abs >= time.Second:
		return d.Round(10 * time.Millisecond)
	case abs >= time.Millisecond:
		return d.Round(time.Millisecond)
	}
	return d
}

// OneLine keeps a text that came from a server, a file or the user in its line
// and away from the terminal: control characters are shown as Go writes them.
func OneLine(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

var _ slog.Handler = (*textHandler)(nil)
