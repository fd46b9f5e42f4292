package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// The implementations.
const (
	ours    = "nodewatch"
	peer    = "client-go"
	ceiling = "discard"
)

// relation is how a figure of ours is judged.
type relation uint8

const (
	timesBetter relation = iota // client-go's divided by ours: at least the bound
	shareOf                     // ours divided by client-go's: at most the bound
	atMost                      // ours: at most the bound
)

// claim is a sentence about one figure.
type claim struct {
	what string
	row  key    // ours
	unit string // smaller is better
	relation
	bound float64
}

// verdict is what a run says to a claim.
type verdict struct {
	claim
	measured bool
	figure   float64
	holds    bool
}

func (c claim) judge(res *results, of stat) verdict {
	v := verdict{claim: c}
	own, ok := res.value(c.row, c.unit, of)
	if !ok {
		return v
	}
	if c.relation == atMost {
		v.measured, v.figure, v.holds = true, own, own <= c.bound
		return v
	}
	other, ok := res.value(c.row.of(peer), c.unit, of)
	switch {
	case !ok || other == 0 || own == 0 && c.relation == timesBetter:
	case c.relation == timesBetter:
		v.measured, v.figure, v.holds = true, other/own, other/own >= c.bound
	default:
		v.measured, v.figure, v.holds = true, own/other, own/other <= c.bound
	}
	return v
}

func (c claim) goal() string {
	switch c.relation {
	case timesBetter:
		return fmt.Sprintf("at least %s times", number(c.bound))
	case shareOf:
		return fmt.Sprintf("at most 1/%s", number(1/c.bound))
	case atMost:
	}
	return "at most " + number(c.bound)
}

func (v verdict) shown() string {
	switch {
	case !v.measured:
		return "not measured"
	case v.relation == timesBetter:
		return number(v.figure) + " times"
	case v.relation == shareOf && v.figure > 0:
		return "1/" + number(1/v.figure)
	}
	return number(v.figure)
}

func (v verdict) word() string {
	switch {
	case !v.measured:
		return ""
	case v.holds:
		return "yes"
	}
	return "**no**"
}

// number has three digits that say something, and all before the point.
func number(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// check judges claims by the best run of each side, which other work on the machine
// disturbs least, and fails where one does not hold or was not measured.
func check(res *results, claims []claim, out io.Writer) error {
	broken := 0
	for _, c := range claims {
		v := c.judge(res, least)
		word := "ok"
		if !v.measured || !v.holds {
			word = "BROKEN"
			broken++
		}
		if _, err := fmt.Fprintf(out, "%-7s %-72s %s, want %s\n", word, c.what, v.shown(), c.goal()); err != nil {
			return err
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d of %d guards are broken", broken, len(claims))
	}
	return nil
}

// table is the Markdown of verdicts by the medians. Beside them are the best runs of each side, and
// for a time the ratio of processor times: other work on the machine changes it less.
func table(res *results, claims []claim) string {
	var b strings.Builder
	b.WriteString("| | goal | figure | best runs | by processor time | holds |\n| --- | --- | ---: | ---: | ---: | --- |\n")
	for _, c := range claims {
		v, byCPU := c.judge(res, median), ""
		if c.unit == "ns/op" && v.measured {
			c := c
			c.unit = "cpu-ns/op"
			byCPU = c.judge(res, median).shown()
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", c.what, c.goal(), v.shown(), c.judge(res, least).shown(), byCPU, v.word())
	}
	return b.String()
}
