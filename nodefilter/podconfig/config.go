package podconfig

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
)

// ErrAlreadyRun is what a second Run returns, that of a producer too.
var ErrAlreadyRun = errors.New("podconfig: Run was called before; make another one with its constructor")

// Config is the whole of a PodConfig.
type Config struct {
	// Sources are the producers, at least one, with different names. "All
	// sources" are these and no others.
	Sources []Producer
	// Behaviour is Improved unless set; see docs/podsources.md for what differs.
	// It concerns the merge; each producer has its own.
	Behaviour Behaviour
	// Logger is told of pods that are refused and of names that two sources
	// have; nil discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Behaviour == "" {
		c.Behaviour = Improved
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func (c Config) validate() error {
	if len(c.Sources) == 0 {
		return errors.New("podconfig.Config.Sources is empty: give at least one producer, such as NewAPIServer makes")
	}
	seen := map[Source]bool{}
	for i, p := range c.Sources {
		switch {
		case p == nil:
			return fmt.Errorf("podconfig.Config.Sources[%d] is nil", i)
		case p.Source() == "":
			return fmt.Errorf("podconfig.Config.Sources[%d] has no name: its Source() is empty", i)
		case seen[p.Source()]:
			return fmt.Errorf("podconfig.Config.Sources[%d]: a second source %q; one producer can have several places", i, p.Source())
		}
		seen[p.Source()] = true
	}
	if err := c.Behaviour.validate(); err != nil {
		return fmt.Errorf("podconfig.Config.Behaviour %w", err)
	}
	return nil
}

// PodConfig merges the pods of several sources into one ordered stream of
// updates. The package comment says what it promises.
type PodConfig struct {
	cfg     Config
	store   *store
	updates chan PodUpdate
	ran     atomic.Bool
}

// kubeletBuffer is how many updates the kubelet's channel holds.
const kubeletBuffer = 50

// New returns a PodConfig that has not started. Errors are those of the
// configuration.
func New(c Config) (*PodConfig, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	p := &PodConfig{cfg: c, updates: make(chan PodUpdate)}
	if c.Behaviour == KubeletCompatible {
		p.updates = make(chan PodUpdate, kubeletBuffer)
	}
	names := make([]Source, len(c.Sources))
	for i, s := range c.Sources {
		names[i] = s.Source()
	}
	p.store = newStore(names, c.Behaviour, c.Logger)
	return p, nil
}

// Updates is the one channel of updates. It has one reader, and is closed when
// Run returns.
//
// The reader may take as long as it likes: what it has not read is merged for
// each pod, and costs memory in proportion to the pods.
func (c *PodConfig) Updates() <-chan PodUpdate { return c.updates }

// SeenAllSources reports whether the reader of Updates has received the Initial
// update of every configured source, so that a pod that it does not know is one
// that no source had. It turns true no later than Updates offers what comes
// after the last of them, and stays true.
func (c *PodConfig) SeenAllSources() bool { return c.store.seenAll() }

// Run runs the sources and the merge until ctx ends, and returns nil then. A
// source that fails for good ends everything; the error names it. Run returns
// when all its goroutines have ended, which waits for the producers.
func (c *PodConfig) Run(ctx context.Context) error {
	if c.ran.Swap(true) {
		return ErrAlreadyRun
	}
	defer close(c.updates)
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)

	var producers sync.WaitGroup
	defer producers.Wait()
	failed := make(chan error, len(c.cfg.Sources))
	for i, p := range c.cfg.Sources {
		source := c.store.sources[i]
		producers.Go(func() {
			err := p.Run(ctx, func(ch Change) { c.tell(ctx, source, ch) })
			if err != nil && ctx.Err() == nil {
				err = fmt.Errorf("pod source %s: %w", source.name, err)
				failed <- err
				fail(err)
			}
		})
	}
	c.pump(ctx)
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// tell is what a producer calls.
func (c *PodConfig) tell(ctx context.Context, s *sourceStore, ch Change) {
	if ctx.Err() != nil {
		return
	}
	c.store.apply(s, ch)
	if c.cfg.Behaviour == KubeletCompatible {
		// The kubelet's source waits for the channel to take the whole change.
		c.store.drained(ctx, s)
	}
}
