package codec

import (
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/nodewatch-go/nodewatch/streamwatcher/decode/internal/layout"
)

// Any reads JSON objects that have no Go type: into map[string]any, []any, string, int64, float64,
// bool and nil, as sigs.k8s.io/json makes them. It is safe for use by several goroutines.
type Any struct {
	drop   *dropTree
	keys   *words
	intern *words // nil if strings are not interned
	seeds  [2]maphash.Seed
	pool   sync.Pool // of *tape

	share  int
	once   sync.Once
	common *anyParts // made when the first object is to be shared
}

// anyKeys is how many keys of objects are remembered. The objects of one collection have some
// hundreds, and as many those of their managed fields.
const anyKeys = 4096

// NewAny returns an Any that follows cfg, of which Like and EmptyTypeMeta have no meaning here. Any path
// can be dropped: there is no type to say which there are.
func NewAny(cfg Config) (*Any, error) {
	drop, err := parseDrop(nil, cfg.Drop)
	if err != nil {
		return nil, err
	}
	a := &Any{drop: drop, keys: newWords(anyKeys), share: cfg.Share, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	if cfg.Intern > 0 {
		a.intern = newWords(cfg.Intern)
	}
	return a, nil
}

// JSON reads an object's text. What it returns is the caller's alone, but for strings.
func (a *Any) JSON(raw []byte) (map[string]any, error) {
	d, err := a.tape(raw)
	if err != nil {
		return nil, err
	}
	defer a.release(d)
	return d.document(a.drop)
}

// JSONShared reads the text of an object that nobody will write to. Parts of it can be those of other
// objects. old is the version before, was the Parts that came with it; both can be nil.
func (a *Any) JSONShared(raw []byte, old map[string]any, was Parts) (map[string]any, Parts, error) {
	d, err := a.tape(raw)
	if err != nil {
		return nil, nil, err
	}
	defer a.release(d)
	a.once.Do(func() {
		if a.share > 0 {
			a.common = newAnyParts(a.share, a.seeds)
		}
	})
	d.common = a.common
	d.update.begin(old, was)
	m, err := d.document(a.drop)
	if err != nil {
		return nil, nil, err
	}
	return m, d.update.parts(), nil
}

// tape returns a tape for raw, for one goroutine until it releases it.
func (a *Any) tape(raw []byte) (*tape, error) {
	if len(raw) > layout.MaxSource {
		return nil, fmt.Errorf("object of %d bytes, which is too large", len(raw))
	}
	d, ok := a.pool.Get().(*tape)
	if !ok {
		d = &tape{reader: a}
	}
	d.raw = raw
	return d, nil
}

func (a *Any) release(d *tape) {
	d.clear()
	a.pool.Put(d)
}
