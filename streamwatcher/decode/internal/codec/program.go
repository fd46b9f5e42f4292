package codec

import (
	"hash/maphash"
	"reflect"
	"sync"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// Config says how objects are read.
type Config struct {
	// Drop are paths of fields that are passed over.
	Drop []string
	// Like, if not nil, is the struct from which field numbers are taken where a
	// type has none.
	Like reflect.Type
	// Intern is how many strings are remembered, 0 for none.
	Intern int
	// Share is how many parts of objects are remembered, 0 for none, so that those which
	// nobody writes to share them.
	Share int
	// EmptyTypeMeta leaves the apiVersion and kind of the object empty.
	EmptyTypeMeta bool
}

// Program reads objects of one Go type. It is safe for use by several goroutines.
type Program struct {
	*plan
	usualOnce sync.Once
	usual     []usual // by node; see usually

	pool       sync.Pool // of *state
	keys       words     // of maps that cannot wait for the object's strings
	quantities quantities
	intern     *words          // nil if strings are not interned
	seeds      [2]maphash.Seed // of Parts: those of another Program mean nothing here

	share  int
	once   sync.Once // for what is made when the first object is to be shared
	shares *shares
	smalls *smalls
	pairs  *pairs
	names  *words // are those of objects that are shared; their own alone if there are no shares
}

// Compile makes a Program for the struct type t. An error is one of cfg.
func Compile(t reflect.Type, cfg Config) (*Program, error) {
	drop, err := parseDrop(t, cfg.Drop)
	if err != nil {
		return nil, err
	}
	p := &Program{plan: planOf(t, cfg, drop)}
	p.keys.init(16, 256)
	p.quantities.init(16, 256, func(q *quantity) uint64 { return maphash.String(seed, q.text) })
	p.share, p.seeds = cfg.Share, [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}
	if cfg.Intern > 0 {
		p.intern = newWords(cfg.Intern)
	}
	return p, nil
}

// share makes d ready for an object that others may have parts of.
func (d *state) share() {
	p := d.prog
	p.once.Do(func() {
		p.names, p.pairs = p.intern, newPairs()
		if p.share > 0 {
			p.shares, p.smalls = newShares(p.share, p.seeds), newSmalls()
			if p.intern == nil {
				p.names = newWords(p.share)
			}
		}
	})
	d.shares, d.intern, d.smalls, d.pairs = p.shares, p.names, p.smalls, p.pairs
}

// Protobuf reads an object's message.
func (p *Program) Protobuf(raw []byte) (layout.Ptr, error) {
	if p.ProtoErr != nil {
		return layout.Ptr{}, p.ProtoErr
	}
	return p.decode(raw, readMessage)
}

// JSON reads an object's text.
func (p *Program) JSON(raw []byte) (layout.Ptr, error) {
	if p.JSONErr != nil {
		return layout.Ptr{}, p.JSONErr
	}
	return p.decode(raw, readDocument)
}

// ProtobufShared reads the message of an object that nobody will write to. Parts of it can be those of
// other objects. old is the version before, was the Parts that came with it; both can be nil.
func (p *Program) ProtobufShared(raw []byte, old layout.Ptr, was Parts) (layout.Ptr, Parts, error) {
	if p.ProtoErr != nil {
		return layout.Ptr{}, nil, p.ProtoErr
	}
	return p.decodeShared(raw, &before{old, was}, readMessage)
}

// JSONShared is ProtobufShared for an object's text.
func (p *Program) JSONShared(raw []byte, old layout.Ptr, was Parts) (layout.Ptr, Parts, error) {
	if p.JSONErr != nil {
		return layout.Ptr{}, nil, p.JSONErr
	}
	return p.decodeShared(raw, &before{old, was}, readDocument)
}

func readMessage(d *state, base layout.Ptr) error {
	return d.message(d.prog.proto.message, base, 0, len(d.raw))
}

func readDocument(d *state, base layout.Ptr) error {
	return d.jsonDocument(d.prog.json.object, base)
}
