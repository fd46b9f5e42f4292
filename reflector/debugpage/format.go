package debugpage

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nodewatch-go/nodewatch/reflector"
	"github.com/nodewatch-go/nodewatch/reflector/reason"
)

// Runes of a text that are shown: of an error in the overview, and anywhere.
const (
	textShown = 240
	longShown = 1000
)

// shortText is longText for the overview.
func shortText(s string) string { return strings.ReplaceAll(clean(s, textShown), "\n", `\n`) }

// longText makes what came from a server fit to be shown.
func longText(s string) string { return clean(s, longShown) }

// clean cuts what is shown of s after n runes, and shows by its code what has no shape of its own
// or changes that of its neighbours: control characters, what turns the direction
// of text, what is not to be seen, bytes that are not UTF-8, and marks above and below a letter but for the
// first two, since they would pile up over other lines. HTML is escaped by the template.
func clean(s string, n int) string {
	var b strings.Builder
	marks := 0
	for i, r := range s {
		if marks++; !unicode.IsMark(r) {
			marks = 0
		}
		shown := string(r)
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], shown):
			shown = fmt.Sprintf(`\x%02x`, s[i])
		case r == '\n', unicode.IsPrint(r) && !unicode.In(r, unseen...) && marks <= 2:
		default:
			shown = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		}
		if n -= utf8.RuneCountInString(shown); n < 0 {
			b.WriteString("…")
			break
		}
		b.WriteString(shown)
	}
	return b.String()
}

// unseen are letters and marks that unicode.IsPrint takes for printable.
var unseen = []*unicode.RangeTable{unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector}

// ago is the time from t to now, "never" for none.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return span(now.Sub(t)) + " ago"
}

// until is the time from now to t.
func until(t, now time.Time) string {
	if !t.After(now) {
		return "now"
	}
	return "in " + span(t.Sub(now))
}

// stamp is a time for programs and for who points at it.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z07:00") }

// span is a duration in one or two units: nobody compares minutes of days.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d < time.Microsecond:
		return "0 s"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d/time.Microsecond)
	case d < time.Second:
		return fmt.Sprintf("%d ms", d/time.Millisecond)
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", float64(d/(time.Second/10))/10)
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return two(d, time.Minute, "min", time.Second, "s")
	case d < 48*time.Hour:
		return two(d, time.Hour, "h", time.Minute, "min")
	}
	return two(d, 24*time.Hour, "d", time.Hour, "h")
}

func two(d, large time.Duration, largeWord string, small time.Duration, smallWord string) string {
	s := fmt.Sprintf("%d %s", d/large, largeWord)
	if rest := d % large / small; rest > 0 {
		s += fmt.Sprintf(" %d %s", rest, smallWord)
	}
	return s
}

// number has a thin space between thousands.
func number(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return s
}

// plural is the word for n of them.
func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// size is a number of bytes.
func size(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, units := float64(n), "KMGTPE"
	i := -1
	for ; f >= 1024; i++ {
		f /= 1024
	}
	return fmt.Sprintf("%.1f %ciB", f, units[i])
}

// words shows counts by word, in the order given.
func words(order []string, counts map[string]uint64) string {
	var parts []string
	for _, word := range order {
		if n := counts[word]; n > 0 {
			parts = append(parts, word+" "+number(n))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, " · ")
}

// restarts shows the most frequent reason first.
func restarts(counts map[reason.Reason]uint64) string {
	byWord := make(map[string]uint64, len(counts))
	for why, n := range counts {
		byWord[string(why)] = n
	}
	order := slices.SortedFunc(maps.Keys(byWord), func(a, b string) int {
		return cmp.Or(cmp.Compare(byWord[b], byWord[a]), strings.Compare(a, b))
	})
	return words(order, byWord)
}

// outcomes shows how many requests ended well, and how many did not.
func outcomes(counts map[string]uint64) string { return words(reflector.Outcomes(), counts) }

func mean(h reflector.Histogram) time.Duration { return h.Sum / time.Duration(max(h.Count, 1)) }

// progress of a list or watch-list under way.
func progress(s reflector.Status) string {
	text := number(s.ListedItems) + " items came"
	if s.RemainingItems > 0 {
		text += ", about " + number(s.RemainingItems) + " remain"
	}
	return text
}
