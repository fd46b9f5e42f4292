package reflector

import "sync"

// Source is a running reflector, whatever its type.
type Source interface {
	// Status and Stats return copies; both are safe from any goroutine.
	Status() Status
	Stats() Stats
}

// Registry is the set of the reflectors that run in a process. Metrics, debug
// pages and health checks read it. A reflector adds itself when Run starts and
// leaves when Run returns. The zero value is empty and ready.
type Registry struct {
	mu      sync.Mutex
	sources []Source
}

// Sources returns the running reflectors in the order in which they started.
func (g *Registry) Sources() []Source {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]Source(nil), g.sources...)
}

func (g *Registry) add(s Source) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sources = append(g.sources, s)
}

func (g *Registry) remove(s Source) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i, have := range g.sources {
		if have == s {
			g.sources = append(g.sources[:i:i], g.sources[i+1:]...)
			return
		}
	}
}
