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
}

// Compile makes a Program for the struct type t. An error is one of cfg.
func Compile(t reflect.Type, cfg Config) (*Program, error) {
	drop, err := parseDrop(t, cfg.Drop)
	if err != nil {
		return nil, err
	}
	p := &Program{typ: layout.TypeOf(t), keys: newWords(256), quantities: newWords(256)}
	c := &compiler{nodes: map[nodeKey]*node{}, count: &p.nodes, proto: true}
	p.proto, p.ProtoErr = c.node(t, cfg.Like, drop)
	if p.ProtoErr == nil && p.proto.kind != aStruct {
		p.ProtoErr = errors.New("it reads protobuf by a method of its own")
	}
	p.JSONErr = errors.New("soon")
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
