package main

import (
	"fmt"
	"image/color"
	"math"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// picture is one plot of the page: groups of bars, one bar for each implementation.
type picture struct {
	file, title, axis string
	unit              string
	scale             float64 // of the unit to the axis
	log               bool
	groups            []group
	impls             []string
}

// group is the bars that stand beside each other.
type group struct {
	name string
	row  key // of any implementation
}

var (
	colors = map[string]color.RGBA{
		ours:                {R: 0x1f, G: 0x6f, B: 0xb4, A: 0xff},
		"nodewatch-private": {R: 0x7f, G: 0xb2, B: 0xdc, A: 0xff},
		"nodewatch-compact": {R: 0x0b, G: 0x3c, B: 0x66, A: 0xff},
		peer:                {R: 0xd9, G: 0x7a, B: 0x2b, A: 0xff},
		ceiling:             {R: 0xbb, G: 0xbb, B: 0xbb, A: 0xff},
	}

	pictures = []picture{
		{
			file: "watch.svg", title: "Processor time of the client for an event of a watch, loopback into the store", axis: "us/event", unit: "cpu-ns/op", scale: 1e3, log: true,
			groups: watchGroups(), impls: []string{ours, peer, ceiling},
		},
		{
			file: "memory.svg", title: "Heap a pod at rest, 10,000 pods, managedFields dropped", axis: "bytes/pod", unit: "rest-B/pod", scale: 1,
			groups: listGroups("10000"), impls: []string{"nodewatch-compact", ours, "nodewatch-private", peer},
		},
		{
			file: "peak.svg", title: "Peak heap of a list of 10,000 pods", axis: "MiB", unit: "peak-B", scale: 1 << 20,
			groups: listGroups("10000"), impls: []string{"nodewatch-compact", ours, "nodewatch-private", peer},
		},
		{
			file: "latency.svg", title: "Latency from the server's write to the handler, p99", axis: "us", unit: "p99-ns", scale: 1e3, log: true,
			groups: latencyGroups(), impls: []string{ours, peer},
		},
	}
)

func watchGroups() (out []group) {
	for _, encoding := range []string{"json", "protobuf"} {
		for _, link := range []string{"http1", "http1-gzip", "tls-http1", "tls-http2"} {
			out = append(out, group{encoding + "\n" + link, watchRow(link, encoding, "dropped")})
		}
	}
	return out
}

func listGroups(pods string) (out []group) {
	for _, encoding := range []string{"json", "protobuf"} {
		out = append(out, group{encoding, listRow(pods, encoding, ours)})
	}
	return out
}

func latencyGroups() (out []group) {
	for _, encoding := range []string{"json", "protobuf"} {
		for _, rate := range []string{"100", "1000", "10000"} {
			out = append(out, group{encoding + "\n" + rate + "/s", key{"Latency", "encoding=" + encoding + "/rate=" + rate, ours}})
		}
	}
	return out
}

// draw writes every picture to dir.
func draw(res *results, dir string) error {
	for _, p := range pictures {
		if err := p.draw(res, filepath.Join(dir, p.file)); err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
	}
	return nil
}

func (p picture) draw(res *results, file string) error {
	pl := plot.New()
	pl.Title.Text = p.title
	pl.Title.Padding = 2 * vg.Millimeter
	pl.Y.Label.Text = p.axis
	pl.Legend.Top = true
	pl.Legend.Padding = vg.Millimeter
	for _, style := range []*font.Font{&pl.Title.TextStyle.Font, &pl.Y.Label.TextStyle.Font, &pl.X.Tick.Label.Font, &pl.Y.Tick.Label.Font, &pl.Legend.TextStyle.Font} {
		style.Variant = "Sans"
		style.Size = 10
	}
	pl.BackgroundColor = color.White
	const barWidth = 3.5 * vg.Millimeter
	values, low, high := p.values(res)
	if p.log {
		// Bars begin at 0, which a logarithmic axis does not have: the plot is of
		// the logarithms, and its ticks say what they stand for.
		floor := math.Floor(math.Log10(low))
		for _, bars := range values {
			for g, v := range bars {
				bars[g] = max(0, math.Log10(v)-floor)
			}
		}
		var ticks plot.ConstantTicks
		for e := floor; e <= math.Ceil(math.Log10(high)); e++ {
			ticks = append(ticks, plot.Tick{Value: e - floor, Label: strconv.FormatFloat(math.Pow(10, e), 'f', -1, 64)})
		}
		pl.Y.Tick.Marker = ticks
		pl.Y.Max = math.Ceil(math.Log10(high)) - floor
	}
	for i, impl := range p.impls {
		chart, err := plotter.NewBarChart(values[i], barWidth)
		if err != nil {
			return err
		}
		chart.Color = colors[impl]
		chart.LineStyle.Width = 0
		chart.Offset = barWidth * vg.Length(float64(i)-float64(len(p.impls)-1)/2)
		pl.Add(chart)
		pl.Legend.Add(impl+"      ", chart) // room for a reader's font that is wider
	}
	names := make([]string, len(p.groups))
	for g, group := range p.groups {
		names[g] = group.name
	}
	pl.NominalX(names...)
	pl.X.Min, pl.X.Max = -0.6, float64(len(names))-0.4
	pl.Y.Min = 0
	return pl.Save(28*vg.Centimeter, 9*vg.Centimeter, file)
}

// values are the bars of each implementation, 0 for what was not measured, and the least and
// the largest that were; 1 and 10 if nothing was.
func (p picture) values(res *results) (bars []plotter.Values, low, high float64) {
	low, high = math.Inf(1), 0
	for _, impl := range p.impls {
		of := make(plotter.Values, len(p.groups))
		for g, group := range p.groups {
			if v, ok := res.value(group.row.of(impl), p.unit, median); ok && v > 0 {
				of[g] = v / p.scale
				low, high = min(low, of[g]), max(high, of[g])
			}
		}
		bars = append(bars, of)
	}
	if high == 0 {
		return bars, 1, 10
	}
	return bars, low, high
}
