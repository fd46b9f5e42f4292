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
	side []byte // JSON: strings whose escapes were taken out
	// depth is how many JSON values, or protobuf messages, are open.
	depth int
	// room is how many bytes the variables may take that are still to be made.
	room int

	text   *layout.Text // own, or loose within a map that cannot wait
	own    layout.Text
	loose  layout.Text
	texts  []*layout.Text   // that are not in use
	makers []*layout.Slices // by node
}

// maxDepth is the limit of encoding/json. Protobuf has none in apimachinery.
const maxDepth = 10000

// An empty element is two bytes in protobuf and can be a kilobyte in Go. So what the slices and
// pointers of an object take is bounded, by minRoom and maxGrowth times its bytes.
const (
	minRoom   = 1 << 20
	maxGrowth = 128
)

var errRoom = fmt.Errorf("an object that would take more than %d times its bytes", maxGrowth)

// take takes n bytes of the room.
func (d *state) take(n uintptr) error {
	if d.room -= int(n); d.room < 0 {
		return errRoom
	}
	return nil
}

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
	d.raw, d.side, d.depth = raw, d.side[:0], 0
	d.room = minRoom + maxGrowth*len(raw)
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

// fieldError is an error in a field, with the path to it.
type fieldError struct {
	path string
	err  error
}

func (e *fieldError) Error() string { return e.path + ": " + e.err.Error() }
func (e *fieldError) Unwrap() error { return e.err }

// within says that err came up in the field of this name. Of a long path it says the end.
func within(name string, err error) error {
	const long = 200
	var e *fieldError
	switch {
	case err == errAgain:
		return err
	case !errors.As(err, &e):
		return &fieldError{name, err}
	case len(e.path) < long:
		e.path = name + "." + e.path
	}
	return err
}
