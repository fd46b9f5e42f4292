package streamwatcher

import (
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode"
)

// Config.Skip: events of such objects are passed over, in both encodings, however the bytes come and whether
// or not the events stand on lines of their own. BOOKMARK, ERROR and what has no UID are not asked about.
func TestSkip(t *testing.T) {
	odd := func(m *decode.Meta) bool { return strings.HasPrefix(m.Name, "odd") || m.UID == "" }
	renamed := strings.Replace(podJSON("odd-3", 0), "ADDED", "RENAMED", 1)
	bookmark := `{"type":"BOOKMARK","object":{"kind":"Pod","apiVersion":"v1","metadata":{"resourceVersion":"9"}}}`
	nothing := `{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","x":"` + strings.Repeat("x", 5000) + `","metadata":{"name":"odd-lost"}}}`
	status := `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","message":"gone","code":410}}`
	events := []string{podJSON("odd-1", 0), podJSON("even-1", 300), podJSON("odd-2", 5000), renamed, bookmark, nothing, podJSON("even-2", 0), podJSON("odd-4", 0), status}
	for layout, text := range map[string]string{
		"lines": strings.Join(events, "\n") + "\n", "one line": strings.Join(events, ""), "blank lines": strings.Join(events, "\n\n \n"),
	} {
		for reader, r := range map[string]io.Reader{"whole": strings.NewReader(text), "bytes": iotest.OneByteReader(strings.NewReader(text))} {
			c := podConfig{Body: closer(r), ContentType: typeJSON, MaxFrameBytes: 4000, Skip: odd, Transfer: new(Transfer)}
			var have []string
			for _, e := range cleanly(t, c) {
				have = append(have, string(e.Type)+" "+e.Meta.Name)
			}
			// Of "odd-lost", too large, it is not known what it is.
			want := []string{"ADDED even-1", "BOOKMARK ", "ADDED ", "ADDED even-2", "ERROR "}
			if !slices.Equal(have, want) || c.Transfer.Skipped() != 4 {
				t.Errorf("%s, %s: %q, %d passed over; want %q and 4", layout, reader, have, c.Transfer.Skipped(), want)
			}
		}
	}
	c := protobufConfig(framed(podProtobuf(t, "ADDED", "odd-1", 0), podProtobuf(t, "DELETED", "even", 0), podProtobuf(t, "MODIFIED", "odd-2", 9000)))
	c.Skip, c.Transfer, c.MaxFrameBytes = odd, new(Transfer), 4000
	if have := cleanly(t, c); len(have) != 1 || have[0].Meta.Name != "even" || c.Transfer.Skipped() != 2 {
		t.Errorf("protobuf: %v, %d passed over", have, c.Transfer.Skipped())
	}
}
