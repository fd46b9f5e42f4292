package metrics

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/nodewatch-go/nodewatch/reflector"
)

// Register makes reg show the running reflectors of r. It may be called before
// any of them runs.
//
// Registering the same registry again on the same registerer does nothing;
// registering another one adds its reflectors to what is shown. It is an error
// when reg or r is nil, or when reg has metrics of these names from elsewhere.
func Register(reg prometheus.Registerer, r *reflector.Registry) error {
	if reg == nil {
		return errors.New("metrics: the registerer is nil: pass a *prometheus.Registry or prometheus.DefaultRegisterer")
	}
	if r == nil {
		return errors.New("metrics: the reflector registry is nil: pass the one of the reflectors' Config.Registry")
	}
	err := reg.Register(newCollector(r))
	var already prometheus.AlreadyRegisteredError
	if errors.As(err, &already) {
		if have, ok := already.ExistingCollector.(*collector); ok {
			have.add(r)
			return nil
		}
	}
	if err != nil {
		return fmt.Errorf("metrics: registering the nodewatch_* metrics: %w", err)
	}
	return nil
}

// registry is what the collector needs of a *reflector.Registry.
type registry interface{ Sources() []reflector.Source }

// collector reads reflectors when it is collected. It has no state but where to look.
type collector struct {
	mu         sync.Mutex // guards registries
	registries []registry
}

func newCollector(r registry) *collector { return &collector{registries: []registry{r}} }

// add makes the collector read r too, if it does not already.
func (c *collector) add(r registry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, have := range c.registries {
		if have == r {
			return
		}
	}
	c.registries = append(c.registries, r)
}

// Describe implements prometheus.Collector.
func (c *collector) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range families {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(ch chan<- prometheus.Metric) {
	for labels, samples := range c.read(time.Now()) {
		for _, f := range families {
			if having := f.of(samples); len(having) > 0 {
				f.collect(ch, labels, having)
			}
		}
	}
}

// labels identify what is shown as one reflector.
type labels struct{ resource, reflector string }

// sample is one reflector at the time of a scrape.
type sample struct {
	now    time.Time
	status reflector.Status
	stats  reflector.Stats
}

// read takes a sample of every running reflector, grouped by labels.
func (c *collector) read(now time.Time) map[labels][]sample {
	c.mu.Lock()
	registries := append([]registry(nil), c.registries...)
	c.mu.Unlock()
	groups := make(map[labels][]sample)
	for _, r := range registries {
		for _, src := range r.Sources() {
			s := sample{now: now, status: src.Status(), stats: src.Stats()}
			l := labels{valid(s.status.Resource), valid(s.status.Name)}
			groups[l] = append(groups[l], s)
		}
	}
	return groups
}

// valid makes a name fit for a label, which must be UTF-8: a program's odd name
// for a reflector must not make the scrape fail.
func valid(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }

var _ prometheus.Collector = (*collector)(nil)
