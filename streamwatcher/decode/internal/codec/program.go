package codec

import (
	"errors"
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
	// Share is how many parts of objects are remembered, 0 for none.
	Share int
	// EmptyTypeMeta leaves the apiVersion and kind of the object empty.
	EmptyTypeMeta bool
}

// Program reads objects of one Go type. It is safe for use by several goroutines.
type Program struct {
	typ   layout.Type
	nodes int

	// ProtoErr and JSONErr say why objects cannot be read in that encoding, if so.
	ProtoErr, JSONErr error

	proto, json *node

	pool       sync.Pool // of *state
	keys       *words    // of maps that cannot wait for the object's strings
	quantities *words
	intern     *words  // nil if strings are not interned
	shares     *shares // nil if every object has its own of everything
}

// Compile makes a Program for the struct type t. An error is one of cfg.
func Compile(t reflect.Type, cfg Config) (*Program, error) {
	drop, err := parseDrop(t, cfg.Drop)
	if err != nil {
		return nil, err
	}
	p := &Program{typ: layout.TypeOf(t), keys: newWords(256), quantities: newWords(256)}
	if cfg.Share > 0 {
		p.shares = newShares(cfg.Share)
	}
	if cfg.Intern > 0 {
		p.intern = newWords(cfg.Intern)
	}
	c := &compiler{nodes: map[nodeKey]*node{}, count: &p.nodes, proto: true}
	p.proto, p.ProtoErr = c.node(t, cfg.Like, drop)
	if p.ProtoErr == nil && p.proto.kind != aStruct {
		p.ProtoErr = errors.New("it reads protobuf by a method of its own")
	}
	c = &compiler{nodes: map[nodeKey]*node{}, count: &p.nodes}
	p.json, p.JSONErr = c.node(t, nil, drop)
	if p.JSONErr == nil && p.json.kind != aStruct {
		p.JSONErr = errors.New("it reads JSON by a method of its own")
	}
	if p.JSONErr == nil && cfg.EmptyTypeMeta {
		p.json.object.checkOnly(t)
	}
	return p, nil
}

// Protobuf reads an object's message.
func (p *Program) Protobuf(raw []byte) (layout.Ptr, error) {
	if p.ProtoErr != nil {
		return layout.Ptr{}, p.ProtoErr
	}
	return p.decode(raw, func(d *state, base layout.Ptr) error {
		return d.message(d.prog.proto.message, base, 0, len(raw))
	})
}

// JSON reads an object's text.
func (p *Program) JSON(raw []byte) (layout.Ptr, error) {
	if p.JSONErr != nil {
		return layout.Ptr{}, p.JSONErr
	}
	return p.decode(raw, func(d *state, base layout.Ptr) error {
		return d.jsonDocument(d.prog.json.object, base)
	})
}
