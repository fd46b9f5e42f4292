package codec

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

	tracker // of the version before
	hashed  hashed
	row     row
	// shared says that nobody will write to the object, so that it may have parts of others.
	shared  bool
	shares  *shares // nil if none are remembered
	smalls  *smalls // not nil if shares is not
	pairs   *pairs  // nil if the object is not shared, or read again
	pairing pairing
	serial  uint8  // of the object, for words
	intern  *words // nil if no strings are
	// textLuck is that of strings, partLuck that of what is shared.
	textLuck, partLuck luck
	merged             bool // a message of the object stands in two places
	// turn is the number of the Text in use, turns how many there were.
	turn, turns int
	twins       [16]twin

	created layout.Ptr  // the first time that stands in the object itself, see timePointer
	moment  metav1.Time // the one that is read, before it has a place

	scratch []byte // of packing: it is copied when it is complete

	text     *layout.Text // own, or loose within a map that cannot wait
	own      layout.Text
	loose    layout.Text
	texts    []*layout.Text    // that are not in use
	makers   []*layout.Slices  // by node
	quantity resource.Quantity // see entryOf
	chunks   chunks
	usual    []usual // the Program's, once it was needed
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
	d := &state{prog: p, makers: make([]*layout.Slices, p.nodes), textLuck: make(luck, p.fields), partLuck: make(luck, p.nodes), chunks: chunks{byNode: make([]*layout.Chunk, p.nodes)}}
	d.loose.Eager = true
	return d
}

// begin makes d ready to read raw.
func (d *state) begin(raw []byte, eager bool) {
	d.shared, d.shares, d.intern, d.created = false, nil, d.prog.intern, layout.Ptr{}
	d.pairs, d.pairing = nil, pairing{}
	if d.serial++; d.serial == 0 {
		d.serial = 1
	}
	d.turns++
	d.turn = d.turns
	d.raw, d.side, d.depth, d.hashed, d.row, d.merged = raw, d.side[:0], 0, hashed{}, row{}, false
	d.room = minRoom + maxGrowth*len(raw)
	d.own.Eager, d.own.Twins = eager, false
	d.text = &d.own
}

// end gives the object its strings and returns its parts, which stand before them; or, after an error, forgets both.
func (d *state) end(failed bool) (parts Parts) {
	d.endChunks(failed)
	parts = d.tracker.end()
	if failed {
		parts = nil
		for _, s := range d.makers {
			s.Reset()
		}
		d.own.Reset()
		d.loose.Reset()
	} else {
		d.endPairs()
		parts = layout.Row(layout.FinishBehind(&d.own, parts, d.raw, d.side), len(parts))
	}
	d.pairing = pairing{}
	if d.shares != nil {
		clear(d.twins[:])
	}
	d.raw, d.shares, d.created, d.hashed = nil, nil, layout.Ptr{}, hashed{}
	if cap(d.side) > 64<<10 {
		d.side = nil
	}
	return parts
}

func errTooLarge(raw []byte) error {
	return fmt.Errorf("object of %d bytes, which is too large", len(raw))
}

// decode makes an object by read, which reads into base. It is its owner's alone.
func (p *Program) decode(raw []byte, read func(d *state, base layout.Ptr) error) (layout.Ptr, error) {
	base, _, err := p.decodeShared(raw, nil, read)
	return base, err
}

// before is what an object that nobody will write to can have parts of.
type before struct {
	old layout.Ptr
	was Parts
}

// decodeShared is decode of an object that nobody will write to, if version is not nil.
func (p *Program) decodeShared(raw []byte, version *before, read func(d *state, base layout.Ptr) error) (layout.Ptr, Parts, error) {
	if len(raw) > layout.MaxSource {
		return layout.Ptr{}, nil, errTooLarge(raw)
	}
	d := p.state()
	defer p.pool.Put(d)
	base, parts, err := d.object(raw, false, version, read)
	if err == errAgain {
		base, parts, err = d.object(raw, true, version, read)
	}
	return base, parts, err
}

func (d *state) object(raw []byte, eager bool, version *before, read func(d *state, base layout.Ptr) error) (base layout.Ptr, parts Parts, err error) {
	d.begin(raw, eager)
	if version != nil {
		d.shared, d.own.Twins = true, !eager
		if !eager { // which can be written to more than once
			d.share()
			d.tracker.begin(version.old, version.was)
		}
	}
	failed := true
	defer func() { parts = d.end(failed) }() // a panic of an Unmarshal method comes by here, too
	base = d.newRoot()
	d.base = base
	if err := read(d, base); err != nil {
		return layout.Ptr{}, nil, err
	}
	failed = false
	return base, nil, nil
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
