package codec

import (
	"cmp"
	"errors"
	"reflect"
	"sync"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// plan is what the Programs of a type have in common. It is not changed once it is made.
type plan struct {
	typ    layout.Type
	nodes  int // one more than the largest id of a node
	fields int // the same of fields

	// ProtoErr and JSONErr say why objects cannot be read in that encoding, if so.
	ProtoErr, JSONErr error

	proto, json *node
}

// planKey is all that a plan is made from.
type planKey struct {
	nodeKey
	emptyTypeMeta bool
}

// plans are by their planKey. That of a pod takes 270 KB, of which a process that watches a thousand nodes needs one. They are
// one for the process, as encoding/json's are, since they follow from the type and nothing else; and kept, since there are as
// many as a program has types and ways to drop fields.
var plans sync.Map

// planOf returns the plan for t. drop is what cfg.Drop says.
func planOf(t reflect.Type, cfg Config, drop *dropTree) *plan {
	key := planKey{nodeKey{t, cfg.Like, drop.String()}, cfg.EmptyTypeMeta}
	if p, ok := plans.Load(key); ok {
		return p.(*plan)
	}
	p, _ := plans.LoadOrStore(key, newPlan(t, cfg, drop))
	return p.(*plan)
}

func newPlan(t reflect.Type, cfg Config, drop *dropTree) *plan {
	p := &plan{typ: layout.TypeOf(t), nodes: aNumber.id + 1}
	c := &compiler{nodes: map[nodeKey]*node{}, count: &p.nodes, fields: &p.fields, proto: true}
	p.proto, p.ProtoErr = c.node(t, cfg.Like, drop)
	if p.ProtoErr == nil && p.proto.kind != aStruct {
		p.ProtoErr = errors.New("it reads protobuf by a method of its own")
	}
	c = &compiler{nodes: map[nodeKey]*node{}, count: &p.nodes, fields: &p.fields}
	p.json, p.JSONErr = c.node(t, nil, drop)
	if p.JSONErr == nil && p.json.kind != aStruct {
		p.JSONErr = cmp.Or(p.json.left, errors.New("it reads JSON by a method of its own"))
	}
	if p.JSONErr == nil && cfg.EmptyTypeMeta {
		p.json.object.checkOnly(t)
	}
	return p
}
