package gzipstream

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net/http/httputil"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/nodewatch-go/nodewatch/internal/testkit"
)

// fullMember builds a member by hand: all optional fields, as RFC 1952 has them.
func fullMember(text string, damage func(header []byte)) []byte {
	h := []byte{0x1f, 0x8b, 8, flagSum | flagExtra | flagName | flagComment | 1, 1, 2, 3, 4, 0, 255}
	h = append(h, 3, 0, 'x', 'y', 'z')
	h = append(h, "name\x00comment\x00"...)
	h = binary.LittleEndian.AppendUint16(h, uint16(crc32.ChecksumIEEE(h)))
	if damage != nil {
		damage(h)
	}
	b := bytes.NewBuffer(h)
	f, _ := flate.NewWriter(b, flate.BestSpeed)
	_, _ = io.WriteString(f, text)
	_ = f.Close()
	tail := binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE([]byte(text)))
	return append(b.Bytes(), binary.LittleEndian.AppendUint32(tail, uint32(len(text)))...)
}

func TestMembers(t *testing.T) {
	long := strings.Repeat("nodewatch ", 20000)
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"nothing":           {nil, ""},
		"one":               {testkit.GzipMember(t, "a"), "a"},
		"empty":             {testkit.GzipMember(t, ""), ""},
		"many":              {bytes.Join([][]byte{testkit.GzipMember(t, "a"), testkit.GzipMember(t, ""), testkit.GzipMember(t, long), testkit.GzipMember(t, "b")}, nil), "a" + long + "b"},
		"full header":       {append(fullMember("x", nil), fullMember(long, nil)...), "x" + long},
		"zero-length extra": {[]byte("\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x00\x00"), ""},
	} {
		for cut, r := range map[string]io.Reader{"whole": bytes.NewReader(c.b), "one byte": iotest.OneByteReader(bytes.NewReader(c.b)),
			"error with data": iotest.DataErrReader(bytes.NewReader(c.b))} {
			got, err := io.ReadAll(NewReader(r))
			if err != nil || string(got) != c.want {
				t.Errorf("%s, %s: %d bytes, %v, want %d", name, cut, len(got), err, len(c.want))
			}
		}
	}
}

// Damage is an *Error, an end in the middle io.ErrUnexpectedEOF, and what was read before
// either is returned first.
func TestDamage(t *testing.T) {
	good := testkit.GzipMember(t, "nodewatch")
	change := func(i int, c byte) []byte {
		b := bytes.Clone(good)
		b[(i+len(b))%len(b)] ^= c
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		says string
		got  string
	}{
		"not gzip":             {[]byte("nodewatch nodewatch"), "not a gzip member", ""},
		"short and not gzip":   {[]byte("{}"), "not a gzip member", ""},
		"other method":         {change(2, 1), "unknown way", ""},
		"reserved flag":        {change(3, 0x80), "unknown way", ""},
		"checksum":             {change(-8, 1), "does not match", "nodewatch"},
		"length":               {change(-1, 1), "does not match", "nodewatch"},
		"content":              {change(10, good[10]^7), "flate: corrupt", ""},
		"header checksum":      {fullMember("x", func(h []byte) { h[4]++ }), "wrong checksum", ""},
		"header text unending": {append([]byte{0x1f, 0x8b, 8, flagName, 0, 0, 0, 0, 0, 0}, strings.Repeat("x", 1<<20)...), "more than 64 KiB", ""},
	} {
		got, err := io.ReadAll(NewReader(bytes.NewReader(c.b)))
		var damage *Error
		if !errors.As(err, &damage) || !strings.Contains(err.Error(), c.says) || string(got) != c.got {
			t.Errorf("%s: %q, %v; want %q, and an *Error that says %q", name, got, err, c.got, c.says)
		}
	}
	whole := fullMember("nodewatch", nil)
	for i := 1; i < len(whole); i++ {
		if _, err := io.ReadAll(NewReader(bytes.NewReader(whole[:i]))); err != io.ErrUnexpectedEOF {
			t.Errorf("cut at %d of %d: %v", i, len(whole), err)
		}
	}
}

// FuzzReader: what compress/gzip reads without an error comes out here, the same.
func FuzzReader(f *testing.F) {
	f.Add(testkit.GzipMember(f, strings.Repeat("nodewatch ", 30)))
	f.Add(append(testkit.GzipMember(f, "a"), testkit.GzipMember(f, "")...))
	f.Add(fullMember("x", nil))
	// A watch of a kube-apiserver, a member for each event.
	chunked, err := os.ReadFile("../../streamwatcher/testdata/wire/watchlist-json-gzip.body")
	if err != nil {
		f.Fatal(err)
	}
	recorded, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(chunked)))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(recorded)
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = 1 << 20
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var got bytes.Buffer
		_, err := io.Copy(&got, io.LimitReader(NewReader(bytes.NewReader(b)), most))
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20+8*uint64(got.Len()) {
			t.Fatalf("%d bytes allocated for %d that came out", used, got.Len())
		}
		z, wantErr := gzip.NewReader(bytes.NewReader(b))
		if wantErr == io.EOF && len(b) == 0 {
			return // no member at all is the end of a watch here
		}
		var want []byte
		if wantErr == nil {
			want, wantErr = io.ReadAll(io.LimitReader(z, most))
		}
		if wantErr == nil && err != nil && len(b) > 3 && hasReservedFlag(b) {
			return // RFC 1952 wants an error, compress/gzip gives none
		}
		if (err == nil) != (wantErr == nil) || wantErr == nil && !bytes.Equal(got.Bytes(), want) {
			t.Fatalf("%d bytes, %v; compress/gzip: %d bytes, %v", got.Len(), err, len(want), wantErr)
		}
	})
}

// hasReservedFlag tells whether some member may have a flag that RFC 1952 reserves.
func hasReservedFlag(b []byte) bool {
	for i := 0; i+3 < len(b); i++ {
		if b[i] == 0x1f && b[i+1] == 0x8b && b[i+3]&flagReserved != 0 {
			return true
		}
	}
	return false
}
