package codec

import (
	"errors"
	"fmt"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// state is one goroutine's work on one object.
type state struct {
	prog *Program

	raw  []byte // the object
	pos  int    // JSON: the next byte
	side []byte // JSON: strings whose escapes were taken out
	// depth is how many JSON values, or protobuf messages, are open.
	depth int

	text   *layout.Text // own, or loose within a map that cannot wait
	own    layout.Text
	loose  layout.Text
	makers []*layout.Slices // by node
}

// maxDepth is the limit of encoding/json. Protobuf has none in apimachinery.
const maxDepth = 10000

// errAgain says that the input has a field twice, of which the first has strings
// in places that the second moves. It is read again, each string on its own.
var errAgain = errors.New("a field stands twice")

func (p *Program) state() *state {
	if d, ok := p.pool.Get().(*state); ok {
		return d
	}
	d := &state{prog: p, makers: make([]*layout.Slices, p.nodes)}
	d.loose.Eager = true
	return d
}

// begin makes d ready to read raw.
func (d *state) begin(raw []byte, eager bool) {
	d.raw, d.pos, d.side, d.depth = raw, 0, d.side[:0], 0
	d.own.Eager = eager
	d.text = &d.own
}

// end gives the object its strings, or, after an error, forgets them.
func (d *state) end(failed bool) {
	if failed {
		for _, s := range d.makers {
			s.Reset()
		}
		d.own.Reset()
		d.loose.Reset()
	} else {
		d.own.Finish(d.raw, d.side)
	}
	d.raw = nil
	if cap(d.side) > 64<<10 {
		d.side = nil
	}
}

// decode makes an object by read, which reads into base.
func (p *Program) decode(raw []byte, read func(d *state, base layout.Ptr) error) (layout.Ptr, error) {
	if len(raw) > layout.MaxSource {
		return layout.Ptr{}, fmt.Errorf("object of %d bytes, which is too large", len(raw))
	}
	d := p.state()
	defer p.pool.Put(d)
	base, err := d.object(raw, false, read)
	if err == errAgain {
		base, err = d.object(raw, true, read)
	}
	return base, err
}

func (d *state) object(raw []byte, eager bool, read func(d *state, base layout.Ptr) error) (layout.Ptr, error) {
	d.begin(raw, eager)
	failed := true
	defer func() { d.end(failed) }() // a panic of an Unmarshal method comes by here, too
	base := d.prog.typ.New()
	if err := read(d, base); err != nil {
		return layout.Ptr{}, err
	}
	failed = false
	return base, nil
}
